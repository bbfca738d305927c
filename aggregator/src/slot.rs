//! One slot's state machine: `Empty → Open(partial) → Done(result kept)`.
//!
//! Done is not freed: the result stays until another PSN wants the slot, so that a worker that lost it gets it again
//! at once. An open slot owns its accumulator; a done one shares it, and nobody can write to it any more.

use pascaline_buffer::{PacketBuf, SharedBuf};

use crate::key::Key;
use crate::prefetch::prefetch;
use crate::rankset::RankSet;
use crate::request::Request;
use crate::sink::{Aggregate, Refusal};

pub(crate) enum Hold<B: PacketBuf> {
    Empty,
    Open(B),
    Done(B::Shared),
}

/// One cache line with a one-word bitmap.
#[repr(align(64))]
pub(crate) struct Slot<B: PacketBuf, const WORDS: usize> {
    pub(crate) key: Key,
    ranks: RankSet<WORDS>,
    pub(crate) first: u64,
    /// Where the accumulator's payload lies, as long as the slot is open: to find it through the packet would cost the
    /// cache line of the packet's descriptor.
    payload: *mut u8,
    /// Microseconds, wrapping: when the slot was last of use to someone.
    touched: u32,
    /// Microseconds, wrapping: when the missing ranks were last reminded; `None` before the first time.
    reminded: Option<core::num::NonZeroU32>,
    fan_in: u16,
    count: u16,
    len: u16,
    element: u8,
    overflow: bool,
    pub(crate) hold: Hold<B>,
}

