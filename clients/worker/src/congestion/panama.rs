//! PANAMA's control (section 4.2, Figure 5): DCTCP's reaction to marks, where results acknowledge.

use super::Sample;

/// The window at first.
pub const FIRST: f64 = 2.0;
/// Up to here the window doubles.
pub const SSTHRESH: f64 = 64.0;
/// g, how much the latest window counts in α. The paper leaves it open; DCTCP's.
pub const WEIGHT: f64 = 1.0 / 16.0;

/// Of one aggregation tree.
#[derive(Debug, Clone)]
pub struct Panama {
    window: f64,
    ssthresh: f64,
    /// α: which part of the results has marks, of late.
    fraction: f64,
    results: u32,
    marked: u32,
}

impl Default for Panama {
    fn default() -> Self {
        Self { window: FIRST, ssthresh: SSTHRESH, fraction: 1.0, results: 0, marked: 0 }
    }
}

impl Panama {
    /// Notes a result. At the end of each window of them the window changes. Beyond the figure: it does not
    /// grow while there is nothing more to send, and never beyond `most`.
    pub fn on_result(&mut self, sample: &Sample, most: f64) {
        self.results += 1;
        self.marked += u32::from(sample.signal.marked);
        if f64::from(self.results) >= self.window.floor() {
            self.end_window(sample.limited, most);
        }
        self.window = self.window.min(f64::from(sample.signal.cap.max(1)));
    }

    /// The window is over: by its last result, or with the operation, whose last packet said so (FIN).
    pub fn end_window(&mut self, limited: bool, most: f64) {
        if self.results > 0 {
            let marked = f64::from(self.marked) / f64::from(self.results);
            self.fraction = self.fraction * (1.0 - WEIGHT) + WEIGHT * marked;
            if self.marked > 0 {
                self.window = (self.window * (1.0 - self.fraction / 2.0)).max(1.0);
                self.ssthresh = self.window;
            } else if limited {
                let grown = if self.window < self.ssthresh { 2.0 * self.window } else { self.window + 1.0 };
                self.window = grown.min(most);
            }
            (self.results, self.marked) = (0, 0);
        }
    }

    /// Packets.
    #[must_use]
    pub const fn window(&self) -> f64 {
        self.window
    }
}
