//! The configuration as it is written. Every table rejects keys that it does not know.

use pascaline_aggregator::{ConflictPolicy, Order};
use pascaline_dpdk::Hugepages;
use pascaline_pipelines::Passing;
use pascaline_pipelines::membership::{OnDeath, Rights};
use pascaline_ps::asynchronous::Audience;
use pascaline_queue::{Combine, Discipline};
use pascaline_wire::CongestionControl;
use serde::Deserialize;
use toml::Spanned;

use super::kind::{KindName, Tag};
use super::words::{Idle, Named, PassingQueue, ServerMode, Training, Verify};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) appliance: Appliance,
    pub(super) dataplane: Spanned<Dataplane>,
    pub(super) ports: Spanned<Vec<Spanned<Port>>>,
    #[serde(default)]
    pub(super) pool: Pool,
    #[serde(default)]
    pub(super) jobs: Vec<Spanned<Job>>,
    pub(super) admission: Option<Spanned<Admission>>,
    pub(super) ps: Option<Spanned<Ps>>,
    #[serde(default)]
    pub(super) telemetry: Telemetry,
    pub(super) admin: Option<Spanned<Admin>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Appliance {
    pub(super) name: Option<Spanned<String>>,
    pub(super) addresses: Spanned<Vec<Spanned<String>>>,
    pub(super) udp_port: Option<Spanned<u16>>,
    pub(super) udp_ports: Option<Spanned<u16>>,
    pub(super) dscp: Option<Spanned<u16>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dataplane {
    pub(super) main_core: Spanned<usize>,
    pub(super) cores: Spanned<Vec<Spanned<usize>>>,
    #[serde(default)]
    pub(super) float: bool,
    pub(super) idle: Option<Spanned<Named<Idle>>>,
    pub(super) longest_nap: Option<Spanned<String>>,
    pub(super) hugepages: Option<Spanned<Named<Hugepages>>>,
    pub(super) memory_mb: Option<Spanned<u32>>,
    pub(super) drain: Option<Spanned<String>>,
    pub(super) passing: Option<Spanned<Named<Passing>>>,
    pub(super) passing_queue: Option<Spanned<Named<PassingQueue>>>,
    #[serde(default)]
    pub(super) pass_link_state: bool,
    pub(super) bridge_addresses: Option<Spanned<u32>>,
    pub(super) bridge_age: Option<Spanned<String>>,
    /// Frames.
    pub(super) mark_from: Option<Spanned<u16>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub(super) name: Spanned<String>,
    pub(super) device: Spanned<String>,
    pub(super) mtu: Option<Spanned<u16>>,
    pub(super) rx_descriptors: Option<Spanned<u16>>,
    pub(super) tx_descriptors: Option<Spanned<u16>>,
    pub(super) peer: Option<Spanned<String>>,
    pub(super) bridge: Option<Spanned<String>>,
    pub(super) verify: Option<Spanned<Named<Verify>>>,
    pub(super) queue: Option<Spanned<Queue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) discipline: Option<Spanned<Named<Discipline>>>,
    pub(super) length: Option<Spanned<u16>>,
    /// Bits per second: a number, or a string with a unit.
    pub(super) rate: Option<Spanned<toml::Value>>,
    pub(super) reward_threshold: Option<Spanned<f64>>,
    pub(super) combine: Option<Spanned<Named<Combine>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    pub(super) slots: Option<Spanned<usize>>,
    pub(super) ways: Option<Spanned<usize>>,
    pub(super) age_limit: Option<Spanned<String>>,
    pub(super) spare_packets: Option<Spanned<u32>>,
    /// A share of the slots.
    pub(super) mark_from: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub(super) id: Spanned<u16>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) fan_in: Spanned<u16>,
    pub(super) window: Option<Spanned<u16>>,
    pub(super) members: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) max_ranks_per_host: Option<Spanned<u16>>,
    pub(super) share: Option<Spanned<u16>>,
    pub(super) dead_after: Option<Spanned<String>>,
    pub(super) on_death: Option<Spanned<Named<OnDeath>>>,
    pub(super) control: Option<Spanned<Named<Rights>>>,
    pub(super) congestion: Option<Spanned<Named<CongestionControl>>>,
    pub(super) multicast: Option<Spanned<String>>,
    pub(super) parent: Option<Spanned<Parent>>,
    pub(super) kind: Option<Spanned<Named<KindName>>>,
    pub(super) region: Option<Spanned<Region>>,
    pub(super) shared: Option<Spanned<Shared>>,
    pub(super) early: Option<Spanned<Early>>,
    pub(super) updates: Option<Spanned<Updates>>,
    pub(super) switchml: Option<Spanned<SwitchMl>>,
}

