//! A queue and the line behind it.

use core::num::NonZeroU64;
use core::time::Duration;

use pascaline_buffer::HeapBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_queue::{Config, ConfigError, Departure, Enqueued, Shaper, Update, UpdateQueue};
use pascaline_wire::trailer::QueueState;

/// How long an update occupies its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Until its sending begins, as in an appliance, where an update that leaves the queue goes to the ring
    /// of a port.
    UntilBegun,
    /// Until it is sent completely; it is locked meanwhile (Olaf, sections 4 and 12.1).
    UntilSent,
}

/// A queue and the line that drains it. Its driver calls [`finish`](Self::finish) at each
/// [`next`](Self::next), and [`offer`](Self::offer) for each arrival, in order of time. Several in a row make
/// a path.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    queue: UpdateQueue<HeapBuf>,
    line: Shaper,
    hold: Hold,
    /// The update that the line is sending.
    sending: Option<Departure<HeapBuf>>,
    /// When the line has sent it.
    ends: Option<u64>,
}

impl Bottleneck {
    /// An idle line of `gbps` behind an empty queue.
    ///
    /// # Errors [`ConfigError`] if the queue is not possible.
    pub(crate) fn new(config: &Config, gbps: u32, hold: Hold) -> Result<Self, ConfigError> {
        // The shaper takes ticks for nanoseconds: 10⁹ of them, a millisecond, are its second.
        let per_millisecond = NonZeroU64::new(u64::from(gbps) * 1_000_000).unwrap_or(NonZeroU64::MIN);
        Self::with_line(config, Shaper::new(per_millisecond, Duration::ZERO), hold)
    }

    /// An idle line behind an empty queue, in the line's own unit of time.
    ///
    /// # Errors
    /// As `new`.
    pub(crate) fn with_line(config: &Config, line: Shaper, hold: Hold) -> Result<Self, ConfigError> {
        Ok(Self {
            queue: UpdateQueue::new(config, &Kernels::detect())?,
            line,
            hold,
            sending: None,
            ends: None,
        })
    }

    /// The queue.
    #[must_use]
    pub(crate) const fn queue(&self) -> &UpdateQueue<HeapBuf> {
        &self.queue
    }

    /// When the line has sent its update; `None` if it is idle.
    #[must_use]
    pub(crate) const fn next(&self) -> Option<u64> {
        self.ends
    }

    /// An update arrives. An idle line begins to send at once.
    pub(crate) fn offer(&mut self, now: u64, update: Update, packet: HeapBuf) -> Enqueued<HeapBuf> {
        let enqueued = self.queue.enqueue(now, update, packet);
        if self.ends.is_none() {
            self.begin(now);
        }
        enqueued
    }

    /// The state that is stamped on acknowledgements.
    pub(crate) fn state(&mut self, now: u64) -> QueueState {
        self.queue.state(now)
    }

    /// The update that was sent at `now`, which is [`next`](Self::next). The line begins to send the
    /// following one.
    pub(crate) fn finish(&mut self, now: u64) -> Option<Departure<HeapBuf>> {
        self.ends.take()?;
        let sent = self.sending.take().or_else(|| self.queue.dequeue());
        self.begin(now);
        sent
    }

    fn begin(&mut self, now: u64) {
        let Some(head) = self.queue.head() else { return };
        let bits = u32::try_from(head.payload().end * 8).unwrap_or(u32::MAX);
        // An idle line owes nothing.
        if self.line.take(now, bits).is_ok() {
            self.ends = Some(self.line.ready_ns());
            match self.hold {
                Hold::UntilBegun => self.sending = self.queue.dequeue(),
                Hold::UntilSent => {
                    let _ = self.queue.lock();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
