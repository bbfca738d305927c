//! What a job is to be like.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use ipnet::IpNet;
use pascaline_seal::{Holder, JobKeys, LONGER};
use pascaline_wire::frame::Address;
use pascaline_wire::trailer::{Bitmap, Sentence};
use pascaline_wire::{CongestionControl, MulticastGroup};

use super::kind::JobKind;
use super::uplink::Parent;

/// What becomes of a generation that has lost ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDeath {
    /// It is over: the workers fail, and can name the lost ranks.
    #[default]
    Fail,
    /// The job goes on without them, in its next generation.
    Continue,
}

/// Who may reset and suspend a job, change its threshold and send out partials by packets. Operators may
/// anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rights {
    /// Any member.
    #[default]
    Members,
    /// The member with rank 0.
    RankZero,
    /// No member.
    Operator,
}

/// Where a job's parameter server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerMode {
    /// There is none.
    #[default]
    None,
    /// In this process.
    Embedded,
    /// A process of its own, which registers by Serve. Whatever comes from elsewhere is not the server.
    External {
        /// Its address.
        address: Address,
        /// Its UDP port.
        udp_port: u16,
    },
}

/// A job as configured.
///
/// ```
/// use pascaline_pipelines::membership::{JobSpec, OnDeath};
///
/// let job = JobSpec { window: 128, on_death: OnDeath::Continue, ..JobSpec::new(7, 4) };
/// assert_eq!((job.id, job.fan_in, job.kind.needed()), (7, 4, None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Its number.
    pub id: u16,
    /// Its ranks; 1 to 1,024.
    pub fan_in: u16,
    /// How far a PSN may run ahead of the oldest one without a result.
    pub window: u16,
    /// Longest payload in bytes that its workers may choose.
    pub max_payload: u16,
    /// The address of each rank, if only these are admitted.
    pub admitted: Option<Vec<Address>>,
    /// Its kind.
    pub kind: JobKind,
    /// What it is sure of, in proportion to the other jobs: slots of the shared pool, packets of a busy
    /// lcore, room at the parameter server.
    pub share: u16,
    /// After how long without a sign of life a rank is lost while others wait for it; `None` for never.
    /// Should be longer than any worker computes between two operations.
    pub dead_after: Option<Duration>,
    /// What happens then.
    pub on_death: OnDeath,
    /// Who may command it.
    pub control: Rights,
    /// Which congestion control its workers are told to follow; theirs to choose, if none.
    pub congestion: Option<CongestionControl>,
    /// The group that results go to, for those of its members that hear it.
    pub multicast: Option<MulticastGroup>,
    /// The most ranks that one address may have; more are refused. An appliance below is one.
    pub max_ranks_per_host: u16,
    /// Slots that it may fill: of its region, or of all that it shares with others.
    pub slots: usize,
    /// The appliance that adds up what this one does, with others' sums.
    pub parent: Option<Parent>,
    /// Those that take its place, the first that answers, while it is silent.
    pub backups: Vec<Parent>,
    /// With what its packets are sealed, if they are.
    pub keys: Option<Arc<JobKeys>>,
    /// With what packets to the parent, and to each backup, are sealed; none if they are not.
    pub keys_above: Vec<Holder>,
    /// Why nobody may join: an objective of the operator's that it would not meet.
    pub refused: Option<Sentence>,
}

impl JobSpec {
    /// After how long without a sign of life a rank is lost by default: before the 30 s are over that an
    /// allreduce may take by default, so that its error names the rank.
    pub const DEAD_AFTER: Duration = Duration::from_secs(20);
    /// The window by default.
    pub const WINDOW: u16 = 512;
    /// The longest payload by default: the most whole cache lines that an IPv4 packet of 1,500 bytes holds.
    pub const MAX_PAYLOAD: u16 = 1408;

    /// A job of this many ranks, everything else by default: any source, slots that it
    /// [shares](JobKind::default), and a rank that is lost fails the job after
    /// [`DEAD_AFTER`](Self::DEAD_AFTER).
    #[must_use]
    pub fn new(id: u16, fan_in: u16) -> Self {
        Self {
            id,
            fan_in,
            window: Self::WINDOW,
            max_payload: Self::MAX_PAYLOAD,
            admitted: None,
            kind: JobKind::default(),
            share: 1,
            dead_after: Some(Self::DEAD_AFTER),
            on_death: OnDeath::default(),
            control: Rights::default(),
            congestion: None,
            multicast: None,
            max_ranks_per_host: u16::MAX,
            slots: usize::MAX,
            parent: None,
            backups: Vec::new(),
            keys: None,
            keys_above: Vec::new(),
            refused: None,
        }
    }

    /// The longest payload whose results fit the ports, too: one that lacks ranks, by the threshold or since
    /// they are lost, says so behind its payload.
    pub(super) fn limit(&self) -> u16 {
        let lacks = self.kind.is_early() || self.on_death == OnDeath::Continue;
        let names = Bitmap::new(self.fan_in).filter(|_| lacks);
        let behind = names.map_or(0, |names| names.capacity() / 8 + 4);
        let sealed = self.keys.is_some() || !self.keys_above.is_empty();
        let seal = u16::try_from(LONGER).ok().filter(|_| sealed).unwrap_or(0);
        (self.max_payload.saturating_sub(behind + seal) / 8 * 8).max(8)
    }
}

/// Which jobs are formed by their workers' Joins alone, and what they may have.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Their numbers; those of configured jobs among them are not theirs.
    pub jobs: RangeInclusive<u16>,
    /// Where Joins may come from.
    pub from: Vec<IpNet>,
    /// Such jobs at the same time.
    pub max_jobs: usize,
    /// Of these, those that one address has formed.
    pub max_jobs_per_host: usize,
    /// Most ranks of one.
    pub max_fan_in: u16,
    /// What such a job is like. Number and fan-in are the Join's, not these.
    pub like: JobSpec,
    /// After how long without a sign of life such a job is forgotten.
    pub idle: Duration,
}

impl Admission {
    /// After how long without a sign of life such a job is forgotten by default.
    pub const IDLE: Duration = Duration::from_secs(600);

    /// True if Joins for these jobs may come from an address.
    #[must_use]
    pub fn admits(&self, address: Address) -> bool {
        self.from.iter().any(|network| network.contains(&core::net::IpAddr::from(address)))
    }
}
