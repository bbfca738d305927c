//! The driver over a kernel UDP socket: [`Worker`].

use std::net::SocketAddr;

use core::time::Duration;

use pascaline_wire::{CongestionControl, MAX_RANKS, UdpPorts};

use crate::identity::Identity;
use crate::places;
use crate::way::largest_payload;

mod appliances;
mod asynchronous;
mod background;
mod collectives;
mod errors;
mod group;
mod handshake;
mod interrupt;
mod notice;
mod outgoing;
mod reach;
mod sealing;
mod seals;
mod serving;
mod socket;
mod streams;
mod transfer;
mod tree;
mod worker;

pub use appliances::{Addresses, Appliances};
pub use asynchronous::{AsyncConfig, AsyncJoinError, AsyncWorker};
pub use background::{Background, Finished, Handle, Sealed, Submitted};
pub use errors::{AllreduceError, CommandError, ConfigError, JoinError};
pub use interrupt::Interrupt;
pub use notice::Notice;
pub use sealing::Sealing;
pub use seals::{SEAL, Seals};
pub use streams::{MAX_STREAMS, Streams};
pub use worker::{Departure, TreeReport, Worker, session_number};

/// The longest payload of a full packet: the room of a UDP datagram over IPv4 besides the header and a
/// trailer.
pub const MAX_PAYLOAD: u16 = 65_280;
/// The largest DSCP (RFC 2474): it has 6 bits.
const MAX_DSCP: u8 = 63;
/// Ethernet's MTU, for a path of unknown MTU.
const USUAL_MTU: usize = 1500;

/// Where to join, as what, and how to behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The appliance's address; of several UDP ports, the first.
    pub appliance: SocketAddr,
    /// Other appliances with the same job, none by default: if one does not answer, its workers turn to the
    /// next of the list and resume there. The same list at all ranks, in the same order; at most 7.
    pub backups: Vec<SocketAddr>,
    /// Further trees of the job, none by default: of each the appliance and, behind it, its backups. A tree
    /// carries a part of every tensor (small ones take turns), with a window and a congestion control of its
    /// own. The next tree's job is `job + 1`, and so on. A tree whose appliances do not answer resumes at the
    /// next tree's. The same trees at all ranks, in the same order; at most 7.
    pub trees: Vec<Vec<SocketAddr>>,
    /// The appliances among them whose names have several addresses, none by default. Joining takes the first
    /// address that answers.
    pub several: Vec<Addresses>,
    /// For how long an appliance may be silent until the worker turns to the next one, 500 ms by default.
    /// Only used with [`backups`](Self::backups) or [`trees`](Self::trees).
    pub silence: Duration,
    /// The UDP ports that the appliance listens on, 1 by default. A packet about a PSN goes to port `PSN mod
    /// udp_ports` after the first, so that each of the appliance's lcores can receive the PSNs it owns.
    pub udp_ports: u16,
    /// The DSCP of this worker's packets and of the answers, 0 to 63; 0 by default. An appliance may accept
    /// no others.
    pub dscp: u8,
    /// The job.
    pub job: u16,
    /// This worker's rank, below `ranks`.
    pub rank: u16,
    /// The job's rank count, 1 to 1,024.
    pub ranks: u16,
    /// Payload bytes of a full packet, a multiple of 8. With 0, the default, the payload that fills a packet
    /// of the smallest MTU on any rank's way or at the appliance's ports: the ranks agree on it when they
    /// join, and [`Membership`](crate::Membership) has it. Otherwise the others follow this one, if they can;
    /// no packet may be longer than the path's MTU, since an appliance cannot aggregate fragments.
    pub payload: u16,
    /// Packets in flight at most; with 0, the default, `spread` is the only bound.
    pub in_flight: u16,
    /// The control of packets in flight, in place of the one that the appliance names for the job. By default
    /// that one; if it names none, [`Delay`](CongestionControl::Delay), or
    /// [`Fixed`](CongestionControl::Fixed) with an `in_flight`. See [`congestion`](crate::congestion).
    pub congestion: Option<CongestionControl>,
    /// How far a PSN may run ahead of the oldest one without a result: 512 by default, and the appliance may
    /// grant less. A few times the packets in flight, so that the recovery of one packet does not stop the
    /// others. Costs 2 × 64 bytes and one payload per PSN.
    pub spread: u16,
    /// The local address and port; by default, routing's choice, and any free port.
    pub bind: Option<SocketAddr>,
    /// How long to wait until all ranks have joined, 30 s by default.
    pub join_deadline: Duration,
    /// How long one allreduce may take, 30 s by default.
    pub deadline: Duration,
    /// How long a worker that leaves helps the others when none is known to wait inside an allreduce, 2 s by
    /// default. While one waits, the worker stays for up to [`deadline`](Self::deadline) longer. It ends as
    /// soon as all ranks have left.
    pub linger: Duration,
    /// Whether to take results that lack ranks, true by default. Only jobs that are configured so have any:
    /// they complete early (a threshold, a time limit) or continue after the death of a rank.
    /// [`Report::partial`] names the missing ranks. Without it such results are refused, and an allreduce
    /// that gets no others fails at its deadline. Costs 16 bytes for every PSN of 2 × `spread`, and 8 for
    /// every 64 ranks.
    ///
    /// [`Report::partial`]: crate::Report::partial
    pub accept_partial: bool,
    /// What proves this worker's packets, and the appliance's, in a job whose `security` is `mac` or
    /// `encrypt`; none by default. Packets then have 28 bytes less for the payload, and results come by
    /// unicast only.
    pub seals: Option<Seals>,
    /// Callback run from a blocking call once it has stalled for about a second; none by default.
    pub notice: Option<Notice>,
    /// Callback run several times a second while joining (over a DPDK port, at each turn), that returns
    /// whether to give up; none by default. Joining then ends with an error of the system's, of the kind
    /// `Interrupted` (over a DPDK port: of its own, of that name), and the rank is free.
    pub interrupt: Option<Interrupt>,
}

