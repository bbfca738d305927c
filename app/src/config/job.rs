//! Jobs, admission and the parameter server as accepted.

use core::fmt;
use core::ops::RangeInclusive;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use pascaline_aggregator::{Order, Policy, Region};
use pascaline_pipelines::Mode;
use pascaline_pipelines::membership::{OnDeath, Parent, Rights};
use pascaline_ps::asynchronous::Settings;
use pascaline_wire::trailer::Sentence;
use pascaline_wire::{CongestionControl, MulticastGroup};

use super::Located;
use super::kind::Kind;
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
    /// What it is, with what only such jobs have.
    pub(crate) kind: Kind,
    /// Its slots, if it has any of its own.
    pub(crate) region: Option<Region>,
    /// Its guaranteed share, in proportion to the other jobs'.
    pub(crate) share: u16,
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
    /// The appliance that its sums go to.
    pub(crate) parent: Option<Parent>,
    /// Those that take its place, in their order.
    pub(crate) backups: Vec<Parent>,
    /// Why no rank may join: a query of `verify` that fails.
    pub(crate) refused: Option<Sentence>,
}

impl JobConfig {
    /// How its workers train together.
    pub(crate) fn mode(&self) -> Mode {
        if self.kind == Kind::Updates { Mode::Olaf } else { Mode::Sync }
    }

    /// How the job uses the pool.
    pub(crate) fn policy(&self) -> Policy {
        let own = Policy { region: self.region, ..Policy::default() };
        match self.kind {
            // A partial in the order of ranks keeps all its packets: as many as ranks may have in flight.
            Kind::Region { order: order @ Order::Rank } => Policy { order, quota: self.window.into(), ..own },
            Kind::Region { order: Order::Arrival } | Kind::Switchml(_) => own,
            Kind::Shared { conflict, server, order, quota } => {
                Policy { conflict, server, order, quota, ..own }
            }
            Kind::Early { partial_after, .. } => {
                let nanos = partial_after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
                Policy { partial_after: nanos.unwrap_or(0), ..own }
            }
            // The model is at the root's.
            Kind::Updates => Policy { server: self.parent.is_none(), ..own },
        }
    }

    /// Whether a parameter server completes sums of it.
    pub(crate) const fn serves_sums(&self) -> bool {
        matches!(self.kind, Kind::Shared { server: true, .. })
    }

    /// Contributions that complete a PSN at first.
    pub(crate) const fn needed(&self) -> u16 {
        match self.kind {
            Kind::Early { needed, .. } => needed,
            _ => self.fan_in,
        }
    }

    /// Where its workers register, if they are SwitchML's clients.
    pub(crate) const fn switchml(&self) -> Option<&SwitchMlConfig> {
        match &self.kind {
            Kind::Switchml(config) => Some(config),
            _ => None,
        }
    }
}

/// What a job of SwitchML's clients has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// How it trains jobs of kind "updates".
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
