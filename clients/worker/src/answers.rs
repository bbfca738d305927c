//! Answers to reminders, limited so that a flood of reminders cannot make a flood of answers.

use std::collections::VecDeque;

use core::time::Duration;

/// The least time between two reactions to reminders for one PSN: DSA's least timeout, so that a rank that
/// asks once per timeout is answered each time.
pub const INTERVAL: Duration = Duration::from_millis(1);

/// The most reactions in any [`INTERVAL`], whatever the PSNs: with payloads of 1 KiB, about 2 Gbit/s. A
/// parameter server that puts sums to the vote asks all ranks of many PSNs at once; with a quarter of this,
/// iterations in which jobs displace each other took up to 40 % longer.
pub const PER_INTERVAL: u32 = 256;

/// The request of a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The PSN.
    pub psn: u32,
    /// The parameter server asks, so the answer is not to be aggregated on its way: flag BYPASS.
    pub bypass: bool,
}

/// Answers to requests, in order.
#[derive(Debug)]
pub struct Answers {
    queue: VecDeque<Asked>,
    interval_began: Duration,
    in_interval: u32,
}

impl Default for Answers {
    fn default() -> Self {
        Self::new()
    }
}

impl Answers {
    /// An empty queue. Its room is fixed: two intervals' worth of answers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: VecDeque::with_capacity(2 * PER_INTERVAL as usize),
            interval_began: Duration::ZERO,
            in_interval: 0,
        }
    }

    /// Whether a reminder may be reacted to now, given the time of the last reaction for the same PSN. If so,
    /// it counts towards the limit.
    pub fn admit(&mut self, now: Duration, last: Option<Duration>) -> bool {
        if last.is_some_and(|last| now < last.saturating_add(INTERVAL)) {
            return false;
        }
        if now >= self.interval_began.saturating_add(INTERVAL) {
            self.interval_began = now;
            self.in_interval = 0;
        }
        let admitted = self.in_interval < PER_INTERVAL && self.queue.len() < self.queue.capacity();
        self.in_interval += u32::from(admitted);
        admitted
    }

    /// Queues an answer that has been [admitted](Self::admit).
    pub fn push(&mut self, asked: Asked) {
        self.queue.push_back(asked);
    }

    /// The next one to send.
    pub fn pop(&mut self) -> Option<Asked> {
        self.queue.pop_front()
    }

    /// Forgets what is waiting.
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}
