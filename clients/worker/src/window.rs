//! The state of each PSN of the running operation.
//!
//! Two limits at once. At most `in_flight` packets are on their way, or as many as
//! [congestion control](crate::congestion) allows, or fewer while results take very long; results come in any
//! order, and each makes room for one packet. And no PSN at or beyond `una + spread` is
//! sent, where `una` is the oldest PSN without a result: this lets other ranks forget results older than
//! `spread`.
//!
//! PSNs are serial numbers: they wrap at 2³², and only distances from `una` are compared.

use core::time::Duration;

use crate::congestion::Signal;

mod generation;
mod promises;
mod slots;

use slots::{List, NIL, Slot, State};

/// How often a packet is resent before a reminder goes out beside it (DSA, section IV.B).
pub const REMIND_AFTER: u32 = 3;

/// Packets that may be in flight however long results take.
pub const LEAST_IN_FLIGHT: u32 = 16;

/// Where a PSN stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Sent, without a result so far.
    Outstanding,
    /// It has its result.
    Done,
    /// It belongs to the operation, but has not been sent yet.
    Unsent,
    /// It does not belong to the operation, or is so old that no rank can be waiting for it.
    Outside,
}

/// A packet to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// Its PSN.
    pub psn: u32,
    /// How often it has been resent in this generation because it counted as lost, this time included; and
    /// [`REMIND_AFTER`] times before, if it was sent in an earlier one.
    pub retransmissions: u32,
    /// It has been sent before, for whatever reason.
    pub again: bool,
    /// It is sent because a reminder has asked for it.
    pub prompted: bool,
}

/// A packet that has got its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// When it was last sent.
    pub sent_at: Duration,
    /// The result may be the answer to an earlier sending than the last, or to an original sent on request.
    pub ambiguous: bool,
    /// It was sent in an earlier generation, and a reminder has asked for it in this one.
    pub fetched: bool,
    /// The result's information about the path: none, unless the session fills it in.
    pub signal: Signal,
}

/// The state of the PSNs of one operation after the other.
#[derive(Debug)]
pub struct Window {
    slots: Box<[Slot]>,
    mask: u32,
    in_flight_limit: u32,
    /// How many congestion control allows: at most the limit.
    aim: u32,
    /// How many may be in flight now.
    allowed: u32,
    spread: u32,
    start: u32,
    una: u32,
    next: u32,
    end: u32,
    completed: u32,
    /// In the order in which they were last sent.
    flight: List,
    /// In the order in which they were given up.
    lost: List,
}

impl Window {
    /// A window without an operation whose first PSN will be `psn`. Limits of 0 count as 1, and no more than
    /// `spread` packets are ever in flight.
    ///
    /// Memory: 64 bytes for each of 2 × `spread` PSNs, rounded up to a power of two: an answer to a reminder
    /// may concern PSNs up to `spread` behind `una`.
    #[must_use]
    pub fn new(psn: u32, in_flight: u16, spread: u16) -> Self {
        let spread = u32::from(spread.max(1));
        let ring = (2 * spread).next_power_of_two();
        Self {
            slots: vec![Slot::NEW; ring as usize].into_boxed_slice(),
            mask: ring - 1,
            in_flight_limit: u32::from(in_flight.max(1)).min(spread),
            aim: u32::from(in_flight.max(1)).min(spread),
            allowed: u32::from(in_flight.max(1)).min(spread),
            spread,
            start: psn,
            una: psn,
            next: psn,
            end: psn,
            completed: 0,
            flight: List::EMPTY,
            lost: List::EMPTY,
        }
    }

    /// Sets how many packets may be in flight. The window shrinks to that at once, and grows to it by one
    /// packet with each result.
    pub fn aim(&mut self, packets: u32) {
        self.aim = packets.clamp(1, self.in_flight_limit);
        self.allowed = self.allowed.min(self.aim);
    }

