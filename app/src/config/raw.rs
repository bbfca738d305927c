//! The configuration as it is written, but for [`Job`]s. Every table rejects keys that it does not know.

use pascaline_dpdk::Hugepages;
use pascaline_pipelines::Passing;
use pascaline_ps::asynchronous::Audience;
use pascaline_queue::{Combine, Discipline};
use serde::Deserialize;
use toml::Spanned;

use super::accept::Job;
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
    pub(super) client_ca: Option<Spanned<String>>,
}