const _: () = assert!(size_of::<Slot<pascaline_buffer::HeapBuf, 1>>() == 64);

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    pub(crate) const fn new() -> Self {
        Self {
            key: Key::from_bits(0),
            ranks: RankSet::EMPTY,
            first: 0,
            payload: core::ptr::null_mut(),
            touched: 0,
            reminded: None,
            fan_in: 0,
            count: 0,
            len: 0,
            element: 0,
            overflow: false,
            hold: Hold::Empty,
        }
    }

    /// Opens the slot with a first contribution, whose packet, reduced to its payload, becomes the accumulator. Whatever
    /// the slot held before must have been taken out. `Some` if that completes it.
    ///
    /// A packet that is shorter than the request says becomes a shorter payload: the pool has checked that it is not.
    pub(crate) fn open(&mut self, request: &Request, mut packet: B) -> Option<Aggregate<'_, B::Shared>> {
        debug_assert!(matches!(self.hold, Hold::Empty));
        let mut ranks = RankSet::EMPTY;
        let fits = ranks.insert(request.rank);
        debug_assert!(fits, "the pool has checked the rank");
        let whole = strip(&mut packet, request.offset, request.len);
        debug_assert!(whole, "the pool has checked the length");
        let bytes = packet.bytes_mut();
        *self = Self {
            key: request.key,
            ranks,
            first: request.now,
            payload: bytes.as_mut_ptr(),
            touched: micros(request.now),
            reminded: None,
            fan_in: request.fan_in,
            count: 1,
            len: u16::try_from(bytes.len()).map_or(0, |len| len.min(request.len)),
            element: request.element,
            overflow: request.overflow,
            hold: Hold::Open(packet),
        };
        if self.fan_in == 1 { self.complete() } else { None }
    }

    /// What can be said against a packet that does not agree with the contributions inside.
    pub(crate) fn disagrees(&self, request: &Request) -> Option<Refusal> {
        if request.fan_in != self.fan_in {
            Some(Refusal::FanInChanged)
        } else if request.element != self.element {
            Some(Refusal::ElementChanged)
        } else if request.len != self.len {
            Some(Refusal::LengthChanged)
        } else {
            None
        }
    }

    /// Takes over a result that a rank has kept, in the place of whatever the slot holds for the same PSN, and gives
    /// that back if it was a partial. The packet comes back if it is shorter than the request says.
    pub(crate) fn install(&mut self, request: &Request, mut packet: B) -> Result<Option<B>, B> {
        if !strip(&mut packet, request.offset, request.len) {
            return Err(packet);
        }
        let partial = match core::mem::replace(&mut self.hold, Hold::Empty) {
            Hold::Open(partial) => Some(partial),
            _ => None,
        };
        self.key = request.key;
        self.first = request.now;
        self.touched = micros(request.now);
        self.fan_in = request.fan_in;
        self.count = request.count;
        self.len = request.len;
        self.element = request.element;
        self.overflow = request.overflow;
        self.hold = Hold::Done(packet.freeze());
        Ok(partial)
    }

    /// The accumulator's payload, if the slot is open for this PSN and this is a contribution that agrees with those inside
    /// and is not among them, and is or is not the last one.
    #[inline(always)]
    pub(crate) fn expects(&mut self, request: &Request, last: bool) -> Option<&mut [u8]> {
        let agrees = request.key == self.key
            && request.fan_in == self.fan_in
            && request.len == self.len
            && request.element == self.element
            && request.count == 1
            && request.rank < self.fan_in
            && last == (self.count + 1 == self.fan_in)
            && !self.ranks.contains(request.rank);
        // SAFETY: an open slot owns the packet that `payload` was taken from, whose memory stays where it is; no method
        // of the packet is called while the slot is open. `len` is not more than there were bytes.
        (agrees && matches!(self.hold, Hold::Open(_)))
            .then(|| unsafe { core::slice::from_raw_parts_mut(self.payload, usize::from(self.len)) })
    }

    /// Notes that an expected contribution has been added. Only now, when nothing can go wrong any more, does the
    /// rank count as inside.
    #[inline(always)]
    pub(crate) fn added(&mut self, request: &Request, overflow: bool) {
        let new = self.ranks.insert(request.rank);
        debug_assert!(new);
        self.overflow |= overflow | request.overflow;
        self.count += 1;
        self.touch(request.now);
    }

    /// Asks the processor to bring in what will be needed: the start of a partial's payload, the descriptor of a result,
    /// which probably has to make room. A hint only.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        match &self.hold {
            Hold::Open(_) => {
                prefetch(self.payload);
                for line in 1..4 {
                    prefetch(self.payload.wrapping_add(line * 64));
                }
            }
            Hold::Done(result) => result.prefetch(),
            Hold::Empty => {}
        }
    }

    /// Notes that the slot is of use.
    #[inline]
    pub(crate) fn touch(&mut self, now: u64) {
        self.touched = micros(now);
    }

    /// Makes the accumulator read-only and keeps it as the result.
    pub(crate) fn complete(&mut self) -> Option<Aggregate<'_, B::Shared>> {
        let Hold::Open(packet) = core::mem::replace(&mut self.hold, Hold::Empty) else { return None };
        self.hold = Hold::Done(packet.freeze());
        self.aggregate()
    }

    /// The result, if there is one.
    pub(crate) fn aggregate(&self) -> Option<Aggregate<'_, B::Shared>> {
        let Hold::Done(payload) = &self.hold else { return None };
        Some(Aggregate {
            key: self.key,
            element: self.element,
            fan_in: self.fan_in,
            count: self.count,
            overflow: self.overflow,
            first: self.first,
            payload,
        })
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

    /// How long ago the slot was of use, in microseconds, wrapping after 71 minutes: good enough to choose by.
    pub(crate) fn idle(&self, now: u64) -> u32 {
        elapsed(self.touched, micros(now))
    }
}

/// Reduces a packet to its payload.
fn strip<B: PacketBuf>(packet: &mut B, offset: u16, len: u16) -> bool {
    let whole = packet.bytes().len() >= usize::from(offset) + usize::from(len);
    if whole && packet.advance(usize::from(offset)) {
        packet.truncate(usize::from(len));
    }
    whole
}

#[inline]
pub(crate) fn range(offset: u16, len: u16) -> core::ops::Range<usize> {
    usize::from(offset)..usize::from(offset) + usize::from(len)
}

/// Nanoseconds of what the slots call a microsecond: a power of two instead of a thousand, 2.4 % more for a shift
/// instead of a division.
pub(crate) const MICRO: u64 = 1 << 10;

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
