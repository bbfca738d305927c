//! The HTTP server of what anybody may read. Who connects and then neither sends nor takes anything is cut off.

mod connection;

use core::convert::Infallible;
use core::pin::{Pin, pin};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use futures_util::future::select;
use tokio::sync::watch;

use self::connection::Bounded;
use crate::config::{Config, Located};

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

/// What runs beside a server, and ends with it.
pub(crate) type Background = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// Serves from a thread of its own, which inherits the caller's cores.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    background: Option<Background>,
) -> anyhow::Result<HttpServer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(());
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        let served = runtime.block_on(async {
            let background = background.map(tokio::spawn);
            let listener = Bounded::new(tokio::net::TcpListener::from_std(listener)?);
            let stopping = ended(stopped.clone());
            let server = axum::serve(listener, router).with_graceful_shutdown(stopping).into_future();
            let over = async move {
                ended(stopped).await;
                // Ends the streams, which would go on for ever.
                if let Some(background) = background {
                    background.abort();
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
