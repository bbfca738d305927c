//! Serving a worker's trees during an operation: all in the caller's thread, or each in its own.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use core::time::Duration;

use nix::poll::PollFlags;

use super::Notice;
use super::socket::Socket;
use super::tree::{Exchange, Tree};
use super::worker::{Work, is_failure};
use crate::membership::Left;
use crate::session::Event;

/// The failed operation of the system, and its error.
pub(super) type Broken = (&'static str, io::Error);

/// In the caller's thread: how often to check whether the program has aborted.
const ALONE: Duration = Duration::from_millis(100);
/// In a thread of its own: how often to check whether the operation has failed over another tree, ...
const UNDER_WAY: Duration = Duration::from_millis(10);
/// ... and, once it has ended here, whether it has everywhere. Until then other ranks may need answers.
const ENDED: Duration = Duration::from_micros(100);

/// The state shared by the threads of the trees. It passes no data: a thread's work is visible once it is
/// joined.
pub(super) struct Serving<'a> {
    origin: &'a Instant,
    notice: Option<Notice>,
    /// Trees over which it has not ended yet.
    busy: AtomicUsize,
    /// It has failed over one, so it does over all.
    failed: AtomicBool,
    /// The program has aborted: see [`Background::abort`](super::Background::abort).
    aborted: &'a AtomicBool,
}

impl<'a> Serving<'a> {
    pub(super) fn new(
        origin: &'a Instant,
        notice: Option<Notice>,
        aborted: &'a AtomicBool,
        work: &Work<'_>,
    ) -> Self {
        let busy = AtomicUsize::new(work.iter().flatten().count());
        Self { origin, notice, busy, failed: AtomicBool::new(false), aborted }
    }

    /// In this thread, until it has ended over all trees or failed over one.
    pub(super) fn run_here(&self, trees: &mut [Tree], work: Work<'_>) -> Result<Event, Broken> {
        let mut exchanges: Vec<_> =
            trees.iter_mut().zip(work).map(|(tree, tensor)| tree.exchange(tensor)).collect();
        self.serve(&mut exchanges, ALONE).map(|ended| ended.unwrap_or(Event::Completed))
    }

    /// Likewise, each tree in a thread of its own.
    pub(super) fn run_on_threads(&self, trees: &mut [Tree], work: Work<'_>) -> Result<Event, Broken> {
        thread::scope(|scope| {
            let start = |(tree, tensor)| {
                let named = thread::Builder::new().name("pascaline-tree".to_owned());
                let started = named.spawn_scoped(scope, move || self.alone(tree, tensor));
                started.inspect_err(|_| self.fail())
            };
            let started: Vec<_> = trees.iter_mut().zip(work).map(start).collect();
            let mut whole = Event::Completed;
            let mut broken = None;
            for thread in started {
                let ended = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    Err(error) => Err(("cannot start a thread", error)),
                };
                match ended {
                    Ok(event) => whole = worse(event.unwrap_or(Event::Completed), whole),
                    Err(error) => broken = broken.or(Some(error)),
                }
            }
            broken.map_or(Ok(whole), Err)
        })
    }

    fn alone(&self, tree: &mut Tree, tensor: Option<&mut [u8]>) -> Result<Option<Event>, Broken> {
        let _others = Unwinding(self);
        self.serve(&mut [tree.exchange(tensor)], UNDER_WAY).inspect_err(|_| self.fail())
    }

    fn fail(&self) {
        self.failed.store(true, Relaxed);
    }

    /// Serves some trees, and checks every `looks` how the operation fares over others. Returns the worst end
    /// over these trees, if it ran here and has ended.
    fn serve(&self, exchanges: &mut [Exchange<'_>], looks: Duration) -> Result<Option<Event>, Broken> {
        let mut ended: Option<Event> = None;
        loop {
            for exchange in exchanges.iter_mut() {
                exchange.send()?;
            }
            // Only here: a Leave has been sent once by then.
            if self.aborted.load(Relaxed) {
                return Err(("the operation has been aborted", io::ErrorKind::Interrupted.into()));
            }
            let gathers = exchanges
                .iter()
                .filter(|exchange| exchange.is_busy())
                .map(|exchange| exchange.session.may_gather());
            if let Some(gather) = gathers.min().flatten() {
                thread::sleep(gather);
            }
            let most = if exchanges.iter().any(Exchange::is_busy) { looks } else { ENDED };
            let due = exchanges.iter().filter_map(Exchange::poll_timeout).min();
            let patience = due.map_or(most, |due| due.saturating_sub(self.origin.elapsed()).min(most));
            if !turn(exchanges)? && wait(exchanges, patience)? {
                turn(exchanges)?;
            }
            for exchange in exchanges.iter_mut() {
                if let Some(notice) = self.notice {
                    exchange.notify(notice);
                }
                if let Some(event) = exchange.end()? {
                    if is_failure(&event) {
                        self.fail();
                    }
                    self.busy.fetch_sub(1, Relaxed);
                    ended = Some(match ended.take() {
                        Some(other) => worse(event, other),
                        None => event,
                    });
                }
            }
            if self.failed.load(Relaxed) || self.busy.load(Relaxed) == 0 {
                return Ok(ended);
            }
        }
    }
}

/// If a thread panics, the others would wait for its tree forever.
struct Unwinding<'a>(&'a Serving<'a>);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail();
        }
    }
}

/// Handles the datagrams of each tree. True if there were any.
fn turn(exchanges: &mut [Exchange<'_>]) -> Result<bool, Broken> {
    let mut any = false;
    for exchange in exchanges {
        any |= exchange.receive_multicast()?;
        let count = exchange.receive()?;
        any |= count > 0;
        exchange.handle(count);
    }
    Ok(any)
}

fn wait(exchanges: &[Exchange<'_>], patience: Duration) -> Result<bool, Broken> {
    let io = |source| ("cannot wait", source);
    match exchanges {
        [exchange] if exchange.sockets().nth(1).is_none() => {
            exchange.socket.wait(PollFlags::POLLIN, patience).map_err(io)
        }
        _ => Socket::wait_any(exchanges.iter().flat_map(Exchange::sockets), patience).map_err(io),
    }
}

/// Of the ends of one operation over two trees, the one to report.
fn worse(one: Event, other: Event) -> Event {
    match one {
        Event::Failed(_) | Event::Commanded(Err(_)) | Event::Left(Left::Lingered) => one,
        Event::Completed | Event::Commanded(Ok(())) | Event::Left(Left::Everyone) => other,
    }
}
