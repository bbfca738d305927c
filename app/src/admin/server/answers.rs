//! What the API answers, as JSON.

use std::collections::BTreeMap;

use pascaline_pipelines::membership::JobStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::{JobConfig, JobTerms};
use crate::observe::explain::{ExplainedBytes, ExplainedParent, Reason};

/// How the appliance is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Status {
    pub(crate) version: String,
    /// As configured.
    pub(crate) name: String,
    /// `running`, or `draining` once it has been asked to end.
    pub(crate) state: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) lcores: usize,
    pub(crate) ports: Vec<PortStatus>,
    pub(crate) jobs: usize,
    pub(crate) packets: Packets,
    pub(crate) pool: PoolStatus,
    pub(crate) reloads: Reloads,
    pub(crate) admin: AdminStatus,
    /// Whether a capture is under way.
    pub(crate) capturing: bool,
}

/// A port.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct PortStatus {
    pub(crate) name: String,
    /// Unknown where the device does not tell.
    pub(crate) up: Option<bool>,
}

/// Where packets went since the start. What is received is forwarded, absorbed, answered or dropped.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) forwarded: u64,
    pub(crate) absorbed: u64,
    pub(crate) answered: u64,
    pub(crate) dropped: u64,
    /// Zero, but for packets that are under way between lcores just now.
    pub(crate) unaccounted: i64,
}

/// The aggregator pool.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct PoolStatus {
    pub(crate) slots: usize,
    /// Slots with a partial.
    pub(crate) open: u64,
    /// Slots that keep a result.
    pub(crate) done: u64,
}

/// Changes of the configuration since the start, by signal, API or both.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct Reloads {
    pub(crate) done: u64,
    pub(crate) refused: u64,
}

/// The admin API itself.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct AdminStatus {
    /// Closed because there were too many.
    pub(crate) connections_refused: u64,
    /// Requests without the right token.
    pub(crate) tokens_refused: u64,
}

/// All jobs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<JobSummary>,
}

/// A job in a few words.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct JobSummary {
    pub(crate) id: u16,
    /// Empty for jobs that were formed by their workers' Joins.
    pub(crate) name: String,
    /// `configured`, or `formed` by its workers' Joins.
    pub(crate) origin: String,
    /// `forming`: ranks are missing; `running`; `halted`; `broken`: it has lost ranks; `idle`: no rank has
    /// joined.
    pub(crate) state: String,
    pub(crate) ranks: u16,
    /// Ranks that are here.
    pub(crate) joined: u16,
    /// Ranks that are lost.
    pub(crate) lost: u16,
    /// Contributions that complete a PSN.
    pub(crate) needed: u16,
    /// Its generation.
    pub(crate) epoch: u16,
    /// Payload bytes of its full packets, on which the ranks agreed when they joined; 0 before that.
    pub(crate) payload: u16,
    /// Ranks that are here and still use the key before, while the key changes that packets are sealed with;
    /// and 65535, if the parameter server does.
    pub(crate) former_key: Vec<u16>,
}

impl JobSummary {
    /// How a job is.
    pub(crate) fn new(status: &JobStatus, config: Option<&JobConfig>, former_key: Vec<u16>) -> Self {
        Self {
            id: status.id,
            name: config.filter(|_| !status.formed).map(|job| job.name.clone()).unwrap_or_default(),
            origin: if status.formed { "formed" } else { "configured" }.to_owned(),
            state: status.state().admin_name().to_owned(),
            ranks: status.fan_in,
            joined: status.joined,
            lost: status.lost,
            needed: status.needed,
            epoch: status.epoch,
            payload: status.payload,
            former_key,
        }
    }
}

/// A job with its terms and members.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct JobDetail {
    #[serde(flatten)]
    pub(crate) summary: JobSummary,
    /// None for jobs that were formed by Joins.
    pub(crate) terms: Option<JobTerms>,
    pub(crate) members: Vec<Member>,
}

/// Somebody who has joined, or the job's parameter server.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Member {
    /// None for the parameter server.
    pub(crate) rank: Option<u16>,
    pub(crate) address: String,
    pub(crate) udp_port: u16,
}

/// What a change of the configuration has come to.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(crate) struct ReloadReport {
    /// Jobs that are not as they were.
    pub(crate) jobs: Vec<JobChange>,
    /// Settings other than jobs that have changed.
    pub(crate) settings: Vec<String>,
    /// What the file says, but a running appliance cannot do: it takes a restart.
    pub(crate) kept: Vec<Kept>,
}

/// What has become of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct JobChange {
    pub(crate) id: u16,
    pub(crate) name: String,
    /// `added`; `changed`: members continue their operations; `reformed`: its next generation begins, and
    /// members have to join again; `removed`.
    pub(crate) what: String,
}

/// A setting that stays as it is until a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Kept {
    /// As in the file.
    #[schema(example = "dataplane.cores")]
    pub(crate) key: String,
    pub(crate) running: String,
    pub(crate) file: String,
}

/// The appliance is about to end.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct Draining {
    /// Aggregates in progress.
    pub(crate) open: u64,
    /// It ends once there are none, and after this time at the latest.
    pub(crate) limit_seconds: f64,
}

/// The configuration in force, every default resolved. Secrets are in files, whose names are here.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct EffectiveConfig {
    /// The file that a reload reads.
    pub(crate) file: String,
    /// Everything but the jobs, by `table.key`, as text.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) jobs: Vec<JobTerms>,
}

/// What to capture.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureRequest {
    /// The number of packets of the job to capture, from the next received one on.
    #[schema(minimum = 1, maximum = 4096)]
    #[serde(default = "CaptureRequest::packets")]
    pub(crate) packets: u32,
    /// But not for longer than this.
    #[schema(minimum = 1, maximum = 60)]
    #[serde(default = "CaptureRequest::seconds")]
    pub(crate) seconds: u32,
}

impl CaptureRequest {
    /// The most packets of one capture.
    pub(crate) const MOST_PACKETS: u32 = 4096;
    /// The longest capture, in seconds.
    pub(crate) const MOST_SECONDS: u32 = 60;

    const fn packets() -> u32 {
        100
    }

    const fn seconds() -> u32 {
        10
    }
}

/// What was captured.
#[derive(Debug, Clone)]
pub(crate) struct Captured {
    /// A pcap file.
    pub(crate) pcap: Vec<u8>,
    /// Packets in it.
    pub(crate) packets: u64,
    /// Packets of the job that found no room meanwhile.
    pub(crate) dropped: u64,
}

/// Whether a job is aggregated here, and where it is not, why.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Explanation {
    pub(crate) job: JobSummary,
    /// `yes`, `partly`, `no`; `nothing`: there has been nothing to aggregate; `updates`: the job is
    /// asynchronous, and its updates are combined where they queue.
    pub(crate) aggregated: String,
    /// Bytes of contributions that went into results made here, of all that have reached the appliance and
    /// ended, from 0 to 1; none where there were none.
    pub(crate) share: Option<f64>,
    pub(crate) bytes: ExplainedBytes,
    /// In plain words: the most important first.
    pub(crate) summary: String,
    /// Why not all of it, or not faster: the most important first.
    pub(crate) reasons: Vec<Reason>,
    /// The appliance to which its sums go, if they go to another one.
    pub(crate) parent: Option<ExplainedParent>,
    /// What it was derived from, since there is this job, by name; of drops those that there were.
    pub(crate) counters: BTreeMap<String, u64>,
}
