//! Which counters are whose.

use std::collections::BTreeSet;

use pascaline_telemetry::jobs::{OTHERS, SLOTS};

/// The counters of the lcores that no job has.
#[derive(Debug, Default)]
pub(super) struct Slots {
    used: BTreeSet<u16>,
    next: u16,
}

impl Slots {
    /// Counters for another job: those that have not been used for longest. With all others, if there are none.
    pub(super) fn take(&mut self) -> u16 {
        let free = (self.next..SLOTS).chain(0..self.next).find(|slot| !self.used.contains(slot));
        let Some(slot) = free else { return OTHERS };
        self.used.insert(slot);
        self.next = (slot + 1) % SLOTS;
        slot
    }

    /// A job is gone.
    pub(super) fn give_back(&mut self, slot: u16) {
        self.used.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_reused_as_late_as_possible() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take()], [0, 1]);
        slots.give_back(0);
        assert_eq!(slots.take(), 2);
        for _ in 3..SLOTS {
            slots.take();
        }
        assert_eq!([slots.take(), slots.take()], [0, OTHERS]);
        slots.give_back(OTHERS);
        slots.give_back(7);
        assert_eq!([slots.take(), slots.take()], [7, OTHERS]);
    }
}
