//! One slot's state machine: `Empty → Open(partial) → Done(result kept)`.
//!
//! Done is not freed: the result stays until another PSN wants the slot, so that a worker that lost it gets it again
//! at once. An open slot owns its packets; a done one shares the result, and nobody can write to it any more.
//!
//! Contributions are added as they come, long ones of one burst together. Where they are to be added in the order of ranks, or would lose
//! bits if rounded after each addition, they are all kept until they are complete. (To let short ones wait saves passes over
//! the accumulator, but costs more than that: each has to come into the cache twice.)

mod brief;
mod hints;
mod result;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Combine;
use pascaline_wire::Op;

use crate::contributions::{Contributions, Originals};
use crate::key::Key;
use crate::request::{Request, Shape, name};
use crate::sink::{Evicted, Refusal};
use pascaline_wire::RankSet;

/// What a contribution in brief has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brought {
    /// It is not one that is expected like this.
    Nothing,
    /// It has been added.
    One,
    /// And it is the last one.
    Last,
}

/// Contributions that are added to a slot at once, at the most: a burst.
pub(crate) const TOGETHER: usize = 32;

pub(crate) enum Hold<B: PacketBuf> {
    Empty,
    /// The packet of the first contribution, to which the others are added.
    Open(B),
    /// All contributions as they came.
    Whole(Contributions<B>),
    Done(B::Shared),
}

/// One cache line with a one-word bitmap.
#[repr(C, align(64))]
pub(crate) struct Slot<B: PacketBuf, const WORDS: usize> {
    /// Key, and in the byte above it the element type and operation.
    name: u64,
    ranks: RankSet<WORDS>,
    /// Where the accumulator's payload lies, as long as the slot is open: to find it through the packet would cost the
    /// cache line of the packet's descriptor. In a slot with a result, where its descriptor lies, and in one that keeps all
    /// contributions, the line that says where they are: only ever prefetched.
    payload: *mut u8,
    pub(crate) hold: Hold<B>,
    /// Microseconds, wrapping: when the slot was last of use to someone.
    touched: u32,
    /// Microseconds, wrapping: when the missing ranks were last reminded; `None` before the first time.
    reminded: Option<core::num::NonZeroU32>,
    shape: Shape,
    count: u16,
    /// Of a partial; of a result the [round](Self::round).
    pub(crate) priority: u16,
    /// When the first contribution arrived, and in the byte above it, flags. A clock of 56 bits goes for two years before it
    /// starts again.
    first: u64,
}

// SAFETY: the pointer goes to what the slot holds, packets, which are Send.
unsafe impl<B: PacketBuf, const WORDS: usize> Send for Slot<B, WORDS> {}

/// An element has saturated.
const OVERFLOW: u64 = 1 << 56;
/// What is evicted goes to the parameter server.
const SERVER: u64 = 1 << 57;
/// The slot is counted against its job's quota.
const COUNTED: u64 = 1 << 58;
/// Something inside was not sent for the first time.
const AGAIN: u64 = 1 << 59;
/// The slot was opened by a contribution that was not sent for the first time: perhaps none inside was.
const REOPENED: u64 = 1 << 60;
const FIRST: u64 = OVERFLOW - 1;

const _: () = assert!(size_of::<Slot<pascaline_buffer::HeapBuf, 1>>() == 64);

