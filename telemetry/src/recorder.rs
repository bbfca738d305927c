//! Histograms that an lcore fills and hands over on request, without lock and without allocation.
//!
//! Two histograms rotate. The lcore fills one and the reader leaves an empty one in a box. The lcore
//! exchanges them the next time it looks; the reader adds the full one to its sum and returns it empty.
//!
//! The lcore fills bare counts at HdrHistogram's places: a sixth of the instructions of its own recording,
//! which also tracks total, least and greatest. The reader makes histograms of them.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use hdrhistogram::{CreationError, Histogram};

/// The longest time: one minute, in nanoseconds. Longer ones count as this.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant decimal digits kept.
const DIGITS: u8 = 2;

/// Distinct values within a power of two, as a power of two: enough for two decimal digits.
const HALF: u32 = 7;
/// Places for values up to the longest one.
const PLACES: usize = place(LONGEST_NS) + 1;

/// The place of a value: values below 256 have their own, larger ones share by their leading digits.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "less than 256")]
const fn place(value: u64) -> usize {
    let shift = u64::BITS - (value | ((2 << HALF) - 1)).leading_zeros() - (HALF + 1);
    ((shift as usize) << HALF) + (value >> shift) as usize
}

/// The least value that is counted at a place.
const fn least(place: usize) -> u64 {
    let shift = (place >> HALF).saturating_sub(1);
    ((place - (shift << HALF)) as u64) << shift
}

/// Counts of values.
#[derive(Debug)]
struct Counts {
    places: [u64; PLACES],
    /// True if nothing has been counted.
    empty: bool,
}

impl Counts {
    fn new() -> Box<Self> {
        Box::new(Self { places: [0; PLACES], empty: true })
    }
}

#[derive(Debug)]
struct Exchange {
    /// Empty counts, left by the reader.
    empty: ArrayQueue<Box<Counts>>,
    /// Filled ones, left by the lcore.
    full: ArrayQueue<Box<Counts>>,
}

/// The lcore's end: takes times in nanoseconds.
#[derive(Debug)]
pub struct Recorder {
    current: Box<Counts>,
    /// How many values a [sampled](Recorder::sample) one stands for.
    stands_for: u64,
    exchange: Arc<Exchange>,
}

/// The reader's end.
#[derive(Debug)]
pub struct RecorderReader {
    sum: Histogram<u64>,
    total_ns: u128,
    exchange: Arc<Exchange>,
}

/// An empty histogram of nanoseconds; all have the same bounds, so any two can be added.
pub(crate) fn histogram() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
}

/// A connected pair.
///
/// # Errors
/// The library's, if it cannot make a histogram of these bounds; they are constants that it can.
pub fn recorder() -> Result<(Recorder, RecorderReader), CreationError> {
    let exchange = Arc::new(Exchange { empty: ArrayQueue::new(1), full: ArrayQueue::new(1) });
    // The box was empty, so the push cannot fail.
    let _ = exchange.empty.push(Counts::new());
    let recorder = Recorder { current: Counts::new(), stands_for: 1, exchange: Arc::clone(&exchange) };
    Ok((recorder, RecorderReader { sum: histogram()?, total_ns: 0, exchange }))
}

impl Recorder {
    /// Records `count` packets that took `nanos` each.
    #[inline]
    pub fn record(&mut self, nanos: u64, count: u64) {
        let counts = &mut *self.current;
        // Too long times count at the last place.
        let at = place(nanos.max(1)).min(PLACES - 1);
        counts.places[at] += count;
        counts.empty = false;
    }

    /// From now on each [sampled](Self::sample) value stands for this many; at 0 none is recorded.
    #[inline]
    pub const fn stand_for(&mut self, values: u64) {
        self.stands_for = values;
    }

    /// Records a value where values are sampled, as often as it [stands for](Self::stand_for).
    #[inline]
    pub fn sample(&mut self, nanos: u64) {
        if self.stands_for > 0 {
            self.record(nanos, self.stands_for);
        }
    }

    /// Hands over the recorded counts, if the reader is ready. Call it regularly; it never waits.
    #[inline]
    pub fn publish(&mut self) {
        if self.current.empty {
            return;
        }
        if let Some(empty) = self.exchange.empty.pop() {
            let full = core::mem::replace(&mut self.current, empty);
            // Only two exist, and the reader took the other one out: there is room.
            let _ = self.exchange.full.push(full);
        }
    }
}

impl RecorderReader {
    /// Collects the counts that the lcore has handed over since the last call.
    pub fn collect(&mut self) {
        if let Some(mut full) = self.exchange.full.pop() {
            for (at, count) in full.places.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                let count = core::mem::take(count);
                self.total_ns += u128::from(self.sum.median_equivalent(least(at))) * u128::from(count);
                self.sum.saturating_record_n(least(at), count);
            }
            full.empty = true;
            let _ = self.exchange.empty.push(full);
        }
    }

    /// All counts collected.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.sum
    }

    /// Sum of the times, in nanoseconds, at the histogram's resolution.
    #[must_use]
    pub fn total_ns(&self) -> u128 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests;
