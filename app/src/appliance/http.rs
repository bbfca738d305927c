//! `/metrics` and `/healthz`.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pascaline_telemetry::Telemetry;
use tokio::sync::oneshot;

use super::gauges::Shared;
use crate::config::Config;

/// Binds the address of the metrics server, if there is one.
pub(super) fn bind(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(listen) = &config.listen else { return Ok(None) };
    let listener = TcpListener::bind(listen.value).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", listen.value);
        config.error(
            listen,
            message,
            "choose another address or port, or end the process that uses it (`ss -ltnp`)",
        )
    })?;
    listener.set_nonblocking(true).context("preparing the metrics listener")?;
    Ok(Some(listener))
}

/// A running server; dropping it ends it.
pub(super) struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server has been printed; there is nothing more to do about it here.
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Served {
    telemetry: Arc<Telemetry>,
    shared: Arc<Shared>,
}

/// Serves from a thread of its own, which inherits the main core from the caller.
pub(super) fn serve(
    listener: TcpListener,
    telemetry: Arc<Telemetry>,
    shared: Arc<Shared>,
) -> anyhow::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(Served { telemetry, shared });
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router)
            .with_graceful_shutdown(async {
                // Told to stop, or the other end is gone: the same.
                let _ = stopped.await;
            })
            .await
    };
    let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        if let Err(error) = runtime.block_on(serve) {
            tracing::error!(%error, "the metrics server ended");
        }
    })?;
    Ok(Server { stop: Some(stop), thread: Some(thread) })
}

async fn metrics(State(served): State<Served>) -> Response {
    match served.telemetry.scrape() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz(State(served): State<Served>) -> Response {
    if served.shared.healthy() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response()
    }
}
