//! The one engine of virtual time: events come out in the order of their times.
//!
//! Time is a `u64` of ticks, and each simulation defines a tick: a nanosecond if real parts take times as
//! [`Duration`], a picosecond if a byte takes less than a nanosecond. The wheel only compares ticks, and a
//! simulation converts for calls of such parts ([`nanos`]). Even picoseconds last for 213 days.
//!
//! ```
//! use pascaline_sim::wheel::{Timer, Wheel};
//!
//! let (mut wheel, mut timer) = (Wheel::default(), Timer::default());
//! wheel.push(20, "arrival");
//! for at in [30, 10] {
//!     if timer.set(at) {
//!         wheel.push(at, "timer");
//!     }
//! }
//! assert_eq!(wheel.pop(), Some((10, "timer")));
//! assert!(timer.expire(10));
//! assert_eq!(wheel.pop(), Some((20, "arrival")));
//! assert_eq!(wheel.pop(), Some((30, "timer")));
//! assert!(!timer.expire(30), "it was set to 10 since");
//! assert_eq!((wheel.pop(), wheel.now()), (None, 30));
//! ```

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 11;
/// Events for which a slot keeps its memory once it is empty, so that slots do not keep that of a peak.
const KEPT: usize = 64;

/// Events by time, those of the same time in the order in which they were pushed.
///
/// It is a hierarchy of levels with 64 slots each. The lowest level holds the events of the next 64 ticks. As
/// time passes, events move down.
#[derive(Debug)]
pub struct Wheel<T> {
    now: u64,
    /// Events that are due now.
    due: VecDeque<T>,
    slots: Vec<Vec<(u64, T)>>,
    /// Which slots of each level hold events.
    occupied: [u64; LEVELS],
    len: usize,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        let slots = (0..LEVELS * SLOTS).map(|_| Vec::new()).collect();
        Self { now: 0, due: VecDeque::new(), slots, occupied: [0; LEVELS], len: 0 }
    }
}

impl<T> Wheel<T> {
    /// The time of the event that came out last.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The number of pending events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if no event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of events for which memory is allocated.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.due.capacity() + self.slots.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Schedules an event at `at`, or now if that has passed.
    pub fn push(&mut self, at: u64, what: T) {
        self.len += 1;
        self.put(at, what);
    }

    fn put(&mut self, at: u64, what: T) {
        let at = at.max(self.now);
        // The highest digit in which the times differ.
        let level = (63 - ((at ^ self.now) | 1).leading_zeros()) / BITS;
        let digit = at >> (BITS * level) & (SLOTS as u64 - 1);
        self.occupied[level as usize] |= 1 << digit;
        #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
        self.slots[level as usize * SLOTS + digit as usize].push((at, what));
    }

    /// Takes out the next event and its time, which is now the present time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        loop {
            if let Some(what) = self.due.pop_front() {
                self.len -= 1;
                return Some((self.now, what));
            }
            if self.due.capacity() > KEPT {
                self.due.shrink_to(KEPT);
            }
            let level = self.occupied.iter().position(|&slots| slots != 0)?;
            // All events of a level come before those of the levels above.
            let digit = self.occupied[level].trailing_zeros() as usize;
            self.occupied[level] &= !(1 << digit);
            let at = level * SLOTS + digit;
            let mut slot = core::mem::take(&mut self.slots[at]);
            if slot.len() == 1 {
                // It need not move down: it is the next one.
                self.due.extend(slot.drain(..).map(|(at, what)| {
                    self.now = at;
                    what
                }));
            } else if level == 0 {
                self.now = slot.first().map_or(self.now, |&(at, _)| at);
                self.due.extend(slot.drain(..).map(|(_, what)| what));
            } else {
                // Time moves to the slot's beginning: from there its events differ only in lower digits.
                let from = slot.first().map_or(self.now, |&(at, _)| at);
                let below = (1 << (BITS as usize * level)) - 1;
                self.now = from & !below;
                for (at, what) in slot.drain(..) {
                    self.put(at, what);
                }
            }
            // The slot's memory is used again, unless it is large.
            if self.slots[at].is_empty() && slot.capacity() <= KEPT {
                self.slots[at] = slot;
            }
        }
    }
}

/// A time in ticks of a nanosecond; the end of time if it is later.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A timer that can be set again and cancelled. An event is pushed for each setting; when it comes out, it
/// counts if the timer is still set to its time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timer(Option<u64>);

impl Timer {
    /// Sets it. True if an event must be pushed for that: one for this time is not pending yet.
    #[must_use]
    pub fn set(&mut self, at: u64) -> bool {
        self.0.replace(at) != Some(at)
    }

    /// Sets it unless it expires by then in any case. True if an event must be pushed for that.
    #[must_use]
    pub fn set_earlier(&mut self, at: u64) -> bool {
        self.0.is_none_or(|before| at < before) && self.set(at)
    }

    /// True between a setting and its event.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// One of its events has come out. True if it counts: the timer has expired, and is no longer set.
    #[must_use]
    pub fn expire(&mut self, now: u64) -> bool {
        self.0.take_if(|at| *at <= now).is_some()
    }

    /// Cancels the setting.
    pub const fn cancel(&mut self) {
        self.0 = None;
    }
}

/// A timer of which each event counts, also one for a time to which it is no longer set: what has a time of
/// its own may be due then. So no event is pushed for a time for which one is pending.
#[derive(Debug, Clone, Default)]
pub struct Alarm {
    timer: Timer,
    pending: Vec<u64>,
}

impl Alarm {
    /// Sets it unless it rings by `due` in any case. The event's time, `at`, if one must be pushed.
    #[must_use]
    pub fn set_earlier(&mut self, due: u64, at: u64) -> Option<u64> {
        let news = self.timer.set_earlier(due) && !self.pending.contains(&at);
        self.pending.extend(news.then_some(at));
        news.then_some(at)
    }

    /// One of its events has come out. It is no longer set.
    pub fn ring(&mut self, now: u64) {
        self.pending.retain(|&at| at != now);
        self.cancel();
    }

    /// Cancels the setting.
    pub const fn cancel(&mut self) {
        self.timer.cancel();
    }
}