impl Job {
    /// What it says for its kind; by default it has slots of its own.
    pub(super) fn kind_name(&self) -> KindName {
        self.kind.as_ref().map_or(KindName::Plain(Tag::Region), |kind| kind.get_ref().0)
    }

    /// How many slots of its own it asks for, where it says so.
    pub(super) fn slots(&self) -> Option<&Spanned<u32>> {
        match self.kind_name().tag() {
            Tag::Region => self.region.as_ref()?.get_ref().slots.as_ref(),
            Tag::Early => self.early.as_ref()?.get_ref().slots.as_ref(),
            Tag::Switchml => self.switchml.as_ref()?.get_ref().slots.as_ref(),
            Tag::Shared | Tag::Updates => None,
        }
    }
}

/// What only jobs of kind "region" have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Region {
    pub(super) slots: Option<Spanned<u32>>,
    pub(super) order: Option<Spanned<Named<Order>>>,
}

/// What only jobs of kind "shared" have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shared {
    pub(super) conflict: Option<Spanned<Named<ConflictPolicy>>>,
    pub(super) server: Option<Spanned<bool>>,
    pub(super) order: Option<Spanned<Named<Order>>>,
    pub(super) quota: Option<Spanned<u32>>,
}

/// What only jobs of kind "early" have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Early {
    pub(super) slots: Option<Spanned<u32>>,
    /// A count of contributions, or a share of the fan-in.
    pub(super) threshold: Option<Spanned<toml::Value>>,
    pub(super) partial_after: Option<Spanned<String>>,
}

/// What only jobs of kind "updates" have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Updates {
    pub(super) parameters: Option<Spanned<u32>>,
}

/// What only jobs of kind "switchml" have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchMl {
    pub(super) controller: Spanned<String>,
    pub(super) udp_port: Option<Spanned<u16>>,
    pub(super) slots: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parent {
    pub(super) address: Spanned<String>,
    pub(super) rank: Spanned<u16>,
    pub(super) ranks: Spanned<u16>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) via: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) from: Option<Spanned<String>>,
    pub(super) backups: Option<Vec<Spanned<Backup>>>,
}

/// What takes the place of a parent, and differs from it in what is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backup {
    pub(super) address: Spanned<String>,
    pub(super) rank: Option<Spanned<u16>>,
    pub(super) ranks: Option<Spanned<u16>>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) via: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) from: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Admission {
    pub(super) jobs: Option<Spanned<String>>,
    pub(super) from: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) verify: Option<Spanned<String>>,
    pub(super) max_jobs: Option<Spanned<u16>>,
    pub(super) max_jobs_per_host: Option<Spanned<u16>>,
    pub(super) max_ranks_per_host: Option<Spanned<u16>>,
    pub(super) max_fan_in: Option<Spanned<u16>>,
    pub(super) slots_per_job: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ps {
    pub(super) mode: Option<Spanned<Named<ServerMode>>>,
    pub(super) address: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<u16>>,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) memory_mb: Option<Spanned<u32>>,
    pub(super) rule: Option<Spanned<Named<Training>>>,
    pub(super) learning_rate: Option<Spanned<f64>>,
    pub(super) half_age: Option<Spanned<String>>,
    pub(super) weights_to: Option<Spanned<Named<Audience>>>,
    pub(super) reward_memory: Option<Spanned<String>>,
    pub(super) checkpoint: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Telemetry {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) hosts: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) dpdk: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Admin {
    pub(super) listen: Spanned<String>,
    pub(super) token_file: Option<Spanned<String>>,
    pub(super) read_token_file: Option<Spanned<String>>,
    pub(super) tls_cert: Option<Spanned<String>>,
    pub(super) tls_key: Option<Spanned<String>>,
}
