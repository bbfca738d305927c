//! Age-of-Model (Olaf, sections 2.2 and 6): how long ago the newest update that has arrived was generated.

/// One sawtooth: it grows with time, and drops to an update's age when that arrives, unless a newer one has arrived before.
///
/// At time 0 everybody has the model that training begins with: the age is 0.
#[derive(Debug, Clone, Default)]
pub struct Age {
    /// When the newest update that has arrived was generated.
    newest: u64,
    /// The time up to which the area is known.
    at: u64,
    /// The area under the sawtooth, in ticks².
    area: u128,
}

impl Age {
    /// An update that was generated at `generated` arrives at `now`; time does not go back.
    pub fn receive(&mut self, now: u64, generated: u64) {
        self.grow(now);
        self.newest = self.newest.max(generated);
    }

    /// The average from time 0 to `until`, in ticks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn average(mut self, until: u64) -> f64 {
        self.grow(until);
        if self.at == 0 { 0.0 } else { self.area as f64 / self.at as f64 }
    }

    fn grow(&mut self, now: u64) {
        let (from, to) = (self.at.saturating_sub(self.newest), now.saturating_sub(self.newest));
        let width = now.saturating_sub(self.at);
        self.area += u128::from(width) * (u128::from(from) + u128::from(to)) / 2;
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers")]
    fn the_area_under_a_sawtooth() {
        let mut age = Age::default();
        assert_eq!(age.clone().average(0), 0.0);
        assert_eq!(age.clone().average(10), 5.0);
        age.receive(10, 6);
        // 50 up to 10; then from 4 to 8.
        assert_eq!(age.clone().average(14), (50.0 + 24.0) / 14.0);
        age.receive(14, 2);
        assert_eq!(
            age.clone().average(16),
            (50.0 + 24.0 + 18.0) / 16.0,
            "an older one makes nothing younger"
        );
        age.receive(16, 16);
        assert_eq!(age.average(20), (50.0 + 24.0 + 18.0 + 8.0) / 20.0);
    }
}
