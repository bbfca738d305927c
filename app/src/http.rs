//! `/metrics` and `/healthz`, whatever is behind them.

use core::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::oneshot;

use crate::config::{Config, Located};

/// What the pages say.
pub(crate) struct Pages {
    /// The metrics, as OpenMetrics text.
    pub(crate) scrape: Box<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
    /// Whether all is well.
    pub(crate) healthy: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Binds an address of a configuration.
pub(crate) fn bind(config: &Config, listen: &Located<SocketAddr>) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(listen.value).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", listen.value);
        let remedy = "choose another address or port, or end the process that uses it (`ss -ltnp`)";
        config.error(listen, message, remedy)
    })?;
    listener.set_nonblocking(true).context("preparing the metrics listener")?;
    Ok(listener)
}

/// A running server; dropping it ends it.
pub(crate) struct HttpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server has been printed; there is nothing more to do about it here.
            let _ = thread.join();
        }
    }
}

/// Serves the pages from a thread of its own, which inherits the caller's cores.
pub(crate) fn serve(listener: TcpListener, pages: Pages) -> anyhow::Result<HttpServer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(Arc::new(pages));
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
    Ok(HttpServer { stop: Some(stop), thread: Some(thread) })
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    match (pages.scrape)() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
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