/// What was in a slot.
pub(crate) enum Contents<B: PacketBuf> {
    Nothing,
    Result,
    Partial(Evicted<B>),
    Originals(Originals<B>),
}

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    pub(crate) const fn new() -> Self {
        Self {
            name: 0,
            ranks: RankSet::EMPTY,
            payload: core::ptr::null_mut(),
            hold: Hold::Empty,
            touched: 0,
            reminded: None,
            shape: Shape::new(0, 0),
            count: 0,
            priority: 0,
            first: 0,
        }
    }

    /// Which PSN.
    #[inline(always)]
    pub(crate) const fn key(&self) -> Key {
        Key::from_bits(self.name & (u64::MAX >> 8))
    }

    /// Element type and operation, as the header's code.
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

    /// True if what is evicted goes to the parameter server.
    pub(crate) const fn has_server(&self) -> bool {
        self.first & SERVER != 0
    }

    /// True if the slot is counted against its job's quota; it is not any more.
    pub(crate) const fn uncount(&mut self) -> bool {
        let counted = self.first & COUNTED != 0;
        self.first &= !COUNTED;
        counted
    }

    /// Opens the slot with a first contribution, whose packet, reduced to its payload, becomes the accumulator, or, if
    /// all are to be kept as they came (`whole`), the first of them. Whatever the slot held before must have been taken out.
    ///
    /// A packet that is shorter than the request says becomes a shorter payload: the pool has checked that it is not.
    pub(crate) fn open(&mut self, request: &Request, mut packet: B, whole: bool, counted: bool) {
        debug_assert!(matches!(self.hold, Hold::Empty));
        let mut ranks = RankSet::EMPTY;
        let fits = ranks.insert(request.rank);
        debug_assert!(fits, "the pool has checked the rank");
        let entire = packet.trim(usize::from(request.offset), usize::from(request.len));
        debug_assert!(entire, "the pool has checked the length");
        let bytes = packet.bytes_mut();
        let flag = |flag: u64, set: bool| if set { flag } else { 0 };
        *self = Self {
            name: name(request.key, request.element),
            ranks,
            payload: bytes.as_mut_ptr(),
            touched: micros(request.now),
            reminded: None,
            shape: Shape::new(
                request.fan_in,
                u16::try_from(bytes.len()).map_or(0, |len| len.min(request.len)),
            ),
            count: 1,
            priority: request.priority,
            first: request.now & FIRST
                | flag(OVERFLOW, request.overflow)
                | flag(AGAIN | REOPENED, request.again)
                | flag(SERVER, request.rules.server())
                | flag(COUNTED, counted),
            hold: Hold::Open(packet),
        };
        if whole && let Hold::Open(packet) = core::mem::replace(&mut self.hold, Hold::Empty) {
            self.keep_first(request.rank, packet);
        }
    }

    /// Keeps the first contribution as it came.
    fn keep_first(&mut self, rank: u16, packet: B) {
        let contributions = Contributions::new(rank, packet);
        self.payload = contributions.line();
        self.hold = Hold::Whole(contributions);
    }

    /// What can be said against a packet that does not agree with the contributions inside.
    pub(crate) fn disagrees(&self, request: &Request) -> Option<Refusal> {
        if request.fan_in != self.fan_in() {
            Some(Refusal::FanInChanged)
        } else if request.element != self.element() {
            Some(Refusal::ElementChanged)
        } else if request.len != self.len() {
            Some(Refusal::LengthChanged)
        } else {
            None
        }
    }

    /// True if this is a contribution that agrees with those inside and is not among them.
    #[inline(always)]
    fn agrees(&self, request: &Request) -> bool {
        name(request.key, request.element) == self.name
            && Shape::new(request.fan_in, request.len) == self.shape
            && request.count == 1
            && request.rank < self.fan_in()
            && !self.ranks.contains(request.rank)
    }

    /// True if the slot sums as packets come, and the contribution agrees with those inside, is not among them, and is or
    /// is not the last one.
    #[inline(always)]
    pub(crate) fn expects(&self, request: &Request, last: bool) -> bool {
        self.agrees(request)
            && last == (self.count + 1 >= request.needed)
            && matches!(self.hold, Hold::Open(_))
    }

    /// True if the slot keeps contributions as they come, and this is one that is missing.
    pub(crate) fn collects(&self, request: &Request) -> bool {
        self.agrees(request) && matches!(self.hold, Hold::Whole(_))
    }

    /// Adds an expected contribution. False, and nothing done, if the packet is shorter than the request says.
    #[inline(always)]
    pub(crate) fn add(&mut self, request: &Request, packet: &B, combine: Combine) -> bool {
        let Some(from) = packet.bytes().get(range(request.offset, request.len)) else { return false };
        // SAFETY: an open slot owns the packet that `payload` was taken from, whose memory stays where it is; no method
        // of the packet is called while the slot is open. `len` is not more than there were bytes.
        let into = unsafe { core::slice::from_raw_parts_mut(self.payload, usize::from(self.len())) };
        let overflow = combine(into, from);
        self.note(request, overflow);
        true
    }

    /// Takes in a contribution that is kept as it is. The packet comes back if it is shorter than the request says.
    pub(crate) fn collect(&mut self, request: &Request, mut packet: B) -> Result<(), B> {
        let Hold::Whole(contributions) = &mut self.hold else { return Err(packet) };
        if !packet.trim(usize::from(request.offset), usize::from(request.len)) {
            return Err(packet);
        }
        if contributions.push(request.rank, packet) {
            self.payload = contributions.line();
        }
        self.note(request, false);
        Ok(())
    }

    /// Adds the contributions of several ranks, whose sum it is. False, and nothing done, if one of them is inside already, the slot
    /// does not sum as packets come, or the packet is shorter than the request says.
    pub(crate) fn add_several(&mut self, request: &Request, packet: &B, combine: Combine) -> bool {
        let Some(from) = packet.bytes().get(range(request.offset, request.len)) else { return false };
        if !matches!(self.hold, Hold::Open(_)) || !self.ranks.insert_word(request.inside) {
            return false;
        }
        // SAFETY: as in `add`.
        let into = unsafe { core::slice::from_raw_parts_mut(self.payload, usize::from(self.len())) };
        let overflow = combine(into, from) | request.overflow;
        self.note_flags(overflow, request.again);
        self.count += request.count;
        self.touch(request.now);
        true
    }

    /// Opens the slot with the contributions of several ranks.
    pub(crate) fn open_several(&mut self, request: &Request, packet: B, counted: bool) {
        self.open(request, packet, false, counted);
        self.ranks = RankSet::of_word(request.inside);
        self.count = request.count;
    }

    /// Notes that a contribution is inside, now that nothing can go wrong any more.
    #[inline(always)]
    fn note(&mut self, request: &Request, overflow: bool) {
        let new = self.ranks.insert(request.rank);
        debug_assert!(new);
        if overflow | request.overflow | request.again {
            self.note_flags(overflow | request.overflow, request.again);
        }
        self.count += 1;
        self.touch(request.now);
    }

    #[cold]
    fn note_flags(&mut self, overflow: bool, again: bool) {
        self.first |= if overflow { OVERFLOW } else { 0 } | if again { AGAIN } else { 0 };
    }

    /// True if the sum might be another one, in its last bits, than one that was made of the same contributions before:
    /// what has been sent again may have been in a sum already, whose result was lost, and contributions are added as they
    /// come. In the order of ranks, and for minima and maxima, it is the same.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.first & (AGAIN | SERVER) == AGAIN | SERVER
            && self.element() >> 4 == Op::Sum as u8
            && matches!(self.hold, Hold::Open(_))
    }

    /// Notes that the slot is of use.
    #[inline]
    pub(crate) fn touch(&mut self, now: u64) {
        self.touched = micros(now);
    }

    /// True if the partial is complete: all its ranks are inside, or as many as are needed by now. How many the job needs
    /// is said of its present ranks: it does not hold for a PSN that was begun with another number of them.
    pub(crate) fn suffices(&self, request: &Request) -> bool {
        let enough = request.job_fan_in == self.fan_in() && self.count >= request.needed;
        self.is_partial() && (enough || self.count >= self.fan_in())
    }

    /// The ranks inside.
    #[inline]
    pub(crate) const fn ranks(&self) -> &RankSet<WORDS> {
        &self.ranks
    }

    /// True if the slot holds a partial.
    pub(crate) fn is_partial(&self) -> bool {
        matches!(self.hold, Hold::Open(_) | Hold::Whole(_))
    }

    /// Takes out what is inside. A partial is made ready for the parameter server if it is `wanted` there; else its packets
    /// are spent.
    pub(crate) fn take(&mut self, wanted: bool, spent: &mut impl FnMut(B)) -> Contents<B> {
        let (key, element, fan_in, priority) = (self.key(), self.element(), self.fan_in(), self.priority);
        let (overflow, again) = (self.overflow(), self.first & REOPENED != 0);
        match core::mem::replace(&mut self.hold, Hold::Empty) {
            Hold::Empty => Contents::Nothing,
            Hold::Done(_) => Contents::Result,
            Hold::Open(mut packet) => {
                if !wanted || !self.append_bitmap(&mut packet) {
                    spent(packet);
                    return Contents::Nothing;
                }
                let (len, count) = (self.len(), self.count);
                Contents::Partial(Evicted { packet, len, element, fan_in, count, overflow, again, priority })
            }
            Hold::Whole(contributions) if wanted => Contents::Originals(Originals {
                contributions,
                key,
                element,
                fan_in,
                overflow,
                again,
                priority,
            }),
            Hold::Whole(mut contributions) => {
                while let Some((_, packet)) = contributions.pop() {
                    spent(packet);
                }
                Contents::Nothing
            }
        }
    }

    /// The ranks inside an open slot, unless this was asked less than `interval` microseconds ago. Being waited for
    /// makes the slot young again.
    pub(crate) fn remind(&mut self, now: u64, interval: u32) -> Option<RankSet<WORDS>> {
        let now = micros(now);
        self.touched = now;
        if self.reminded.is_some_and(|last| elapsed(last.get(), now) < interval) {
            return None;
        }
        self.reminded = core::num::NonZeroU32::new(now).or(core::num::NonZeroU32::new(1));
        Some(self.ranks)
    }

    /// Packets that it holds.
    pub(crate) fn packets(&self) -> usize {
        match &self.hold {
            Hold::Empty => 0,
            Hold::Whole(_) => usize::from(self.count),
            Hold::Open(_) | Hold::Done(_) => 1,
        }
    }

    /// How long ago the slot was of use, in microseconds, wrapping after 71 minutes: good enough to choose by.
    pub(crate) fn idle(&self, now: u64) -> u32 {
        elapsed(self.touched, micros(now))
    }

    /// True if nobody has sent to the slot or asked for it in this many nanoseconds.
    pub(crate) fn is_abandoned(&self, now: u64, age_limit: u64) -> bool {
        u64::from(self.idle(now)) > age_limit.div_ceil(MICRO)
    }
}

#[inline]
fn range(offset: u16, len: u16) -> core::ops::Range<usize> {
    usize::from(offset)..usize::from(offset) + usize::from(len)
}

/// Nanoseconds of what the slots call a microsecond: a power of two instead of a thousand, 2.4 % more for a shift
/// instead of a division.
const MICRO: u64 = 1 << 10;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
fn micros(nanos: u64) -> u32 {
    (nanos / MICRO) as u32
}

/// Microseconds from `then` to `now`; none if `now` is the earlier one.
///
/// That happens: a packet that was handed off carries the time at which another lcore received it. Without the
/// exception a result used a moment ago would pass for the one longest out of use.
#[inline]
fn elapsed(then: u32, now: u32) -> u32 {
    /// How far apart the times of two lcores may be: about a second.
    const SKEW: u32 = 1 << 20;
    let elapsed = now.wrapping_sub(then);
    if elapsed > u32::MAX - SKEW { 0 } else { elapsed }
}
