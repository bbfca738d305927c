//! Jobs and the parameter server as accepted.

use core::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pascaline_aggregator::Policy;
use pascaline_pipelines::membership::{JobKind, JobSpec, Registry, ServerMode};
use pascaline_ps::asynchronous::Settings;

use super::Located;
use crate::config::ServerLimits;

/// A job as accepted. Its longest payload and its slots are those that the appliance has, once it is known.
#[derive(Debug, Clone)]
pub(crate) struct JobConfig {
    pub(crate) name: String,
    /// What it is to be like.
    pub(crate) spec: JobSpec,
    /// Where the key is that its packets are sealed with, if they are.
    pub(crate) key_file: Option<PathBuf>,
    /// That of its keys at its parent.
    pub(crate) parent_key_file: Option<PathBuf>,
    /// Where SwitchML's clients register, if its workers are such.
    pub(crate) controller: Option<Located<SocketAddr>>,
}

impl JobConfig {
    /// How the job uses the pool.
    pub(crate) fn policy(&self) -> Policy {
        self.spec.kind.policy(self.spec.window)
    }

    /// Whether it sends updates.
    pub(crate) const fn updates(&self) -> bool {
        matches!(self.spec.kind, JobKind::Updates { .. })
    }

    /// Whether a parameter server completes sums of it.
    pub(crate) fn serves_sums(&self) -> bool {
        !self.updates() && self.spec.kind.has_server()
    }

    /// Contributions that complete a PSN at first.
    pub(crate) fn needed(&self) -> u16 {
        self.spec.kind.needed().unwrap_or(self.spec.fan_in)
    }

    /// The protection of its packets.
    pub(crate) fn security(&self) -> &'static str {
        self.spec.keys.as_ref().map_or("none", |keys| keys.protection().name())
    }

    /// Where its workers register and how, if they are SwitchML's clients.
    pub(crate) fn switchml(&self) -> Option<(&Located<SocketAddr>, Registry)> {
        self.controller.as_ref().zip(self.spec.kind.registry())
    }
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

impl PsMode {
    /// The same, as a job that uses it says so.
    pub(crate) fn server(self) -> ServerMode {
        match self {
            Self::None => ServerMode::None,
            Self::Embedded => ServerMode::Embedded,
            Self::External { address, .. } => {
                ServerMode::External { address: address.ip().into(), udp_port: address.port() }
            }
        }
    }
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
