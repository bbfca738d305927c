//! DCTCP's window (Alizadeh et al., 2010): slow start from 10 packets, α by the part that was marked.

/// A sender's window, in packets.
#[derive(Debug, Clone, Copy)]
pub struct Dctcp {
    window: f64,
    ssthresh: f64,
    /// Which part was marked, of late.
    fraction: f64,
    acks: u32,
    marks: u32,
}

/// How much the latest window counts in α.
const WEIGHT: f64 = 1.0 / 16.0;

impl Default for Dctcp {
    fn default() -> Self {
        Self { window: 10.0, ssthresh: f64::INFINITY, fraction: 1.0, acks: 0, marks: 0 }
    }
}

impl Dctcp {
    /// Packets that may be in flight.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    pub const fn window(&self) -> u32 {
        self.window as u32
    }

    /// A packet was acknowledged. The first mark of a window cuts it by α / 2, and it does not grow until
    /// the window has passed (RFC 8257, section 3.3).
    pub fn on_ack(&mut self, marked: bool) {
        self.acks += 1;
        self.marks += u32::from(marked);
        if marked && self.marks == 1 {
            self.window = (self.window * (1.0 - self.fraction / 2.0)).max(1.0);
            self.ssthresh = self.window;
        } else if self.marks == 0 {
            self.window += if self.window < self.ssthresh { 1.0 } else { 1.0 / self.window };
        }
        if f64::from(self.acks) >= self.window {
            let marked = f64::from(self.marks) / f64::from(self.acks);
            self.fraction = self.fraction * (1.0 - WEIGHT) + WEIGHT * marked;
            (self.acks, self.marks) = (0, 0);
        }
    }
}
