//! A queue and the line behind it.

use core::num::NonZeroU64;
use core::time::Duration;

use pascaline_buffer::HeapBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_queue::{Config, ConfigError, Departure, Enqueued, Shaper, Update, UpdateQueue};
use pascaline_wire::trailer::QueueState;

/// How long an update takes up its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Until it begins to be sent: the line has a place of its own for what it sends. So it is in an
    /// appliance, where what leaves the queue goes to the ring of a port.
    UntilBegun,
    /// Until all of it has been sent; meanwhile it is locked (Olaf, sections 4 and 12.1).
    UntilSent,
}

/// A queue and the line that drains it. Its driver calls [`finish`](Self::finish) at each
/// [`next`](Self::next), and [`offer`](Self::offer) for everything that arrives, in order of time. Several in
/// a row make a path.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    queue: UpdateQueue<HeapBuf>,
    line: Shaper,
    hold: Hold,
    /// What has left the queue and not yet the line.
    sending: Option<Departure<HeapBuf>>,
    /// When what is being sent will have been sent.
    ends: Option<u64>,
}

impl Bottleneck {
    /// An idle line of `gbps` behind an empty queue.
    ///
    /// # Errors
    /// [`ConfigError`] if there cannot be a queue like this.
    pub(crate) fn new(config: &Config, gbps: u32, hold: Hold) -> Result<Self, ConfigError> {
        // The shaper's clock counts ticks instead of nanoseconds: in its second pass 10⁹ of them, a
        // millisecond.
        let per_millisecond = NonZeroU64::new(u64::from(gbps) * 1_000_000).unwrap_or(NonZeroU64::MIN);
        Self::with_line(config, Shaper::new(per_millisecond, Duration::ZERO), hold)
    }

    /// An idle line behind an empty queue, in whatever the line takes for nanoseconds.
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

    /// When the next update will have been sent; `None` if the line is idle.
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

    /// What is stamped on acknowledgements that pass in the other direction.
    pub(crate) fn state(&mut self, now: u64) -> QueueState {
        self.queue.state(now)
    }

    /// The update that has been sent at `now`, which is [`next`](Self::next); the line goes on with the one
    /// after it.
    pub(crate) fn finish(&mut self, now: u64) -> Option<Departure<HeapBuf>> {
        self.ends.take()?;
        let sent = self.sending.take().or_else(|| self.queue.dequeue());
        self.begin(now);
        sent
    }

    fn begin(&mut self, now: u64) {
        let Some(head) = self.queue.head() else { return };
        let bits = u32::try_from(head.payload().end * 8).unwrap_or(u32::MAX);
        // The line is idle, so that it owes nothing.
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
