//! What the appliance shows over HTTP.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pascaline_dpdk::Clock;
use pascaline_telemetry::Telemetry;

use super::gauges::{ApplianceGauges, Shared};
use crate::config::Config;
use crate::http::Pages;
use crate::live::{Configuration, Inputs, Live, Sampler};

/// `/metrics`, `/healthz` and `/readyz`.
pub(super) fn plain(telemetry: &Arc<Telemetry>, shared: &Arc<Shared>) -> Pages {
    let (telemetry, shared, as_well) = (Arc::clone(telemetry), Arc::clone(shared), Arc::clone(shared));
    Pages {
        scrape: Box::new(move || telemetry.scrape()),
        healthy: Box::new(move || shared.healthy()),
        ready: Box::new(move || as_well.ready()),
    }
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
    Live::new(Sampler::new(config.name.clone()), read)
}

/// A configuration, as the page shows it.
pub(super) fn configuration(config: &Config) -> Configuration {
    Configuration {
        file: config.file.display().to_string(),
        facts: config.settings().into_iter().collect(),
        summary: config.to_string().lines().map(|line| line.trim().to_owned()).collect(),
    }
}
