//! When a slot was last used, and when its missing ranks were last reminded.

use core::num::NonZeroU32;

use pascaline_buffer::PacketBuf;
use pascaline_wire::RankSet;

use super::Slot;

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// Notes that the slot is used.
    #[inline]
    pub(crate) fn touch(&mut self, now: u64) {
        self.touched = micros(now);
    }

    /// The ranks inside a partial, unless this was asked less than `interval` microseconds ago. A reminder
    /// counts as use.
    pub(crate) fn remind(&mut self, now: u64, interval: u32) -> Option<RankSet<WORDS>> {
        let now = micros(now);
        self.touched = now;
        if self.reminded.is_some_and(|last| elapsed(last.get(), now) < interval) {
            return None;
        }
        self.reminded = NonZeroU32::new(now).or(NonZeroU32::new(1));
        Some(self.ranks)
    }

    /// How long ago the slot was used, in microseconds, wrapping after 71 minutes: precise enough for a
    /// choice.
    pub(crate) fn idle(&self, now: u64) -> u32 {
        elapsed(self.touched, micros(now))
    }

    /// True if the slot has received no packet or request in this many nanoseconds.
    pub(crate) fn is_abandoned(&self, now: u64, age_limit: u64) -> bool {
        u64::from(self.idle(now)) > age_limit.div_ceil(MICRO)
    }
}

/// Nanoseconds of a slot's microsecond: a power of two, 2.4 % more for a shift instead of a division.
const MICRO: u64 = 1 << 10;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
pub(super) fn micros(nanos: u64) -> u32 {
    (nanos / MICRO) as u32
}

/// Microseconds from `then` to `now`; none if `now` is the earlier one.
///
/// That happens: a packet that was handed off carries the time at which another lcore received it. Without
/// the exception a result used just now would be taken for the longest idle.
#[inline]
fn elapsed(then: u32, now: u32) -> u32 {
    /// How far apart the times of two lcores may be: about a second.
    const SKEW: u32 = 1 << 20;
    let elapsed = now.wrapping_sub(then);
    if elapsed > u32::MAX - SKEW { 0 } else { elapsed }
}
