//! One slot's state machine: `Empty → Open or Kept (partial) → Done (cached result)`.
//!
//! A done slot is not freed: the result stays until another PSN needs the slot, so that a worker that lost it
//! gets it again at once. An open slot owns its packets; a done one shares the result, which is never written
//! again.
//!
//! Contributions are added as they arrive, long ones of one burst together. Those that are added in the order
//! of ranks, or would lose bits if rounded after each addition, are kept until all are there. (Keeping short
//! ones too would save passes over the accumulator but costs more: each would come into the cache twice.)

mod add;
mod prefetch;
mod result;
mod time;

use core::mem::offset_of;
use core::num::NonZeroU32;

use pascaline_buffer::PacketBuf;
use pascaline_wire::{Element, RankSet};

use crate::contributions::{Contributions, Originals};
use crate::key::Key;
use crate::request::{Opening, Request, Shape};
use crate::sabotage::Sabotage;
use crate::sink::{Partial, Rejection};
use time::micros;

pub(crate) use add::Admission;

/// The content of a slot.
pub(crate) enum Hold<B: PacketBuf> {
    Empty,
    /// The packet of the first contribution, to which the others are added.
    Open(B),
    /// All contributions as they arrived.
    Kept(Contributions<B>),
    Done(B::Shared),
}

/// One cache line with a one-word bitmap; a wider one reaches into the next ones.
///
/// Only the owner of the slot's set reads or writes it, so its fields are plain: no atomics, no ordering.
/// What reaches the owner from other lcores comes through a ring, whose release and acquire order it
/// (`handoff.rs`). Each field names the functions that write it, here and in `slot/`;
/// `tests/static/test_house.py` compares them with the code.
#[repr(C, align(64))]
pub(crate) struct Slot<B: PacketBuf, const WORDS: usize> {
    /// Key, and in the byte above it the element. Written by `open` and `install`; every lookup compares it.
    name: u64,
    /// Where the accumulator's payload lies while the slot is open: going through the packet would cost the
    /// cache line of its descriptor. With a result: its descriptor. With kept contributions: the line that
    /// says where they are. Written by `open`, `keep` and `cache`. `accumulator` writes through it; otherwise
    /// it is only prefetched.
    payload: *mut u8,
    /// The slot's content. Written by `open`, `keep`, `cache`, `complete_fast`, `sum`, `take` and
    /// `give_up_result`; read by all.
    hold: Hold<B>,
    /// Microseconds, wrapping: when the slot was last used. Written by `touch`, `remind`, `open` and
    /// `install`; read by `idle`, for the choice of a victim.
    touched: u32,
    /// Microseconds, wrapping: when the missing ranks were last reminded. Written by `remind` and `open`;
    /// read by `remind`.
    reminded: Option<NonZeroU32>,
    /// Fan-in and payload length. Written by `open` and `install`; every contribution is compared with it.
    shape: Shape,
    /// Contributions inside. Written by `admit`, `admit_missing`, `admit_combined`, `open` and `install`;
    /// read for completion.
    count: u16,
    /// Of a partial, its priority; of a result, its [round](Self::round). Written by `open`, `cache`,
    /// `install` and `halve_priority`; read by preemption and `yields_to`.
    priority: u16,
    /// When the first contribution arrived, and in the byte above it, flags. A clock of 56 bits goes for two
    /// years. Written by `open`, `install`, `note`, `note_overflow`, `uncount` and `sum_kept`; read by
    /// sweeps, results and evictions.
    first: u64,
    /// The ranks inside. Written by `admit`, `admit_missing`, `admit_combined` and `open`; read by `remind`,
    /// `keep`, sweeps and `append_bitmap`. Says something while the slot is open or keeps
    /// contributions; with a result it is what was left.
    ranks: RankSet<WORDS>,
}

// SAFETY: the pointer goes to packets that the slot holds, which are Send.
unsafe impl<B: PacketBuf, const WORDS: usize> Send for Slot<B, WORDS> {}

/// An element has saturated.
const OVERFLOW: u64 = 1 << 56;
/// Evicted content goes to the parameter server.
const SERVER: u64 = 1 << 57;
/// The slot is counted against its job's quota.
const COUNTED: u64 = 1 << 58;
/// A packet inside was not sent for the first time.
const AGAIN: u64 = 1 << 59;
/// A contribution that was not sent for the first time opened the slot: perhaps none inside was.
const REOPENED: u64 = 1 << 60;
/// A packet inside has met congestion on its way.
const MARKED: u64 = 1 << 61;
const FIRST: u64 = OVERFLOW - 1;

