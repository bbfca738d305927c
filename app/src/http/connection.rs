//! So many connections at a time, and none for nothing.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at the same time; more wait to be accepted.
const CONNECTIONS: usize = 256;
/// A connection on which nothing moves for so long, in either direction, is closed. Longer than between two scrapes.
const IDLE: Duration = Duration::from_secs(75);

/// Accepts connections within these limits.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::within(listener, CONNECTIONS, IDLE)
    }

    /// The same with limits of one's own.
    fn within(listener: TcpListener, connections: usize, idle: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections)), idle }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed; without a place there would be no limit, which is no worse than no server.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        // Small answers should not wait for more. A system that cannot do it is only slower.
        let _ = stream.set_nodelay(true);
        (Connection { stream, idle: self.idle, deadline: Box::pin(sleep(self.idle)), _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when nothing moves on it.
pub(super) struct Connection {
    stream: TcpStream,
    idle: Duration,
    deadline: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// What became of an attempt to move something.
    fn moved<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            let deadline = Instant::now() + self.idle;
            self.deadline.as_mut().reset(deadline);
            return outcome;
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, into);
        self.moved(context, outcome)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.moved(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures_util::stream;

    use super::*;

    /// A server of one connection at a time that sends without end; it ends with the test's process.
    fn endless() -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let listener = Bounded::within(listener, 1, Duration::from_millis(300));
                let chunks = || stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 4096])));
                let router =
                    Router::new().route("/", get(move || async move { Body::from_stream(chunks()) }));
                axum::serve(listener, router).await.unwrap();
            });
        });
        address
    }

    fn connect(address: SocketAddr, says: &str) -> std::net::TcpStream {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(says.as_bytes()).unwrap();
        stream
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

    #[test]
    fn who_says_nothing_is_cut_off() {
        let mut silent = connect(endless(), "GET / HT");
        assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
    }

    #[test]
    fn who_takes_nothing_is_cut_off_and_makes_room_for_the_next() {
        let address = endless();
        let lazy = connect(address, REQUEST);
        // Answered only once the first has lost its place, which it does not give up by itself.
        let mut next = connect(address, REQUEST);
        let mut begun = [0; 15];
        next.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200 OK");
        drop(lazy);
    }
}
