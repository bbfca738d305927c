//! Histograms that an lcore fills and hands over when asked, without lock and without allocation.
//!
//! Two histograms go round: the lcore fills one; the reader leaves an empty one in a box, the lcore exchanges its own
//! for it the next time it looks, and the reader fetches the full one, adds it to its sum and leaves it empty again.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use hdrhistogram::{CreationError, Histogram};

/// The longest time that is told apart: one minute, in nanoseconds. Longer ones count as this.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant decimal digits kept.
const DIGITS: u8 = 2;

#[derive(Debug)]
struct Exchange {
    /// An empty histogram, left by the reader.
    empty: ArrayQueue<Box<Histogram<u64>>>,
    /// A filled one, left by the lcore.
    full: ArrayQueue<Box<Histogram<u64>>>,
}

/// The lcore's end: times in nanoseconds go in.
#[derive(Debug)]
pub struct Recorder {
    current: Box<Histogram<u64>>,
    exchange: Arc<Exchange>,
}

/// The reader's end.
#[derive(Debug)]
pub struct RecorderReader {
    sum: Histogram<u64>,
    total_ns: u128,
    exchange: Arc<Exchange>,
}

/// An empty histogram of nanoseconds with the bounds of all of them, so that any two can be added.
pub(crate) fn histogram() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
}

/// A connected pair.
///
/// # Errors
/// The library's, if it cannot make a histogram of these bounds; they are constants that it can.
pub fn recorder() -> Result<(Recorder, RecorderReader), CreationError> {
    let exchange = Arc::new(Exchange { empty: ArrayQueue::new(1), full: ArrayQueue::new(1) });
    // The box is empty before this, so the push cannot fail.
    let _ = exchange.empty.push(Box::new(histogram()?));
    let recorder = Recorder { current: Box::new(histogram()?), exchange: Arc::clone(&exchange) };
    Ok((recorder, RecorderReader { sum: histogram()?, total_ns: 0, exchange }))
}

impl Recorder {
    /// Records `count` packets that took `nanos` each.
    #[inline]
    pub fn record(&mut self, nanos: u64, count: u64) {
        self.current.saturating_record_n(nanos.max(1), count);
    }

    /// Hands over what has been recorded, if the reader is ready for it. To be called now and then; never waits.
    #[inline]
    pub fn publish(&mut self) {
        if self.current.is_empty() {
            return;
        }
        if let Some(empty) = self.exchange.empty.pop() {
            let full = core::mem::replace(&mut self.current, empty);
            // Only two histograms exist and the reader has taken the other one out: there is room.
            let _ = self.exchange.full.push(full);
        }
    }
}

impl RecorderReader {
    /// Takes in what the lcore has handed over since the last call.
    pub fn collect(&mut self) {
        if let Some(mut full) = self.exchange.full.pop() {
            for step in full.iter_recorded() {
                self.total_ns += u128::from(full.median_equivalent(step.value_iterated_to()))
                    * u128::from(step.count_since_last_iteration());
            }
            // Bounds are equal, so adding cannot fail.
            let _ = self.sum.add(&*full);
            full.reset();
            let _ = self.exchange.empty.push(full);
        }
    }

    /// All that was collected.
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
mod tests {
    use super::*;

    #[test]
    fn everything_recorded_is_collected_once() {
        let (mut recorder, mut reader) = recorder().unwrap();
        for round in 1..=100u64 {
            recorder.record(round * 1000, 2);
            recorder.publish();
            if round % 3 == 0 {
                reader.collect();
            }
        }
        for _ in 0..2 {
            recorder.publish();
            reader.collect();
        }
        assert_eq!(reader.histogram().len(), 200);
        let exact = 2.0 * 1000.0 * 5050.0;
        #[allow(clippy::cast_precision_loss)]
        let error = (reader.total_ns() as f64 - exact).abs() / exact;
        assert!(error < 0.01, "{error}");
    }

    #[test]
    fn times_beyond_the_range_count_as_the_longest() {
        let (mut recorder, mut reader) = recorder().unwrap();
        recorder.record(0, 1);
        recorder.record(u64::MAX, 1);
        recorder.publish();
        reader.collect();
        assert_eq!(reader.histogram().len(), 2);
        assert!(reader.histogram().max() >= LONGEST_NS);
    }
}
