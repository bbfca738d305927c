//! One cluster's Age-of-Model, in whole ticks, without rounding.

use crate::scenario::{Exact, Measure};

/// A sawtooth: 0 at the start, it grows with time, and drops to an update's age when that arrives.
#[derive(Debug, Clone)]
pub(crate) struct Age {
    from: i128,
    newest: i128,
    at: i128,
    /// Twice the area below it since `from`.
    area: i128,
    peaks: i128,
    sum: i128,
    highest: i128,
}

impl Age {
    /// The age of the first model, which all have at 0; measured from `from` on.
    pub(crate) const fn new(from: i128) -> Self {
        Self { from, newest: 0, at: from, area: 0, peaks: 0, sum: 0, highest: 0 }
    }

    /// An update of this time arrives at `now`. As at the shipping server, one that is no newer than the
    /// present model changes nothing.
    pub(crate) fn receive(&mut self, now: i128, generated: i128) {
        if generated <= self.newest {
            return;
        }
        self.grow(now);
        if now > self.from {
            let peak = now - self.newest;
            self.peaks += 1;
            self.sum += peak;
            self.highest = self.highest.max(peak);
        }
        self.newest = generated;
    }

    fn grow(&mut self, now: i128) {
        if now > self.at {
            let (before, after) = (self.at - self.newest, now - self.newest);
            self.area += (now - self.at) * (before + after);
            self.at = now;
        }
    }

    /// The measure up to the horizon, in ns: `scale` is ticks per ns. The age at the horizon counts for the
    /// highest. It also counts as a peak if that raises their average, so that a model that no update reaches
    /// any more is not judged by its early peaks only.
    pub(crate) fn measure(mut self, measure: Measure, horizon: i128, scale: i128) -> Exact {
        self.grow(horizon);
        let last = horizon - self.newest;
        let exact = |numerator: i128, denominator: i128| Exact::new(numerator.into(), denominator.into());
        match measure {
            Measure::Mean => exact(self.area, 2 * (horizon - self.from)) / exact(scale, 1),
            Measure::Peak if last * self.peaks > self.sum || self.peaks == 0 => {
                exact(self.sum + last, self.peaks + 1) / exact(scale, 1)
            }
            Measure::Peak => exact(self.sum, self.peaks) / exact(scale, 1),
            Measure::Highest => exact(self.highest.max(last), scale),
        }
    }
}