impl Config {
    /// A configuration with the defaults.
    #[must_use]
    pub const fn new(appliance: SocketAddr, job: u16, rank: u16, ranks: u16) -> Self {
        Self {
            appliance,
            backups: Vec::new(),
            trees: Vec::new(),
            several: Vec::new(),
            silence: places::SILENCE,
            udp_ports: 1,
            dscp: 0,
            job,
            rank,
            ranks,
            payload: 0,
            in_flight: 0,
            congestion: None,
            spread: 512,
            bind: None,
            join_deadline: Duration::from_secs(30),
            deadline: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            accept_partial: true,
            seals: None,
            notice: None,
            interrupt: None,
        }
    }

    /// Checks all that needs no appliance.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { ranks, rank, payload, .. } = *self;
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(ConfigError::Ranks { ranks });
        }
        if rank >= ranks {
            return Err(ConfigError::Rank { rank, ranks });
        }
        if payload > MAX_PAYLOAD || !payload.is_multiple_of(8) {
            return Err(ConfigError::Payload { payload });
        }
        if self.dscp > MAX_DSCP {
            return Err(ConfigError::Dscp { dscp: self.dscp });
        }
        if self.spread == 0 {
            return Err(ConfigError::NothingInFlight);
        }
        self.ports()?;
        self.check_appliances()?;
        self.check_keys(self.job.saturating_add(u16::try_from(self.trees.len()).unwrap_or(u16::MAX)))?;
        match self.bind {
            Some(bind) if !self.has_family(self.appliance, bind.is_ipv4()) => {
                Err(ConfigError::Family { bind, appliance: self.appliance })
            }
            _ => Ok(()),
        }
    }
}

impl Config {
    /// The payload that the worker offers when it joins, and whether a shorter one is acceptable: the
    /// configured one, otherwise the largest in a packet of the path's MTU, where this host knows that.
    #[must_use]
    pub fn offer(&self, mtu: Option<usize>) -> (Identity, bool) {
        let &Self { job, rank, ranks, payload: told, .. } = self;
        let room = mtu.unwrap_or(USUAL_MTU).saturating_sub(self.longer().into());
        let most = largest_payload(room, self.appliance.is_ipv6());
        let most = u16::try_from(most).unwrap_or(MAX_PAYLOAD).clamp(8, MAX_PAYLOAD);
        (Identity { job, rank, ranks, payload: if told == 0 { most } else { told } }, told == 0)
    }

    /// The appliance's UDP ports.
    ///
    /// # Errors
    /// [`ConfigError::UdpPorts`].
    pub fn ports(&self) -> Result<UdpPorts, ConfigError> {
        self.ports_of(self.appliance)
    }

    fn ports_of(&self, appliance: SocketAddr) -> Result<UdpPorts, ConfigError> {
        Ok(UdpPorts::new(appliance.port(), self.udp_ports)?)
    }
}
