//! Whether a worker that has an update sends it now (Olaf, section 5).
//!
//! A queue that combines the waiting updates of a cluster overflows only if more clusters are active, N, than
//! it has places, Q_max. Acknowledgements bring both numbers. While N ≤ Q_max every worker sends at will;
//! beyond that, each update is sent with the probability P_s = min(Q_max / N + f(Δ), 1), where Δ is the time
//! since the last acknowledgement:
//!
//! ```text
//! f(Δ) = v · (Δ − Δ_T)   if Δ > Δ_T: what was heard is obsolete
//!        0               otherwise
//! ```
//!
//! An update that is not sent is not lost to the trainer: it goes on collecting experience, and its next
//! update contains more.

use core::time::Duration;

use fastrand::Rng;
use pascaline_wire::trailer::QueueState;

/// The slope v of the probability, once no acknowledgement has come for longer than the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slope {
    /// 1 / Δ_T: the longer the threshold, the more slowly the probability rises.
    Urgency,
    /// Δ_T in seconds, per second: the paper's choice for a fair share among clusters. It compares numbers of
    /// different units, so the second is part of its meaning. With thresholds below a second it is the
    /// flatter one.
    Fairness,
}

/// How a worker decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Everything is sent.
    AtWill,
    /// The paper's control.
    Olaf {
        /// The slope v.
        slope: Slope,
        /// The threshold Δ_T; above 0.
        threshold: Duration,
    },
    /// After each acknowledgement nothing is sent for as long as the server says, which has the age of every
    /// cluster's model.
    Paced,
}

/// The content of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The bottleneck queue as the acknowledgement passed it.
    pub queue: QueueState,
    /// For how long the server asks this cluster to send nothing.
    pub pause: Duration,
}

/// One worker's transmission control.
///
/// The same seed and the same calls give the same decisions.
#[derive(Debug, Clone)]
pub struct Control {
    policy: Policy,
    rng: Rng,
    /// The last acknowledgement, and when it came.
    heard: Option<(Duration, Heard)>,
}

impl Control {
    /// A control without any answer yet, which therefore assumes no congestion: it sends every update.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self { policy, rng: Rng::with_seed(seed), heard: None }
    }

    /// An acknowledgement has come, for this worker or for its whole cluster.
    pub const fn on_ack(&mut self, now: Duration, heard: Heard) {
        self.heard = Some((now, heard));
    }

    /// The probability with which an update is sent now: 0 to 1.
    #[must_use]
    pub fn probability(&self, now: Duration) -> f64 {
        let Some((at, Heard { queue, pause })) = self.heard else { return 1.0 };
        if queue.capacity >= queue.clusters {
            return 1.0;
        }
        match self.policy {
            Policy::AtWill => 1.0,
            Policy::Olaf { slope, threshold } => {
                let obsolete = now.saturating_sub(at).saturating_sub(threshold).as_secs_f64();
                let v = match slope {
                    Slope::Urgency => threshold.as_secs_f64().recip(),
                    Slope::Fairness => threshold.as_secs_f64(),
                };
                let insistence = if obsolete > 0.0 { v * obsolete } else { 0.0 };
                (f64::from(queue.capacity) / f64::from(queue.clusters) + insistence).min(1.0)
            }
            Policy::Paced if now.saturating_sub(at) < pause => 0.0,
            Policy::Paced => 1.0,
        }
    }

    /// Decides about one update.
    pub fn permits(&mut self, now: Duration) -> bool {
        let probability = self.probability(now);
        // Without congestion, no random number is drawn.
        probability >= 1.0 || self.rng.f64() < probability
    }
}
