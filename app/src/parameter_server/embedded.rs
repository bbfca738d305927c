//! The server as a thread of the appliance, between two queues of packets.
//!
//! Packets are datagrams without the layers below: header, payload, trailer. Lcores put what is for the
//! server into one queue, and take what it sends from the other. The thread is not woken by them, which would
//! cost them a system call: it looks by itself, at least every millisecond while there is nothing to do.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pascaline_buffer::PacketBuf;
use pascaline_pipelines::ServerEnd;
use pascaline_pipelines::jobs::{ServedJob, ServedJobs};

use super::ServerLoop;
use super::snapshot::{Count, Published, Snapshot};
use crate::config::ServerLimits;

/// Packets handled between two looks at everything else.
const BATCH: usize = 64;
/// The longest nap: what a packet waits at most for the thread to notice it.
const NAP: Duration = Duration::from_millis(1);
/// Between two snapshots while there is work.
const PUBLISH: Duration = Duration::from_millis(10);

/// The thread died. Partials on their way to it are lost, which the ranks make good once there is a server
/// again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the parameter server panicked: {0}")]
pub(crate) struct Panicked(String);

/// A server in a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct EmbeddedServer {
    stop: Arc<AtomicBool>,
    published: Published,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server of these jobs; the thread inherits the caller's cores.
    ///
    /// It takes what is in `end.to`, and puts what it sends into `end.from`, in packets that `alloc` makes:
    /// the bytes given to it are a whole datagram. Where there is no packet, the datagram is lost and
    /// counted; where `end.from` is full, the server waits.
    ///
    /// # Errors
    /// The operating system's, if there can be no further thread.
    pub(crate) fn spawn<B: PacketBuf>(
        end: ServerEnd<B>,
        jobs: ServedJobs,
        alloc: impl FnMut(&[u8]) -> Option<B> + Send + 'static,
        limits: ServerLimits,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let published = Published::default();
        let mut end = End::new(end, alloc, jobs, limits, published.clone());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("ps".to_owned()).spawn(move || {
            let start = Instant::now();
            // Nothing but the order to end is said by the flag.
            while !stopped.load(Ordering::Relaxed) {
                if let Some(nap) = end.turn(start.elapsed()) {
                    std::thread::park_timeout(nap);
                }
            }
            end.publish();
        })?;
        Ok(Self { stop, published, thread: Some(thread) })
    }

    /// What the server has done and holds, as metrics; at most a few milliseconds old.
    pub(crate) fn published(&self) -> Published {
        self.published.clone()
    }

    /// True if the thread has ended, which it does not do by itself.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread. What is in the queues stays there.
    ///
    /// # Errors
    /// [`Panicked`] if it has ended before.
    pub(crate) fn stop(mut self) -> Result<Arc<Snapshot>, Panicked> {
        self.end()?;
        Ok(self.published.latest())
    }

    fn end(&mut self) -> Result<(), Panicked> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        thread.join().map_err(|panic| Panicked(message(panic.as_ref())))
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        if let Err(panic) = self.end() {
            tracing::error!(%panic);
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The thread's side: everything but the thread and the clock.
struct End<B, A> {
    end: ServerEnd<B>,
    alloc: A,
    jobs: ServedJobs,
    /// The list of jobs that it serves.
    serving: Arc<Vec<ServedJob>>,
    server: ServerLoop,
    datagram: Vec<u8>,
    no_buffer: u64,
    published: Published,
    /// Since the last snapshot, something has happened.
    dirty: bool,
    publish_at: Duration,
}

impl<B: PacketBuf, A: FnMut(&[u8]) -> Option<B>> End<B, A> {
    fn new(
        end: ServerEnd<B>,
        alloc: A,
        jobs: ServedJobs,
        limits: ServerLimits,
        published: Published,
    ) -> Self {
        Self {
            end,
            alloc,
            jobs,
            serving: Arc::default(),
            server: ServerLoop::new(limits),
            datagram: Vec::new(),
            no_buffer: 0,
            published,
            dirty: true,
            publish_at: Duration::ZERO,
        }
    }

    /// Does what there is to do, up to a batch. For how long there will be nothing, if there is nothing left.
    fn turn(&mut self, now: Duration) -> Option<Duration> {
        // Jobs first: their packets may be here already.
        let newer = self.jobs.newer(&self.serving);
        let changed = newer.is_some();
        if let Some(jobs) = newer {
            self.server.set_jobs(&jobs);
            self.serving = jobs;
        }
        let mut received = 0;
        while received < BATCH
            && let Some(packet) = self.end.to.pop()
        {
            self.server.receive(now, packet.bytes());
            received += 1;
        }
        self.server.advance(now);
        let sent = self.send();
        let busy = received > 0 || sent;
        self.dirty |= busy || changed;
        if self.dirty && (!busy || now >= self.publish_at) {
            self.publish();
            self.publish_at = now.saturating_add(PUBLISH);
        }
        if busy {
            return None;
        }
        let next = self.server.next_wake().map(|at| at.saturating_sub(now));
        Some(next.map_or(NAP, |next| next.min(NAP)))
    }

    /// Sends what there is to send, while there is room for it. True if there was something.
    fn send(&mut self) -> bool {
        let mut sent = false;
        while !self.end.from.is_full() && self.server.next_datagram(&mut self.datagram) {
            // Nobody else puts anything there, so there is still room.
            let gone = (self.alloc)(&self.datagram).is_some_and(|packet| self.end.from.push(packet).is_ok());
            self.no_buffer += u64::from(!gone);
            sent = true;
        }
        sent
    }

    fn publish(&mut self) {
        let count = Count {
            name: "ps_no_buffer",
            help: "Packets that were not sent because no packet buffer was free.",
            value: self.no_buffer,
        };
        self.published.publish(self.server.snapshot(vec![count]));
        self.dirty = false;
    }
}

#[cfg(test)]
mod tests;
