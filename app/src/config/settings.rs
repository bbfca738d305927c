//! A configuration by key: everything but the jobs, as text, every default resolved.

use std::collections::BTreeMap;

use humantime::format_duration;
use pascaline_pipelines::{IdlePolicy, Marks, PortQueue};

use pascaline_ps::asynchronous::Rule;

use super::job::Checkpoint;
use super::words::{Training, Word};
use super::{Config, PsMode};

/// What a running appliance can change beside its jobs: everything below these.
const LIVE: [&str; 2] = ["dataplane.drain", "admission."];

/// Whether a setting can change while the appliance runs.
pub(crate) fn is_live(key: &str) -> bool {
    LIVE.iter().any(|live| key.starts_with(live))
}

/// Settings as they are collected.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn set(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    fn list(&mut self, key: &str, values: impl IntoIterator<Item = impl ToString>) {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        self.set(key, values.join(", "));
    }
}

impl Config {
    /// All settings but the jobs.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let mut all = Settings(BTreeMap::new());
        all.set("appliance.name", &self.name);
        all.list("appliance.addresses", &self.addresses);
        all.set("appliance.udp_port", self.udp_ports.first());
        all.set("appliance.udp_ports", self.udp_ports.count());
        all.set("appliance.dscp", self.dscp.map_or("any".to_owned(), |dscp| dscp.to_string()));
        all.set("dataplane.main_core", self.main_core.value);
        all.list("dataplane.cores", &self.cores.value);
        all.set("dataplane.float", self.float);
        match self.idle {
            IdlePolicy::Spin => all.set("dataplane.idle", "spin"),
            IdlePolicy::Backoff { longest_nap } => {
                all.set("dataplane.idle", "backoff");
                all.set("dataplane.longest_nap", format_duration(longest_nap));
            }
        }
        all.set("dataplane.hugepages", self.hugepages.name());
        all.set("dataplane.memory_mb", self.memory_mb.value);
        all.set("dataplane.drain", format_duration(self.drain));
        self.in_line_settings(&mut all);
        let Marks { frames, slots } = self.marks;
        all.set("dataplane.mark_from", if frames == Marks::NEVER.frames { 0 } else { frames });
        let share = if slots == Marks::NEVER.slots { 0 } else { slots };
        all.set("pool.mark_from", f64::from(share) / 1000.0);
        self.port_settings(&mut all);
        all.set("pool.slots", self.pool.slots);
        all.set("pool.ways", self.pool.ways);
        all.set("pool.spare_packets", self.spare_packets);
        all.set("pool.age_limit", format_duration(self.pool.age_limit));
        if let Some(admission) = &self.admission {
            let (first, last) = (admission.jobs.start(), admission.jobs.end());
            all.set("admission.jobs", format_args!("{first}-{last}"));
            all.list("admission.from", &admission.from);
            all.set("admission.max_jobs", admission.max_jobs);
            all.set("admission.max_jobs_per_host", admission.max_jobs_per_host);
            all.set("admission.max_ranks_per_host", admission.like.max_ranks_per_host);
            all.set("admission.max_fan_in", admission.max_fan_in);
            all.set("admission.slots_per_job", admission.like.kind.policy(admission.like.window).quota);
        }
        if let Some(file) = &self.verified {
            all.set("admission.verify", file.display());
        }
        match self.ps.mode.value {
            PsMode::None => all.set("ps.mode", "none"),
            PsMode::Embedded => all.set("ps.mode", "embedded"),
            PsMode::External { address, appliance } => {
                all.set("ps.mode", "external");
                all.set("ps.address", address);
                all.set("ps.appliance", appliance);
            }
        }
        self.training_settings(&mut all);
        all.set("ps.memory_mb", self.ps.limits.config.capacity.bytes >> 20);
        if let Some(listen) = &self.ps.listen {
            all.set("ps.listen", listen.value);
        }
        self.service_settings(&mut all);
        all.0
    }

    fn training_settings(&self, all: &mut Settings) {
        match &self.ps.checkpoint {
            Checkpoint::Default => {}
            Checkpoint::In(directory) => all.set("ps.checkpoint", directory.value.display()),
            Checkpoint::No => all.set("ps.checkpoint", "no"),
        }
        let training = &self.ps.training;
        let (rule, rate) = match training.rule {
            Rule::Olaf { rate } => (Training::Olaf, rate),
            Rule::Staleness { rate, half } => {
                all.set("ps.half_age", format_duration(half));
                (Training::Staleness, rate)
            }
        };
        all.set("ps.rule", rule.name());
        all.set("ps.learning_rate", rate);
        all.set("ps.weights_to", training.audience.name());
        all.set("ps.reward_memory", format_duration(training.memory));
    }

    fn in_line_settings(&self, all: &mut Settings) {
        all.set("dataplane.pass_link_state", self.in_line.pass_link_state);
        all.set("dataplane.passing", self.in_line.passing.name());
        all.set("dataplane.passing_queue", self.in_line.queue.name());
        all.set("dataplane.bridge_addresses", self.in_line.addresses);
        all.set("dataplane.bridge_age", format_duration(self.in_line.age));
    }

    fn service_settings(&self, all: &mut Settings) {
        all.set("telemetry.dpdk", self.dpdk_telemetry);
        if let Some(listen) = &self.listen {
            all.set("telemetry.listen", listen.value);
        }
        if !self.hosts.is_empty() {
            all.list("telemetry.hosts", &self.hosts);
        }
        if let Some(admin) = &self.admin {
            all.set("admin.listen", &admin.listen.value);
            if let Some(file) = &admin.token_file {
                all.set("admin.token_file", file.value.display());
            }
            if let Some(file) = &admin.read_token_file {
                all.set("admin.read_token_file", file.value.display());
            }
            if let Some(tls) = &admin.tls {
                all.set("admin.tls_cert", tls.cert.value.display());
                all.set("admin.tls_key", tls.key.value.display());
                if let Some(ca) = &tls.client_ca {
                    all.set("admin.client_ca", ca.value.display());
                }
            }
        }
    }

    fn port_settings(&self, all: &mut Settings) {
        // Lcores and parents know a port by its place, so their order is a setting, too.
        all.list("ports", self.ports.iter().map(|port| &port.name));
        for port in &self.ports {
            let mut set = |key: &str, value: String| all.set(&format!("ports.{}.{key}", port.name), value);
            set("device", port.device.value.to_string());
            set("mtu", port.mtu.to_string());
            set("rx_descriptors", port.rx_descriptors.to_string());
            set("tx_descriptors", port.tx_descriptors.to_string());
            if let Some(peer) = port.peer.and_then(|peer| self.ports.get(peer)) {
                set("peer", peer.name.clone());
            }
            if let Some(bridge) = &port.bridge {
                set("bridge", bridge.clone());
            }
            set("verify", port.verify.map_or("by the device", Word::name).to_owned());
            let PortQueue { queue, rate } = port.queue;
            set("queue.discipline", queue.discipline.name().to_owned());
            set("queue.length", queue.segments.to_string());
            set("queue.combine", queue.combine.name().to_owned());
            set("queue.reward_threshold", queue.reward_threshold.to_string());
            set("queue.rate", rate.map_or("the port's".to_owned(), |rate| rate.to_string()));
        }
    }
}
