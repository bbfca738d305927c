//! Connections: how many, for how long, and how they end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;

use super::guard::{Guard, guarded};
use super::listener::{Bound, Listener};
use super::orders::Orders;
use super::routes::router;

/// What the API takes of one client, and of all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at the same time; more are closed at once.
    pub(crate) connections: usize,
    /// For the head of a request to arrive, for a TLS handshake, and for a kept connection to be used again.
    pub(crate) head: Duration,
    /// For one request, its body and its answer included; a capture has its own time beside.
    pub(crate) request: Duration,
    /// For a connection as a whole: whoever reads slowly is not waited for any longer.
    pub(crate) connection: Duration,
    /// Bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// Bytes of a request's body.
    pub(crate) body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(5),
            request: Duration::from_secs(10),
            connection: Duration::from_secs(120),
            head_bytes: 16 * 1024,
            body_bytes: 64 * 1024,
        }
    }
}

/// What connections have to come to an end when the appliance does.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What was refused before it became a request that means anything.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    connections: AtomicU64,
    tokens: AtomicU64,
}

impl Refusals {
    /// Connections closed because there were too many.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests without the right token.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    pub(super) fn count_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A running API; dropping it ends it.
#[derive(Debug)]
pub(crate) struct AdminServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server has been printed; there is nothing more to do about it here.
            let _ = thread.join();
        }
    }
}

/// Serves from a thread of its own, which inherits the caller's cores.
pub(crate) fn serve(
    bound: Bound,
    orders: Orders,
    limits: Limits,
    refusals: Arc<Refusals>,
) -> anyhow::Result<AdminServer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let Bound { listener, token, tls } = bound;
    let guard = Guard {
        token,
        by_name: matches!(listener, Listener::Tcp(_)),
        time: limits.request,
        body_bytes: limits.body_bytes,
        refusals: Arc::clone(&refusals),
    };
    let permits = Arc::new(Semaphore::new(limits.connections));
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let door = Door {
        router: guarded(router(orders, limits.body_bytes), guard),
        tls: tls.map(TlsAcceptor::from),
        permits: Arc::clone(&permits),
        limits,
        refusals,
    };
    let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        let ended = runtime.block_on(async {
            tokio::select! {
                // Told to stop, or the other end is gone: the same. What has been answered is yet to be sent.
                _ = stopped => {
                    let _ = tokio::time::timeout(LAST_WORDS, permits.acquire_many(all)).await;
                    Ok(())
                }
                ended = door.open(listener) => ended,
            }
        });
        if let Err(error) = ended {
            tracing::error!(%error, "the admin API ended");
        }
        runtime.shutdown_timeout(LAST_WORDS);
    })?;
    Ok(AdminServer { stop: Some(stop), thread: Some(thread) })
}

/// Who may come in, and what they find.
#[derive(Clone)]
struct Door {
    router: Router,
    tls: Option<TlsAcceptor>,
    permits: Arc<Semaphore>,
    limits: Limits,
    refusals: Arc<Refusals>,
}

impl Door {
    async fn open(self, listener: Listener) -> io::Result<()> {
        match listener {
            Listener::Unix(listener, _file) => {
                let listener = UnixListener::from_std(listener)?;
                loop {
                    self.let_in(listener.accept().await.map(|(stream, _)| stream)).await;
                }
            }
            Listener::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                loop {
                    self.let_in(listener.accept().await.map(|(stream, _)| stream)).await;
                }
            }
        }
    }

    async fn let_in<S>(&self, accepted: io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(stream) = accepted else {
            // Out of file descriptors, most likely: others are about to be closed.
            return tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            // Closed without a word: words could be waited for.
            self.refusals.connections.fetch_add(1, Ordering::Relaxed);
            return;
        };
        tokio::spawn(self.clone().talk(stream, permit));
    }

    async fn talk<S>(self, stream: S, permit: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limit = self.limits.connection;
        // What goes wrong with one connection is its client's concern.
        let _ = tokio::time::timeout(limit, async {
            match self.tls.clone() {
                None => self.answer(stream).await,
                Some(tls) => {
                    let handshake = tokio::time::timeout(self.limits.head, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = handshake {
                        self.answer(stream).await;
                    }
                }
            }
        })
        .await;
        drop(permit);
    }

    async fn answer<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = TowerToHyperService::new(self.router);
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(self.limits.head_bytes)
            .serve_connection(TokioIo::new(stream), service);
        // As above.
        let _ = connection.await;
    }
}
