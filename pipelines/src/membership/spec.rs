//! What a job is to be like.

use core::ops::RangeInclusive;
use core::time::Duration;

use ipnet::IpNet;
use pascaline_aggregator::Policy;
use pascaline_wire::frame::Address;
use pascaline_wire::trailer::{Bitmap, Sentence};
use pascaline_wire::{CongestionControl, MulticastGroup};

use super::registration::Registry;
use super::uplink::Parent;
use crate::jobs::Mode;

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
/// assert_eq!((job.id, job.fan_in, job.threshold), (7, 4, None));
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
    /// How its workers train together.
    pub mode: Mode,
    /// How it uses the pool. Its `server` holds only while there is a [`server`](Self::server) to send to.
    pub policy: Policy,
    /// What it is sure of, in proportion to the other jobs: slots of the shared pool, packets of a busy
    /// lcore, room at the parameter server.
    pub share: u16,
    /// Contributions that complete a PSN, if not all; workers may change it where `partials` is set. Taken to
    /// be at least 1 and at most the fan-in.
    pub threshold: Option<u16>,
    /// Whether results may be partial, so that SetH is admitted (iSwitch, Table 2).
    pub partials: bool,
    /// After how long without a sign of life a rank is lost while others wait for it; `None` for never.
    /// Should be longer than any worker computes between two operations.
    pub dead_after: Option<Duration>,
    /// What happens then.
    pub on_death: OnDeath,
    /// Where its parameter server is.
    pub server: ServerMode,
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
    /// How its workers register, if they are SwitchML's clients; nobody can join then.
    pub registry: Option<Registry>,
    /// The appliance that adds up what this one does, with others' sums.
    pub parent: Option<Parent>,
    /// Those that take its place, the first that answers, while it is silent.
    pub backups: Vec<Parent>,
    /// Why nobody may join: an objective of the operator's that it would not meet.
    pub refused: Option<Sentence>,
}

impl JobSpec {
    /// After how long without a sign of life a rank is lost by default: longer than it computes between two
    /// operations, as a rule.
    pub const DEAD_AFTER: Duration = Duration::from_secs(60);
    /// The window by default.
    pub const WINDOW: u16 = 512;
    /// The longest payload by default: the most whole cache lines that an IPv4 packet of 1,500 bytes holds.
    pub const MAX_PAYLOAD: u16 = 1408;

    /// A job of this many ranks, everything else by default: any source, the pool's default policy, all
    /// contributions complete a PSN, no server, and a rank that is lost fails the job after
    /// [`DEAD_AFTER`](Self::DEAD_AFTER).
    #[must_use]
    pub fn new(id: u16, fan_in: u16) -> Self {
        Self {
            id,
            fan_in,
            window: Self::WINDOW,
            max_payload: Self::MAX_PAYLOAD,
            admitted: None,
            mode: Mode::Sync,
            policy: Policy::default(),
            share: 1,
            threshold: None,
            partials: false,
            dead_after: Some(Self::DEAD_AFTER),
            on_death: OnDeath::default(),
            server: ServerMode::default(),
            control: Rights::default(),
            congestion: None,
            multicast: None,
            max_ranks_per_host: u16::MAX,
            slots: usize::MAX,
            registry: None,
            parent: None,
            backups: Vec::new(),
            refused: None,
        }
    }

    /// The longest payload whose results fit the ports, too: one that lacks ranks, by the threshold or since
    /// they are lost, says so behind its payload.
    pub(super) fn limit(&self) -> u16 {
        let lacks = self.partials || self.on_death == OnDeath::Continue;
        let names = Bitmap::new(self.fan_in).filter(|_| lacks);
        let behind = names.map_or(0, |names| names.capacity() / 8 + 4);
        (self.max_payload.saturating_sub(behind) / 8 * 8).max(8)
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