// For any number of ranks, all other fields that a contribution needs are in the first line.
const _: () = {
    type Of<const WORDS: usize> = Slot<pascaline_buffer::HeapBuf, WORDS>;
    assert!(size_of::<Of<1>>() == 64 && size_of::<Of<16>>() == 192);
    assert!(offset_of!(Of<1>, name) == 0 && offset_of!(Of<16>, name) == 0);
    assert!(offset_of!(Of<1>, ranks) == 56 && offset_of!(Of<16>, ranks) == 56);
};

#[inline(always)]
const fn flag(flag: u64, set: bool) -> u64 {
    if set { flag } else { 0 }
}

/// A contribution's flags, to be noted.
fn flags(request: &Request) -> u64 {
    flag(OVERFLOW, request.overflow) | flag(AGAIN, request.again) | flag(MARKED, request.marked)
}

/// The former content of a slot.
pub(crate) enum Contents<B: PacketBuf> {
    Nothing,
    Result,
    Partial(Partial<B>),
    Originals(Originals<B>),
}

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    pub(crate) const fn new() -> Self {
        Self {
            name: 0,
            payload: core::ptr::null_mut(),
            hold: Hold::Empty,
            touched: 0,
            reminded: None,
            shape: Shape::new(0, 0),
            count: 0,
            priority: 0,
            first: 0,
            ranks: RankSet::EMPTY,
        }
    }

    /// Which PSN.
    #[inline(always)]
    pub(crate) const fn key(&self) -> Key {
        Key::from_bits(self.name & (u64::MAX >> 8))
    }

    /// Element type and operation, as [in a request](Request::element).
    #[inline(always)]
    pub(crate) const fn element(&self) -> u8 {
        self.name.to_be_bytes()[0]
    }

    /// When the first contribution arrived.
    #[inline]
    pub(crate) const fn first(&self) -> u64 {
        self.first & FIRST
    }

    #[inline(always)]
    const fn fan_in(&self) -> u16 {
        self.shape.fan_in()
    }

    /// Bytes of the payload.
    #[inline(always)]
    const fn len(&self) -> u16 {
        self.shape.payload_len()
    }

    const fn overflow(&self) -> bool {
        self.first & OVERFLOW != 0
    }

    /// True if evicted content goes to the parameter server.
    pub(crate) const fn has_server(&self) -> bool {
        self.first & SERVER != 0
    }

    /// The priority of the partial.
    pub(crate) const fn priority(&self) -> u16 {
        self.priority
    }

    /// The partial has won a conflict, and wins the next one less easily.
    pub(crate) const fn halve_priority(&mut self) {
        self.priority /= 2;
    }

    /// True if the slot was counted against its job's quota; from now on it is not.
    pub(crate) const fn uncount(&mut self) -> bool {
        let counted = self.first & COUNTED != 0;
        if counted {
            self.first &= !COUNTED;
        }
        counted
    }

    /// Notes that a rank's contribution is inside. Returns false and changes nothing if it was already or
    /// does not fit.
    #[inline(always)]
    fn admit(&mut self, rank: u16) -> bool {
        if Sabotage::LostBit.is_on() {
            self.count += 1;
            return true;
        }
        if !self.ranks.insert(rank) {
            return false;
        }
        self.count += 1;
        true
    }

    /// The same for a rank that is not inside, and fits. With [`admit`](Self::admit) in its place,
    /// `pool-rank-order` takes 544 instructions instead of 530.
    #[inline(always)]
    fn admit_missing(&mut self, rank: u16) {
        let new = Sabotage::LostBit.is_on() || self.ranks.insert(rank);
        debug_assert!(new, "it was missing");
        self.count += 1;
    }

    /// The same for several of the first 64 ranks, a bit for each.
    fn admit_combined(&mut self, ranks: u64) -> bool {
        let new = self.ranks.insert_word(ranks);
        if new {
            #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
            let count = ranks.count_ones() as u16;
            self.count += count;
        }
        new
    }

    /// Opens the slot, which must be empty, with a first contribution or with the sum of those `inside`. Its
    /// packet, reduced to its payload, becomes the accumulator, or the first of those that are kept (`keep`).
    #[inline(always)]
    pub(crate) fn open(&mut self, opening: &Opening<'_>, inside: u64, flags: u64, mut packet: B, keep: bool) {
        debug_assert!(matches!(self.hold, Hold::Empty));
        let &Opening { gradient, rules, priority, now, .. } = opening;
        self.ranks = RankSet::EMPTY;
        self.name = gradient.name;
        self.touched = micros(now);
        self.reminded = None;
        self.shape = gradient.shape;
        self.count = 0;
        self.priority = priority;
        self.first = now & FIRST | flag(SERVER, rules.server()) | flags;
        let admitted = match inside {
            0 => self.admit(gradient.rank()),
            ranks => self.admit_combined(ranks),
        };
        debug_assert!(admitted, "the pool has checked the ranks");
        let hold = if keep {
            let contributions = Contributions::new(gradient.rank(), packet);
            self.payload = contributions.line();
            Hold::Kept(contributions)
        } else {
            self.payload = packet.bytes_mut().as_mut_ptr();
            Hold::Open(packet)
        };
        // There is nothing to drop.
        core::mem::forget(core::mem::replace(&mut self.hold, hold));
    }

    /// As [`open`](Self::open), by the whole request.
    ///
    /// A packet that is shorter than the request says makes a shorter payload: the pool has checked that it
    /// is not.
    pub(crate) fn open_noted(&mut self, request: &Request, mut packet: B, keep: bool, counted: bool) {
        let entire = packet.trim(usize::from(request.offset), usize::from(request.len));
        debug_assert!(entire, "the pool has checked the length");
        let len = u16::try_from(packet.bytes().len()).map_or(0, |len| len.min(request.len));
        let gradient = Request { len, ..*request }.single();
        let opening = Opening::of(request, &gradient);
        let flags = flags(request) | flag(REOPENED, request.again) | flag(COUNTED, counted);
        self.open(&opening, request.inside, flags, packet, keep);
    }

    /// True if a contribution of this name and shape agrees with those inside: what every way into a slot
    /// asks.
    #[inline(always)]
    fn agrees(&self, name: u64, shape: Shape) -> bool {
        name == self.name && shape == self.shape
    }

    /// The objection to a packet that does not agree with the contributions inside.
    pub(crate) fn disagrees(&self, request: &Request) -> Option<Rejection> {
        if self.agrees(request.name(), request.shape()) {
            None
        } else if request.fan_in != self.fan_in() {
            Some(Rejection::FanInChanged)
        } else if (request.element ^ self.element()) & !Element::LAST != 0 {
            Some(Rejection::ElementChanged)
        } else if request.len != self.len() {
            Some(Rejection::LengthChanged)
        } else {
            Some(Rejection::OperationChanged)
        }
    }

    /// True if the sum might differ, in its last bits, from one made of the same contributions before. A
    /// retransmission may have been in a sum whose result was lost, and contributions are added as they
    /// arrive. In the order of ranks, and for minima and maxima, the bits are the same.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.first & (AGAIN | SERVER) == AGAIN | SERVER
            && Element::from_byte(self.element()).is_some_and(|element| element.op.adds())
            && matches!(self.hold, Hold::Open(_))
    }

    /// True if the partial is complete: all its ranks are inside, or the number needed by now. The job's
    /// number does not apply to a PSN that was begun with another number of ranks.
    pub(crate) fn suffices(&self, request: &Request) -> bool {
        let enough = request.job_fan_in == self.fan_in() && self.count >= request.needed;
        self.is_partial() && (enough || self.count >= self.fan_in())
    }

    /// True if the number of contributions needed by now is inside.
    pub(crate) const fn reaches(&self, needed: u16) -> bool {
        self.count >= needed
    }

    /// The ranks inside.
    #[inline]
    pub(crate) const fn ranks(&self) -> &RankSet<WORDS> {
        &self.ranks
    }

    /// True if the slot holds a partial.
    pub(crate) const fn is_partial(&self) -> bool {
        matches!(self.hold, Hold::Open(_) | Hold::Kept(_))
    }

    /// True if the slot holds a result.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.hold, Hold::Done(_))
    }

    /// Takes out the content. A partial that is `wanted` by the parameter server is made ready for it; the
    /// packets of any other are recycled.
    pub(crate) fn take(&mut self, wanted: bool, recycle: &mut impl FnMut(B)) -> Contents<B> {
        let (key, element, fan_in, priority) = (self.key(), self.element(), self.fan_in(), self.priority);
        let (overflow, again) = (self.overflow(), self.first & REOPENED != 0);
        match core::mem::replace(&mut self.hold, Hold::Empty) {
            Hold::Empty => Contents::Nothing,
            Hold::Done(_) => Contents::Result,
            Hold::Open(mut packet) => {
                if !wanted || !self.append_bitmap(&mut packet) {
                    recycle(packet);
                    return Contents::Nothing;
                }
                let (len, count) = (self.len(), self.count);
                Contents::Partial(Partial { packet, len, element, fan_in, count, overflow, again, priority })
            }
            Hold::Kept(contributions) if wanted => Contents::Originals(Originals {
                contributions,
                key,
                element,
                fan_in,
                overflow,
                again,
                priority,
            }),
            Hold::Kept(mut contributions) => {
                while let Some((_, packet)) = contributions.pop() {
                    recycle(packet);
                }
                Contents::Nothing
            }
        }
    }

    /// Packets that it holds.
    pub(crate) fn packets(&self) -> usize {
        match &self.hold {
            Hold::Empty => 0,
            Hold::Kept(_) => usize::from(self.count),
            Hold::Open(_) | Hold::Done(_) => 1,
        }
    }
}
