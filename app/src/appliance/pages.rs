//! What the appliance shows over HTTP.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pascaline_dpdk::Clock;
use pascaline_pipelines::IdlePolicy;
use pascaline_telemetry::Telemetry;

use super::gauges::{ApplianceGauges, Shared};
use crate::config::Config;
use crate::http::Pages;
use crate::live::{Configuration, Inputs, Live, Sampler};

/// `/metrics` and `/healthz`.
pub(super) fn plain(telemetry: &Arc<Telemetry>, shared: &Arc<Shared>) -> Pages {
    let (telemetry, shared) = (Arc::clone(telemetry), Arc::clone(shared));
    Pages { scrape: Box::new(move || telemetry.scrape()), healthy: Box::new(move || shared.healthy()) }
}

/// `/` and what it is fed from.
pub(super) fn live(
    config: &Config,
    telemetry: &Arc<Telemetry>,
    gauges: Arc<ApplianceGauges>,
    clock: Clock,
) -> Live {
    let telemetry = Arc::clone(telemetry);
    let began = Instant::now();
    let read = move || {
        telemetry.collect();
        Inputs {
            at: began.elapsed(),
            unix_seconds: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            lcore_ns: clock.now_ns(),
            readings: telemetry.readings(),
            times: telemetry.times().ok(),
            census: telemetry.census(),
            ..gauges.inputs()
        }
    };
    Live::new(Sampler::new(config.name.clone(), configuration(config)), read)
}

fn idle(policy: IdlePolicy) -> String {
    match policy {
        IdlePolicy::Spin => "spin".to_owned(),
        IdlePolicy::Backoff { longest_nap } => {
            format!("backoff, naps up to {}", humantime::format_duration(longest_nap))
        }
    }
}

/// The configuration in force.
fn configuration(config: &Config) -> Configuration {
    let text = config.to_string();
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    let facts = [
        ("addresses", list(&mut config.addresses.iter().map(ToString::to_string))),
        ("UDP port", config.udp_port.to_string()),
        ("main core", config.main_core.to_string()),
        ("lcores on cores", list(&mut config.cores.value.iter().map(ToString::to_string))),
        ("idle", idle(config.idle)),
        ("hugepages", format!("{:?}", config.hugepages).to_lowercase()),
        ("memory", format!("{} MB", config.memory_mb.value)),
        ("slots", config.pool.slots.to_string()),
        ("ways", config.pool.ways.to_string()),
        ("age limit", humantime::format_duration(config.pool.age_limit).to_string()),
        ("drain", humantime::format_duration(config.drain).to_string()),
    ];
    Configuration {
        file: config.file.display().to_string(),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        summary: text.lines().map(|line| line.trim().to_owned()).collect(),
    }
}
