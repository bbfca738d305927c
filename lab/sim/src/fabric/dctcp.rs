//! DCTCP's window (Alizadeh et al., 2010): slow start from 10 packets, α by the part that was marked.

/// How often marks cut the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cuts {
    /// By the first mark, and not again for packets in flight then (RFC 8257, section 3.3).
    #[default]
    Once,
    /// By the first mark of each window that α counts. Marks outlast such a window, so that most congestion
    /// cuts twice.
    EachWindow,
}

/// A sender's window, in packets.
#[derive(Debug, Clone, Copy)]
pub struct Dctcp {
    cuts: Cuts,
    window: f64,
    ssthresh: f64,
    /// α: the part that was marked, lately.
    fraction: f64,
    /// All acknowledgements so far, and those until which a window lasts or marks change nothing.
    acked: u64,
    ends: u64,
    deaf: u64,
    /// Of this window.
    acks: u32,
    marks: u32,
}

/// The weight of the latest window in α.
const WEIGHT: f64 = 1.0 / 16.0;

impl Default for Dctcp {
    fn default() -> Self {
        Self::new(Cuts::default())
    }
}

impl Dctcp {
    /// A connection that begins.
    #[must_use]
    pub const fn new(cuts: Cuts) -> Self {
        let (window, ssthresh, fraction) = (10.0, f64::INFINITY, 1.0);
        Self { cuts, window, ssthresh, fraction, acked: 0, ends: 0, deaf: 0, acks: 0, marks: 0 }
    }

    /// Packets that may be in flight.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    pub const fn window(&self) -> u32 {
        self.window as u32
    }

    /// A packet was acknowledged, and `in_flight` remain in flight. A mark cuts the window by α / 2; it does
    /// not grow until that shows.
    pub fn on_ack(&mut self, marked: bool, in_flight: u32) {
        self.acked += 1;
        self.acks += 1;
        self.marks += u32::from(marked);
        let sent = self.acked + u64::from(in_flight);
        if self.acked > self.deaf {
            if marked {
                self.window = (self.window * (1.0 - self.fraction / 2.0)).max(1.0);
                self.ssthresh = self.window;
                self.deaf = if self.cuts == Cuts::Once { sent } else { self.ends };
            } else {
                self.window += if self.window < self.ssthresh { 1.0 } else { 1.0 / self.window };
            }
        }
        if self.acked >= self.ends {
            let marked = f64::from(self.marks) / f64::from(self.acks);
            self.fraction = self.fraction * (1.0 - WEIGHT) + WEIGHT * marked;
            (self.ends, self.acks, self.marks) = (sent, 0, 0);
        }
    }
}
