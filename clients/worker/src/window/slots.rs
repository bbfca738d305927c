//! The state of one PSN, and lists of them in order of arrival, linked through the slots themselves.

use core::time::Duration;

use pascaline_wire::round;

pub(super) const NIL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    InFlight,
    Lost,
    Done,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) overflowed: bool,
    pub(super) resent_early: bool,
    /// It waits to be sent again because a reminder has asked for it, and not because it counts as lost.
    pub(super) prompted: bool,
    /// Sent at all, in any generation.
    pub(super) sent_before: bool,
    /// The result can be an answer to any of several sendings.
    pub(super) ambiguous: bool,
    /// Sent in this generation.
    pub(super) in_generation: bool,
    /// Sent in an earlier generation: other ranks may have the result, and the appliance has forgotten it.
    pub(super) inherited: bool,
    /// The vote that it takes part in: it takes only this one's result.
    pub(super) promised: u16,
    pub(super) retransmissions: u32,
    pub(super) sent_at: Duration,
    pub(super) reminded_at: Option<Duration>,
    pub(super) previous: u32,
    pub(super) next: u32,
}

const _: () = assert!(size_of::<Slot>() <= 64, "as Window::new says");

impl Slot {
    pub(super) const NEW: Self = Self {
        state: State::Done,
        overflowed: false,
        resent_early: false,
        prompted: false,
        sent_before: false,
        ambiguous: false,
        in_generation: false,
        inherited: false,
        promised: round::NONE,
        retransmissions: 0,
        sent_at: Duration::ZERO,
        reminded_at: None,
        previous: NIL,
        next: NIL,
    };
}

/// The two ends and the length; each slot knows its neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) head: u32,
    tail: u32,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    pub(super) fn push(&mut self, slots: &mut [Slot], at: u32) {
        slots[at as usize].previous = self.tail;
        slots[at as usize].next = NIL;
        match self.tail {
            NIL => self.head = at,
            tail => slots[tail as usize].next = at,
        }
        self.tail = at;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, slots: &mut [Slot], at: u32) {
        let Slot { previous, next, .. } = slots[at as usize];
        match previous {
            NIL => self.head = next,
            previous => slots[previous as usize].next = next,
        }
        match next {
            NIL => self.tail = previous,
            next => slots[next as usize].previous = previous,
        }
        self.len -= 1;
    }
}
