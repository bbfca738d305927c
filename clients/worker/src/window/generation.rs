//! A worker's state that passes into the next generation of its job.

use super::slots::{List, Slot, State};
use super::{REMIND_AFTER, Window};

impl Window {
    /// Begins a new generation of the job: PSNs without a result are sent again, oldest first, and count as
    /// sent for the first time; but if that brings no result, a reminder asks for them at once. Takes time in
    /// proportion to the spread.
    pub fn begin_generation(&mut self) {
        self.flight = List::EMPTY;
        self.lost = List::EMPTY;
        let mut psn = self.una;
        while psn != self.next {
            let at = psn & self.mask;
            let slot = &mut self.slots[at as usize];
            if slot.state != State::Done {
                *slot = Slot {
                    state: State::Lost,
                    sent_before: true,
                    inherited: true,
                    retransmissions: REMIND_AFTER,
                    ..Slot::NEW
                };
                self.lost.push(&mut self.slots, at);
            }
            psn = psn.wrapping_add(1);
        }
    }
}
