//! Jobs, admission and the parameter server as accepted.

use core::fmt;
use core::ops::RangeInclusive;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use pascaline_aggregator::Policy;
use pascaline_pipelines::Mode;
use pascaline_pipelines::membership::{OnDeath, Parent, Rights};
use pascaline_ps::asynchronous::Settings;
use pascaline_wire::trailer::Sentence;
use pascaline_wire::{CongestionControl, MulticastGroup};

use super::Located;
use crate::config::ServerLimits;

/// After how long without a sign of life a rank is lost, unless a job says otherwise: before the 30 s are
/// over that an allreduce may take by default, so that its error names the rank.
pub(crate) const DEFAULT_DEAD_AFTER: Duration = Duration::from_secs(20);

/// A job as accepted.
#[derive(Debug, Clone)]
pub(crate) struct JobConfig {
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) fan_in: u16,
    pub(crate) window: u16,
    pub(crate) members: Option<Vec<IpAddr>>,
    /// The most ranks that one address may have.
    pub(crate) max_ranks_per_host: u16,
    /// How its workers train together.
    pub(crate) mode: Mode,
    /// True if the keys leave open where in the pool its PSNs are kept, and whether it has a server.
    pub(crate) movable: bool,
    /// How the job uses the pool.
    pub(crate) policy: Policy,
    /// Its guaranteed share, in proportion to the other jobs'.
    pub(crate) share: u16,
    /// Contributions that complete a PSN at first; SetH may change it.
    pub(crate) needed: u16,
    /// Whether SetH and FBcast are admitted: PSNs may complete with fewer contributions than all. Only in
    /// regions of jobs without server.
    pub(crate) partials: bool,
    /// After how long without a sign of life a rank is lost; never, where there is none.
    pub(crate) dead_after: Option<Duration>,
    /// What happens then.
    pub(crate) on_death: OnDeath,
    /// Which members may reset and suspend it by packets.
    pub(crate) control: Rights,
    /// Which congestion control its workers follow.
    pub(crate) congestion: CongestionControl,
    /// The group that results go to, for those who hear it.
    pub(crate) multicast: Option<MulticastGroup>,
    /// Where its workers register, if they are SwitchML's clients.
    pub(crate) switchml: Option<SwitchMlConfig>,
    /// The appliance that its sums go to.
    pub(crate) parent: Option<Parent>,
    /// Those that take its place, in their order.
    pub(crate) backups: Vec<Parent>,
    /// Why no rank may join: a query of `verify` that fails.
    pub(crate) refused: Option<Sentence>,
}

/// What a job of SwitchML's clients has of its own.
#[derive(Debug, Clone)]
pub(crate) struct SwitchMlConfig {
    /// Where its controller listens.
    pub(crate) controller: Located<SocketAddr>,
    /// The UDP port that they send to.
    pub(crate) udp_port: u16,
    /// The appliance's address that they are told.
    pub(crate) address: [u8; 4],
}

/// Which jobs may be formed by their workers' Joins alone.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionConfig {
    /// Their numbers; a job of `[[jobs]]` among them is as written there.
    pub(crate) jobs: RangeInclusive<u16>,
    /// Where the Joins may come from.
    pub(crate) from: Vec<IpNet>,
    /// At most as many at the same time.
    pub(crate) max_jobs: u16,
    /// Of these, at most as many that one host has formed.
    pub(crate) max_jobs_per_host: u16,
    /// The most ranks of one that one address may have.
    pub(crate) max_ranks_per_host: u16,
    /// The most ranks of one.
    pub(crate) max_fan_in: u16,
    /// The window of one.
    pub(crate) window: u16,
    /// How each uses the pool: in the shared part, with its quota.
    pub(crate) policy: Policy,
}

/// Where the parameter server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PsMode {
    /// In a thread of the appliance.
    Embedded,
    /// As a process of its own, `pascaline ps`.
    External {
        /// Where it is: nothing from elsewhere is taken for the server.
        address: SocketAddr,
        /// Which of the appliance's addresses it talks to.
        appliance: SocketAddr,
    },
    /// Nowhere.
    None,
}

/// The parameter server as accepted.
#[derive(Debug, Clone)]
pub(crate) struct PsConfig {
    /// Where it runs. Stands at the table, or at the beginning of the file, if there is none.
    pub(crate) mode: Located<PsMode>,
    /// Where an external one is scraped.
    pub(crate) listen: Option<Located<SocketAddr>>,
    /// What it may hold.
    pub(crate) limits: ServerLimits,
    /// How it trains jobs of mode "olaf".
    pub(crate) training: Settings,
    /// Where it keeps their models.
    pub(crate) checkpoint: Checkpoint,
}

/// Where models are kept while no server runs. Workers have the latest weights besides.
#[derive(Debug, Clone)]
pub(crate) enum Checkpoint {
    /// Where the service manager says that state belongs, if it says so.
    Default,
    /// In this directory.
    In(Located<PathBuf>),
    /// Nowhere.
    No,
}

/// A policy in a few words.
pub(super) struct Told<'a>(pub(super) &'a Policy);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { conflict, order, region, quota, partial_after, server } = self.0;
        match region {
            None => f.write_str("shared")?,
            Some(region) => write!(f, "region of {} sets from set {}", region.sets, region.first)?,
        }
        write!(f, ", {}, order of {}", conflict.name(), order.name())?;
        if *quota > 0 {
            write!(f, ", at most {quota} partials")?;
        }
        if *partial_after > 0 {
            write!(f, ", sent out after {:?}", Duration::from_nanos(*partial_after))?;
        }
        f.write_str(if *server { ", with server" } else { ", no server" })
    }
}