    /// How many packets may be in flight at most, whatever congestion control says.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.in_flight_limit
    }

    /// Begins an operation of `packets` PSNs after the operation before. Returns its first PSN.
    pub fn begin(&mut self, packets: u32) -> u32 {
        self.start = self.end;
        self.una = self.start;
        self.next = self.start;
        self.end = self.start.wrapping_add(packets);
        self.completed = 0;
        self.flight = List::EMPTY;
        self.lost = List::EMPTY;
        self.start
    }

    /// The next packet to send, if the limits allow one: lost packets first. From now on it is in flight.
    pub fn send(&mut self, now: Duration) -> Option<Sending> {
        let psn = if self.lost.len > 0 {
            let at = self.lost.head;
            self.lost.remove(&mut self.slots, at);
            // The ring holds at most one unfinished PSN per slot, and it is less than a ring away from `una`.
            self.una.wrapping_add(at.wrapping_sub(self.una) & self.mask)
        } else if self.flight.len < self.allowed
            && self.next != self.end
            && self.next.wrapping_sub(self.una) < self.spread
        {
            let psn = self.next;
            self.slots[(psn & self.mask) as usize] = Slot::NEW;
            self.next = psn.wrapping_add(1);
            psn
        } else {
            return None;
        };
        let at = psn & self.mask;
        self.flight.push(&mut self.slots, at);
        let slot = &mut self.slots[at as usize];
        let (again, prompted) = (slot.sent_before, slot.prompted);
        slot.retransmissions += u32::from(slot.in_generation && !prompted);
        slot.ambiguous |= slot.in_generation;
        slot.in_generation = true;
        slot.sent_before = true;
        slot.prompted = false;
        slot.state = State::InFlight;
        slot.sent_at = now;
        Some(Sending { psn, retransmissions: slot.retransmissions, again, prompted })
    }

    /// Where a PSN stands.
    #[must_use]
    pub fn standing(&self, psn: u32) -> Standing {
        let length = self.end.wrapping_sub(self.start);
        let offset = psn.wrapping_sub(self.start);
        if offset >= length {
            return Standing::Outside;
        }
        if offset >= self.next.wrapping_sub(self.start) {
            return Standing::Unsent;
        }
        if psn.wrapping_sub(self.una) < self.next.wrapping_sub(self.una) {
            return match self.slots[(psn & self.mask) as usize].state {
                State::Done => Standing::Done,
                State::InFlight | State::Lost => Standing::Outstanding,
            };
        }
        if self.una.wrapping_sub(psn) <= self.spread { Standing::Done } else { Standing::Outside }
    }

    /// True if the PSN belongs to the operation and has its result, however long ago.
    #[must_use]
    pub fn is_done(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.start) < self.una.wrapping_sub(self.start)
            || self.standing(psn) == Standing::Done
    }

    /// Notes a result. `None`, and nothing changes, unless the PSN is [outstanding](Standing::Outstanding).
    pub fn complete(&mut self, psn: u32, overflowed: bool) -> Option<Completion> {
        if self.standing(psn) != Standing::Outstanding {
            return None;
        }
        let at = psn & self.mask;
        match self.slots[at as usize].state {
            State::InFlight => self.flight.remove(&mut self.slots, at),
            State::Lost => self.lost.remove(&mut self.slots, at),
            State::Done => return None,
        }
        let slot = &mut self.slots[at as usize];
        slot.state = State::Done;
        slot.overflowed = overflowed;
        let completion = Completion {
            sent_at: slot.sent_at,
            ambiguous: slot.ambiguous,
            fetched: slot.inherited && slot.retransmissions > REMIND_AFTER,
            signal: Signal::default(),
        };
        self.completed += 1;
        while self.una != self.next && self.slots[(self.una & self.mask) as usize].state == State::Done {
            self.una = self.una.wrapping_add(1);
        }
        Some(completion)
    }

    /// Gives up waiting for a PSN's result: it will be sent again. False if it is not in flight.
    pub fn lose(&mut self, psn: u32) -> bool {
        let at = psn & self.mask;
        let in_flight =
            self.standing(psn) == Standing::Outstanding && self.slots[at as usize].state == State::InFlight;
        if in_flight {
            self.move_to_lost(at);
        }
        in_flight
    }

    /// Has a PSN sent again because a reminder asks for it. If it is not in flight, it is to be sent anyway.
    pub fn prompt(&mut self, psn: u32) {
        if self.lose(psn) {
            self.slots[(psn & self.mask) as usize].prompted = true;
        }
    }

    /// Gives up, once per PSN, what was last sent before `horizon`. Returns how many.
    pub fn lose_early(&mut self, horizon: Duration) -> u32 {
        let mut lost = 0;
        let mut at = self.flight.head;
        while at != NIL {
            let slot = &mut self.slots[at as usize];
            if slot.sent_at >= horizon {
                break;
            }
            let next = slot.next;
            if !slot.resent_early {
                slot.resent_early = true;
                self.move_to_lost(at);
                lost += 1;
            }
            at = next;
        }
        lost
    }

    /// Gives up the packet whose last sending is the longest ago.
    pub fn lose_oldest(&mut self) {
        if self.flight.head != NIL {
            self.move_to_lost(self.flight.head);
        }
    }

    /// Halves what may be in flight, but not below [`LEAST_IN_FLIGHT`], unless it is less already.
    pub fn narrow(&mut self) {
        self.allowed = (self.allowed / 2).max(LEAST_IN_FLIGHT.min(self.allowed));
    }

    /// Allows one packet more in flight, up to the aim.
    pub fn widen(&mut self) {
        self.allowed = (self.allowed + 1).min(self.aim);
    }

    /// How many packets may be in flight now.
    #[must_use]
    pub const fn allowed(&self) -> u32 {
        self.allowed
    }

    fn move_to_lost(&mut self, at: u32) {
        self.flight.remove(&mut self.slots, at);
        self.slots[at as usize].state = State::Lost;
        self.lost.push(&mut self.slots, at);
    }

    /// When the packet in flight whose last sending is the longest ago was sent.
    #[must_use]
    pub fn oldest_sending(&self) -> Option<Duration> {
        (self.flight.head != NIL).then(|| self.slots[self.flight.head as usize].sent_at)
    }

    /// The same of those that have not been [given up early](Self::lose_early).
    #[must_use]
    pub fn oldest_unhurried(&self) -> Option<Duration> {
        let mut at = self.flight.head;
        while at != NIL {
            let slot = &self.slots[at as usize];
            if !slot.resent_early {
                return Some(slot.sent_at);
            }
            at = slot.next;
        }
        None
    }

    /// True if something waits to be sent again.
    #[must_use]
    pub const fn has_lost(&self) -> bool {
        self.lost.len > 0
    }

    /// Packets in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.flight.len
    }

    /// The oldest PSN without a result; one past the operation's last if it is complete.
    #[must_use]
    pub const fn una(&self) -> u32 {
        self.una
    }

    /// One past the operation's last PSN.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.end
    }

    /// PSNs of the operation that have not been sent yet.
    #[must_use]
    pub const fn unsent(&self) -> u32 {
        self.end.wrapping_sub(self.next)
    }

    /// PSNs of the operation that have their result.
    #[must_use]
    pub const fn completed(&self) -> u32 {
        self.completed
    }

    /// True if every PSN of the operation has its result.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.una == self.end
    }

    /// How far a PSN may run ahead of `una`.
    #[must_use]
    pub const fn spread(&self) -> u32 {
        self.spread
    }

    /// Whether the result of a PSN was flagged as overflowed. Meaningful for [done](Standing::Done) PSNs.
    #[must_use]
    pub fn overflowed(&self, psn: u32) -> bool {
        self.slots[(psn & self.mask) as usize].overflowed
    }

    /// When a PSN was last sent in this generation.
    #[must_use]
    pub fn last_sending(&self, psn: u32) -> Option<Duration> {
        let slot = &self.slots[(psn & self.mask) as usize];
        slot.in_generation.then_some(slot.sent_at)
    }

    /// When a PSN's result or original was last sent on request.
    #[must_use]
    pub fn last_answer(&self, psn: u32) -> Option<Duration> {
        self.slots[(psn & self.mask) as usize].reminded_at
    }

    /// Notes that a PSN's result or original is sent on request. A later result may answer it.
    pub fn note_answer(&mut self, psn: u32, now: Duration) {
        let slot = &mut self.slots[(psn & self.mask) as usize];
        slot.reminded_at = Some(now);
        slot.ambiguous = true;
    }
}
