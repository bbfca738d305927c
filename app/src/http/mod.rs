//! `/metrics`, `/healthz` and `/readyz`, whatever is behind them, and the page of what is happening, where there is one.
//!
//! Everything can be read and nothing changed. Who connects and then neither sends nor takes anything is cut off.

mod connection;

use core::fmt;
use core::pin::pin;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::future::select;
use tokio::sync::watch;

use self::connection::Bounded;
use crate::config::{Config, Located};
use crate::live::Live;

/// What the pages say.
pub(crate) struct Pages {
    /// The metrics, as OpenMetrics text.
    pub(crate) scrape: Box<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
    /// Whether all is well.
    pub(crate) healthy: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether it does its work already, and still.
    pub(crate) ready: Box<dyn Fn() -> bool + Send + Sync>,
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

/// What is still being answered when the server ends may take so long.
const FAREWELL: Duration = Duration::from_millis(500);

/// A running server; dropping it ends it.
pub(crate) struct HttpServer {
    stop: Option<watch::Sender<()>>,
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
pub(crate) fn serve(listener: TcpListener, pages: Pages, live: Option<Live>) -> anyhow::Result<HttpServer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(());
    let mut router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(pages));
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        let served = runtime.block_on(async {
            let snapshots = live.map(|live| {
                let (pages, task) = live.start();
                router = std::mem::take(&mut router).merge(pages);
                tokio::spawn(task)
            });
            let listener = Bounded::new(tokio::net::TcpListener::from_std(listener)?);
            let stopping = ended(stopped.clone());
            let server = axum::serve(listener, router).with_graceful_shutdown(stopping).into_future();
            let over = async move {
                ended(stopped).await;
                // Ends the streams, which would go on for ever.
                if let Some(snapshots) = snapshots {
                    snapshots.abort();
                }
                tokio::time::sleep(FAREWELL).await;
                Ok(())
            };
            select(pin!(server), pin!(over)).await.factor_first().0
        });
        if let Err::<(), std::io::Error>(error) = served {
            tracing::error!(%error, "the HTTP server ended");
        }
    })?;
    Ok(HttpServer { stop: Some(stop), thread: Some(thread) })
}

/// Returns when the other end is gone.
async fn ended(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
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

async fn readyz(State(pages): State<Arc<Pages>>) -> Response {
    if (pages.ready)() {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}
