//! Age-of-Model (Olaf, sections 2.2 and 6): how long ago the newest update that has arrived was generated.

/// One sawtooth: it grows with time, and drops to an update's age when that arrives, unless a newer one has
/// arrived before.
///
/// Times are in ticks of any length, of one clock that senders and receiver share; for instance nanoseconds
/// since 1970.
#[derive(Debug, Clone, Default)]
pub struct Age {
    start: u64,
    /// When the newest update that has arrived was generated.
    newest: u64,
    /// The time up to which the area is known.
    at: u64,
    /// The area under the sawtooth, in ticks².
    area: u128,
    /// Peaks: how many, their sum and the highest.
    peaks: u64,
    peaks_sum: u128,
    highest: u64,
}

impl Age {
    /// The age of a model that all have at `start`: 0.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self { start, newest: start, at: start, ..Self::default() }
    }

    /// An update that was generated at `generated` arrives at `now`; time never decreases.
    pub fn receive(&mut self, now: u64, generated: u64) {
        self.grow(now);
        if generated > self.newest {
            let peak = self.at.saturating_sub(self.newest);
            self.peaks += 1;
            self.peaks_sum += u128::from(peak);
            self.highest = self.highest.max(peak);
            self.newest = generated;
        }
    }

    /// The age at `now`, in ticks.
    #[must_use]
    pub const fn current(&self, now: u64) -> u64 {
        now.saturating_sub(self.newest)
    }

    /// The average from the start to `until`, in ticks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn average(&self, until: u64) -> f64 {
        let mut grown = self.clone();
        grown.grow(until);
        let width = grown.at.saturating_sub(grown.start);
        if width == 0 { 0.0 } else { grown.area as f64 / width as f64 }
    }

    /// The mean of the peak ages, in ticks: the model's age each time that a newer update arrived. 0 before
    /// the first.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn mean_peak(&self) -> f64 {
        if self.peaks == 0 { 0.0 } else { self.peaks_sum as f64 / self.peaks as f64 }
    }

    /// The highest of the peak ages, in ticks.
    #[must_use]
    pub const fn highest_peak(&self) -> u64 {
        self.highest
    }

    fn grow(&mut self, now: u64) {
        let (from, to) = (self.at.saturating_sub(self.newest), now.saturating_sub(self.newest));
        let width = now.saturating_sub(self.at);
        self.area += u128::from(width) * (u128::from(from) + u128::from(to)) / 2;
        self.at = self.at.max(now);
    }
}

/// Jain's fairness index of these values (Olaf, tables 2 and 3): 1 if all are equal, 1/n if all but one are
/// 0; 1 for none.
#[must_use]
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) =
        values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    #[expect(clippy::cast_precision_loss, reason = "a count of clusters")]
    let count = values.len() as f64;
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "small whole numbers")]
mod tests;
