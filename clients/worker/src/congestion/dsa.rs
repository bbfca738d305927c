//! DSA's control (section III.B): additive increase and multiplicative decrease by marks, from 60 KB on.
//!
//! Neither reordering nor a second result of a PSN changes the window: results come from the pool and from
//! the parameter server, so both are ordinary.

use core::time::Duration;

use super::Sample;

/// The window at first, in bytes.
pub const FIRST_BYTES: u32 = 60_000;

/// A window that grows by one packet for each window of results, and halves at most once for each.
#[derive(Debug, Clone)]
pub struct Dsa {
    window: f64,
    /// Marks on packets sent before this say nothing about the window since it was halved.
    halved: Duration,
}

impl Dsa {
    /// For packets of this many bytes.
    #[must_use]
    pub fn new(packet: u32) -> Self {
        Self { window: f64::from((FIRST_BYTES / packet.max(1)).max(1)), halved: Duration::ZERO }
    }

    /// Notes a result.
    pub fn on_result(&mut self, sample: &Sample, most: f64) {
        if !sample.signal.marked {
            if sample.limited {
                self.window = (self.window + 1.0 / self.window).min(most);
            }
        } else if sample.sent_at >= self.halved {
            self.window = (self.window / 2.0).max(1.0);
            self.halved = sample.now;
        }
    }

    /// Packets.
    #[must_use]
    pub const fn window(&self) -> f64 {
        self.window
    }
}
