//! The HTTP server: a thread of its own, and a limit for whatever a client can take.

use core::convert::Infallible;
use core::pin::Pin;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::guests::{Guest, Guests};
use super::idle::Idle;
use super::names::Names;
use super::tls;

/// What one client may take, and all of them together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// For a TLS handshake, for the head of a request, and for a kept connection to be used again.
    pub head: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For a connection as a whole.
    pub connection: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// For what is being answered when the server ends.
    pub farewell: Duration,
}

impl Limits {
    /// For pages that anybody may read: streams last for ever, as long as they are read.
    pub const PAGES: Self = Self {
        connections: 256,
        head: Duration::from_secs(5),
        idle: Duration::from_secs(10),
        connection: Duration::MAX,
        head_bytes: 16 * 1024,
        farewell: Duration::from_millis(500),
    };
}

/// Where a server listens.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, whose file goes with it.
    Unix(UnixListener, SocketFile),
    /// A TCP port.
    Tcp(TcpListener),
}

/// A Unix socket's file; dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// From where a request comes; every request has it among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Over TCP, from this address.
    Address(SocketAddr),
    /// Over the Unix socket, from a process of this user; `None` if the kernel does not tell.
    User(Option<u32>),
}

/// The certificate that a client has shown, by its [fingerprint](tls::fingerprint), where clients must show
/// one; every request of it has this among its extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(pub Arc<str>);

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::User(Some(number)) => write!(f, "user {number} of this machine"),
            Self::User(None) => f.write_str("this machine"),
        }
    }
}

/// What runs beside a server, and ends with it.
pub type Background = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// A server that is to be started.
pub struct Plan {
    /// Of its thread.
    pub name: &'static str,
    /// Where clients connect.
    pub listener: Listener,
    /// How TLS is spoken, if it is.
    pub tls: Option<Arc<ServerConfig>>,
    /// What clients may take.
    pub limits: Limits,
    /// What is served.
    pub router: Router,
    /// What ends with the server.
    pub background: Option<Background>,
    /// Counts connections that are closed because there are too many.
    pub rejected: Arc<AtomicU64>,
}

impl Plan {
    /// Pages that anybody may read who asks for them by one of these names.
    pub fn pages(
        listener: TcpListener,
        names: Names,
        router: Router,
        background: Option<Background>,
    ) -> Self {
        let (listener, limits) = (Listener::Tcp(listener), Limits::PAGES);
        let (router, rejected) = (names.before(router), Arc::default());
        Self { name: "http", listener, tls: None, limits, router, background, rejected }
    }

    /// Serves from a thread of its own, which inherits the caller's cores.
    pub fn start(self) -> io::Result<Server> {
        match &self.listener {
            Listener::Unix(listener, _) => listener.set_nonblocking(true)?,
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            let (name, farewell) = (self.name, self.limits.farewell);
            if let Err(error) = runtime.block_on(self.serve(stopped)) {
                tracing::error!(%error, "the server `{name}` ended");
            }
            runtime.shutdown_timeout(farewell);
        })?;
        Ok(Server { stop: Some(stop), thread: Some(thread) })
    }

    async fn serve(self, stopped: oneshot::Receiver<()>) -> io::Result<()> {
        let background = self.background.map(tokio::spawn);
        let door = Door {
            router: self.router,
            tls: self.tls.map(TlsAcceptor::from),
            name: self.name,
            guests: Guests::new(self.limits.connections, self.limits.head),
            limits: self.limits,
            rejected: self.rejected,
            open: GracefulShutdown::new(),
        };
        tokio::select! {
            ended = door.let_all_in(self.listener) => ended,
            // Told to stop, or the other end is gone: the same.
            _ = stopped => {
                // Ends the streams, which would go on for ever.
                if let Some(background) = background {
                    background.abort();
                }
                let _ = tokio::time::timeout(self.limits.farewell, door.open.shutdown()).await;
                Ok(())
            }
        }
    }
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
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

/// Who may come in, and what they find.
struct Door {
    router: Router,
    tls: Option<TlsAcceptor>,
    name: &'static str,
    guests: Arc<Guests>,
    limits: Limits,
    rejected: Arc<AtomicU64>,
    open: GracefulShutdown,
}

impl Door {
    async fn let_all_in(&self, listener: Listener) -> io::Result<()> {
        match listener {
            Listener::Unix(listener, _file) => {
                let listener = tokio::net::UnixListener::from_std(listener)?;
                loop {
                    let accepted = listener.accept().await.map(|(stream, _)| {
                        let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                        (stream, Origin::User(user))
                    });
                    self.let_in(accepted).await;
                }
            }
            Listener::Tcp(listener) => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                loop {
                    let accepted = listener.accept().await.map(|(stream, address)| {
                        // Small answers should not wait for more. A system that cannot do it is only slower.
                        let _ = stream.set_nodelay(true);
                        (stream, Origin::Address(address))
                    });
                    self.let_in(accepted).await;
                }
            }
        }
    }

    async fn let_in<S>(&self, accepted: io::Result<(S, Origin)>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok((stream, origin)) = accepted else {
            // Out of file descriptors, most likely: others are about to be closed.
            return tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let entered = self.guests.enter();
        if entered.as_ref().is_none_or(|(_, for_it)| *for_it) {
            let closed = self.rejected.fetch_add(1, Ordering::Relaxed) + 1;
            if closed.is_power_of_two() {
                tracing::warn!(closed, "too many connections to the server `{}`", self.name);
            }
        }
        // Closed without a word: words could be waited for.
        let Some((guest, _)) = entered else { return };
        let stream = Idle::new(stream, self.limits.idle);
        match &self.tls {
            None => self.answer((guest, origin), async move { Some((stream, None)) }),
            Some(tls) => {
                let handshake = tokio::time::timeout(self.limits.head, tls.accept(stream));
                self.answer((guest, origin), async move {
                    let stream = handshake.await.ok()?.ok()?;
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let shown = shown.map(|shown| Shown(tls::fingerprint(shown).into()));
                    Some((stream, shown))
                });
            }
        }
    }

    /// Answers whoever is behind a connection that is being made.
    fn answer<S>(
        &self,
        (guest, origin): (Guest, Origin),
        connecting: impl Future<Output = Option<(S, Option<Shown>)>> + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (limits, open) = (self.limits, self.open.watcher());
        let leaving = guest.leaving();
        let (guest, router) = (Arc::new(guest), TowerToHyperService::new(self.router.clone()));
        let talk = async move {
            let Some((stream, shown)) = connecting.await else { return };
            let service = Asked { router, guest, origin, shown };
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_buf_size(limits.head_bytes)
                .serve_connection(TokioIo::new(stream), service);
            // What goes wrong with one connection is its client's concern.
            let _ = open.watch(connection).await;
        };
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::time::timeout(limits.connection, talk) => {}
                () = leaving => {}
            }
        });
    }
}

/// Answers requests, and takes note of who is being answered.
struct Asked {
    router: TowerToHyperService<Router>,
    guest: Arc<Guest>,
    origin: Origin,
    shown: Option<Shown>,
}

impl Service<Request<Incoming>> for Asked {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let _ = request.extensions_mut().insert(self.origin);
        if let Some(shown) = &self.shown {
            let _ = request.extensions_mut().insert(shown.clone());
        }
        let (asking, answer) = (self.guest.asks(), self.router.call(request));
        Box::pin(async move { answer.await.map(|response| asking.with(response)) })
    }
}

#[cfg(test)]
mod tests;
