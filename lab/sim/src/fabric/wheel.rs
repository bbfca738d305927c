//! A wheel of timers in levels of 64 slots: what is due soon is in the lowest, and moves down with time.

use std::collections::VecDeque;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 11;
/// Events for which a slot keeps its room when it is emptied: what all slots keep does not grow with a peak.
const KEPT: usize = 64;

/// Events by time. Those of the same time come out in the order in which they came in.
#[derive(Debug)]
pub struct Wheel<T> {
    now: u64,
    /// Due now.
    due: VecDeque<T>,
    slots: Vec<Vec<(u64, T)>>,
    /// Which slots of each level have something.
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
    /// The time of the latest event that came out.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Events to come.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is to come.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Events for which it has memory.
    #[must_use]
    pub fn room(&self) -> usize {
        self.due.capacity() + self.slots.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Something happens at `at`, or now if that has passed.
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

    /// The next event.
    pub fn pop(&mut self) -> Option<T> {
        loop {
            if let Some(what) = self.due.pop_front() {
                self.len -= 1;
                return Some(what);
            }
            if self.due.capacity() > KEPT {
                self.due.shrink_to(KEPT);
            }
            let level = self.occupied.iter().position(|&slots| slots != 0)?;
            // Whatever a level has comes before all of the levels above.
            let digit = self.occupied[level].trailing_zeros() as usize;
            self.occupied[level] &= !(1 << digit);
            let at = level * SLOTS + digit;
            let mut slot = core::mem::take(&mut self.slots[at]);
            if level == 0 {
                self.now = slot.first().map_or(self.now, |&(at, _)| at);
                self.due.extend(slot.drain(..).map(|(_, what)| what));
            } else {
                // Time goes on to where the slot begins: what is in it differs from then on in lower digits.
                let from = slot.first().map_or(self.now, |&(at, _)| at);
                let below = (1 << (BITS as usize * level)) - 1;
                self.now = from & !below;
                for (at, what) in slot.drain(..) {
                    self.put(at, what);
                }
            }
            // The room of what has been emptied is used again, unless it is large.
            if self.slots[at].is_empty() && slot.capacity() <= KEPT {
                self.slots[at] = slot;
            }
        }
    }
}
