//! `/metrics`, `/healthz` and `/readyz`; and what the page is fed from.

use core::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pascaline_dpdk::Clock;
use pascaline_telemetry::{Format, Telemetry};

use super::metrics::ApplianceGauges;
use super::page::Live;
use super::snapshot::{Configuration, Inputs, Sampler};
use super::state::Shared;
use crate::config::Config;

/// What the pages say.
pub(crate) struct Pages {
    /// The metrics, as text.
    pub(crate) scrape: Box<dyn Fn(Format) -> Result<String, fmt::Error> + Send + Sync>,
    /// Whether all is well.
    pub(crate) healthy: Box<dyn Fn() -> bool + Send + Sync>,
    /// Why it does not do its work, in lines, if it does not.
    pub(crate) unready: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

impl Pages {
    /// Their routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .with_state(Arc::new(self))
    }
}

async fn metrics(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    match (pages.scrape)(format) {
        Ok(text) => {
            let headers = [(header::CONTENT_TYPE, format.media_type()), (header::VARY, "accept")];
            (headers, text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz(State(pages): State<Arc<Pages>>) -> Response {
    if (pages.healthy)() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response()
    }
}

async fn readyz(State(pages): State<Arc<Pages>>) -> Response {
    match (pages.unready)() {
        None => (StatusCode::OK, "ready\n").into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

/// `/metrics`, `/healthz` and `/readyz`.
pub(crate) fn plain(telemetry: &Arc<Telemetry>, shared: &Arc<Shared>) -> Pages {
    let (telemetry, shared, as_well) = (Arc::clone(telemetry), Arc::clone(shared), Arc::clone(shared));
    Pages {
        scrape: Box::new(move |format| telemetry.scrape(format)),
        healthy: Box::new(move || shared.healthy()),
        unready: Box::new(move || as_well.unready()),
    }
}

/// `/` and what it is fed from.
pub(crate) fn live(
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
pub(crate) fn configuration(config: &Config) -> Configuration {
    Configuration {
        file: config.file.display().to_string(),
        facts: config.settings().into_iter().collect(),
        summary: config.to_string().lines().map(|line| line.trim().to_owned()).collect(),
    }
}
