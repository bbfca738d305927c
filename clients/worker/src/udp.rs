//! The driver over a kernel UDP socket: [`Worker`].

use std::io;
use std::net::SocketAddr;

use core::fmt;
use core::time::Duration;

use pascaline_wire::ports::UdpPortsError;
use pascaline_wire::{CongestionControl, MAX_RANKS, UdpPorts};

use crate::allreduce::Failure;
use crate::identity::Identity;
use crate::masked::Fault;
use crate::membership::JoinFailure;
use crate::places;
use crate::session::{CommandFailure, StartError};
use crate::way::largest_payload;

mod appliances;
mod asynchronous;
mod background;
mod collectives;
mod group;
mod interrupt;
mod notice;
mod outgoing;
mod reach;
mod serving;
mod socket;
mod streams;
mod transfer;
mod tree;
mod worker;

pub use appliances::{Addresses, Appliances};
pub use asynchronous::{AsyncConfig, AsyncJoinError, AsyncWorker};
pub use background::{Background, Finished, Handle, Sealed, Submitted};
pub use interrupt::Interrupt;
pub use notice::Notice;
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
        let most = largest_payload(mtu.unwrap_or(USUAL_MTU), self.appliance.is_ipv6());
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

/// A configuration that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No ranks, or too many.
    #[error("{ranks} ranks: a job has 1 to {MAX_RANKS}")]
    Ranks {
        /// The rank count.
        ranks: u16,
    },
    /// The rank is not below the rank count.
    #[error("rank {rank} of {ranks}: ranks are counted from 0 to {}", ranks - 1)]
    Rank {
        /// The rank.
        rank: u16,
        /// The rank count.
        ranks: u16,
    },
    /// The payload length is out of range or no multiple of the largest element.
    #[error("payload of {payload} bytes: must be a multiple of 8, at most {MAX_PAYLOAD}")]
    Payload {
        /// The payload length.
        payload: u16,
    },
    /// It does not fit into its 6 bits.
    #[error("DSCP {dscp}: at most {MAX_DSCP}")]
    Dscp {
        /// The DSCP.
        dscp: u8,
    },
    /// A spread of 0.
    #[error("spread must be at least 1")]
    NothingInFlight,
    /// More backups than a list may have.
    #[error("{backups} backup appliances: at most {most}")]
    Backups {
        /// How many there are.
        backups: usize,
        /// How many there may be.
        most: usize,
    },
    /// More trees than a worker may have, or than there are numbers for their jobs.
    #[error("job {job} with {trees} trees: at most {most}, and each has the next job's number")]
    Trees {
        /// The first tree's job.
        job: u16,
        /// How many there are.
        trees: usize,
        /// How many there may be.
        most: usize,
    },
    /// No stream, more than a rank may have, or than there are numbers for their jobs.
    #[error(
        "{streams} streams of job {job} with {trees} trees: 1 to {MAX_STREAMS}, and each tree of each \
             stream has the next job's number"
    )]
    Streams {
        /// The first stream's job.
        job: u16,
        /// How many there are.
        streams: u16,
        /// The trees of each.
        trees: usize,
    },
    /// A tree without an appliance.
    #[error("tree {tree} has no appliance")]
    NoAppliance {
        /// The tree's number, from 0.
        tree: usize,
    },
    /// An appliance that would be its own backup.
    #[error("{appliance} is in the list of appliances twice")]
    Twice {
        /// The appliance.
        appliance: SocketAddr,
    },
    /// The socket of a worker has one address family.
    #[error("{backup} cannot stand in for {appliance}: one is IPv4, the other IPv6")]
    BackupFamily {
        /// The backup.
        backup: SocketAddr,
        /// The appliance.
        appliance: SocketAddr,
    },
    /// No appliance can answer in no time.
    #[error("a silence of 0 s: no appliance could answer in time")]
    Silence,
    /// No appliance has such ports.
    #[error(transparent)]
    UdpPorts(#[from] UdpPortsError),
    /// One address is IPv4, the other IPv6.
    #[error("cannot bind to {bind} to reach {appliance}: one is IPv4, the other IPv6")]
    Family {
        /// The local address.
        bind: SocketAddr,
        /// The appliance's.
        appliance: SocketAddr,
    },
}

/// Why a worker could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An operation of the system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The appliance rejected the worker, or time ran out.
    #[error("joining at {appliance} failed{}: {failure}", AsAt(.others))]
    Failed {
        /// The appliance, the latest one of several.
        appliance: SocketAddr,
        /// If none has answered: the other ones that were asked.
        others: Vec<SocketAddr>,
        /// Why.
        #[source]
        failure: JoinFailure,
    },
}

/// Further addresses with the same failure.
struct AsAt<'a>(&'a [SocketAddr]);

impl fmt::Display for AsAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, other) in self.0.iter().enumerate() {
            write!(f, "{} {other}", if at == 0 { ", as at" } else { "," })?;
        }
        Ok(())
    }
}

/// Why a command of a member had no effect, or none that could be seen.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The appliance refused it, or did not answer.
    #[error(transparent)]
    Failed(#[from] CommandFailure),
    /// It could not begin.
    #[error("no command can be sent: {0}")]
    Start(#[from] StartError),
    /// An operation of the system failed. The worker can only be dropped.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// Why an allreduce failed.
#[derive(Debug, thiserror::Error)]
pub enum AllreduceError {
    /// The deadline passed, or the appliance rejected a packet. The tensor's content is unspecified. After
    /// [`Reason::Generation`](crate::Reason::Generation) the next allreduce is the first one of all ranks:
    /// every worker of the job fails once. Otherwise all ranks must join again.
    #[error("allreduce failed: {0}")]
    Failed(#[from] Failure),
    /// It could not begin. The tensor is unchanged. [`StartError::Ended`] means `Reason::Generation`, noticed
    /// between two allreduces.
    #[error("allreduce not started: {0}")]
    Start(#[from] StartError),
    /// It was to be masked, and a rank or what is on the way does not do its part.
    #[error("masked allreduce failed: {0}")]
    Masked(#[from] Fault),
    /// An operation of the system failed. As with `Failed`, the worker can only be dropped.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}
