//! When an entry is late: a timeout estimated from how long entries take to complete.
//!
//! DSA, section VI: an exponentially weighted moving average, as in RFC 6298, of the time from an entry's
//! setup to its completion, at least 1 ms.

use core::time::Duration;

use crate::config::Config;

/// The estimate of one job.
#[derive(Debug, Clone, Copy)]
pub struct Estimator {
    floor: Duration,
    initial: Duration,
    ceiling: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
}

impl Estimator {
    /// An estimator without samples.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        // A timeout of 0 would be due again at once, without end.
        let floor = config.floor.max(Duration::from_micros(1));
        Self {
            floor,
            initial: config.initial,
            ceiling: config.ceiling.max(floor),
            smoothed: None,
            variation: Duration::ZERO,
        }
    }

    /// Notes an entry that completed `elapsed` after its setup, by packets that came without a request.
    ///
    /// Packets on request are no samples (Karn's rule): such an entry takes as long as the timeout that made
    /// the server ask, so the timeout would feed back on itself.
    pub fn on_sample(&mut self, elapsed: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(elapsed);
                self.variation = elapsed / 2;
            }
            Some(smoothed) => {
                self.variation =
                    (self.variation.saturating_mul(3) / 4).saturating_add(smoothed.abs_diff(elapsed) / 4);
                self.smoothed = Some((smoothed / 8).saturating_mul(7).saturating_add(elapsed / 8));
            }
        }
    }

    /// The timeout of an entry for which the server has asked `tries` times: at least the floor, doubled with
    /// each try, at most the ceiling.
    #[must_use]
    pub fn timeout(&self, tries: u32) -> Duration {
        let base = self
            .smoothed
            .map_or(self.initial, |smoothed| smoothed.saturating_add(self.variation.saturating_mul(4)));
        base.max(self.floor).saturating_mul(1 << tries.min(16)).min(self.ceiling)
    }
}
