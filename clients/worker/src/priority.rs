//! How urgent a tensor is where jobs contend for slots: DSA's equation 1 (section V), measured while the job
//! runs.
//!
//! ```text
//! P_j(l) = 1/T_j × L_j/l × Comm_j/Comp_j
//! ```
//!
//! T_j is the time that remains of job j's current epoch, l the tensor's layer of L_j, Comm_j and Comp_j the
//! times that an epoch communicates and computes. An *epoch* is DSA's word for an iteration: one pass over
//! the layers.
//!
//! **Quantised** to the header's 16 bits in units of 1/16 s⁻¹, from 1 to 65,535 (0 means "not used"). Linear,
//! because an appliance halves a holder's priority with each newcomer that fails to evict it. With equal
//! times of communication and computation, the lower end is the last layer of an epoch that ends in 11 s or
//! later, the upper end the first of 50 layers of one that ends within 12 ms.

use core::time::Duration;

/// The unit of quantised priorities, as a share of 1/s.
pub const UNITS_PER_HERTZ: f64 = 16.0;

/// The least remaining time: an epoch that takes longer than usual may end at any time.
pub const LEAST_REMAINING: Duration = Duration::from_millis(1);

/// The remaining time while no epoch has been measured.
pub const UNKNOWN_REMAINING: Duration = Duration::from_secs(1);

/// Properties of a tensor that a caller may know. All of it is optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// l: the layer that the tensor belongs to, counted from 1 for the layer next to the input, whose
    /// gradient is computed last and needed first. 0 counts as 1; what is more than `layers` counts as
    /// `layers`.
    pub layer: u32,
    /// L: the model's layers; 0 counts as 1.
    pub layers: u32,
    /// T: the time that remains of the epoch; if `None`, the rest of the usual length of earlier epochs.
    pub remaining: Option<Duration>,
}

impl Hints {
    const fn bounded(self) -> (u32, u32) {
        let layers = if self.layers == 0 { 1 } else { self.layers };
        let layer = if self.layer == 0 { 1 } else { self.layer };
        (if layer < layers { layer } else { layers }, layers)
    }
}

/// DSA's equation 1, in 1/s. Times of 0 count as a nanosecond.
#[must_use]
pub fn priority(
    remaining: Duration,
    (layer, layers): (u32, u32),
    communication: Duration,
    computation: Duration,
) -> f64 {
    let seconds = |time: Duration| time.max(Duration::from_nanos(1)).as_secs_f64();
    let nearness = 1.0 / seconds(remaining);
    let precedence = f64::from(layers.max(1)) / f64::from(layer.max(1));
    nearness * precedence * (seconds(communication) / seconds(computation))
}

/// A priority in 1/s as it stands in the header.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub fn quantise(priority: f64) -> u16 {
    // `max` also turns a NaN into 1.
    (priority * UNITS_PER_HERTZ).round().max(1.0).min(f64::from(u16::MAX)) as u16
}

/// One epoch, or the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Epoch {
    communication: Duration,
    computation: Duration,
}

impl Epoch {
    /// Before anything has been measured: nothing is known of the ratio, so it is 1.
    const UNKNOWN: Self = Self { communication: UNKNOWN_REMAINING, computation: UNKNOWN_REMAINING };

    /// One eighth of the newest, as in the estimate of round-trip times.
    fn blend(self, newest: Self) -> Self {
        let blend = |usual: Duration, newest: Duration| (usual * 7 + newest) / 8;
        Self {
            communication: blend(self.communication, newest.communication),
            computation: blend(self.computation, newest.computation),
        }
    }

    fn length(&self) -> Duration {
        self.communication + self.computation
    }
}

/// Measures a worker's epochs: the time inside of allreduces is communication, that between them computation.
///
/// Layers are reduced from the last to the first, as their gradients are computed: an allreduce of a layer
/// that is not below the one before it begins an epoch. Without layers, every allreduce is an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    usual: Option<Epoch>,
    /// The current epoch, unless its beginning was not seen.
    current: Option<Epoch>,
    layer: u32,
    /// When the allreduce that runs began.
    began: Option<Duration>,
    /// When the last one ended.
    ended: Option<Duration>,
}

impl Meter {
    /// An allreduce begins. Returns its priority.
    pub fn begin(&mut self, now: Duration, hints: Hints) -> u16 {
        let (layer, layers) = hints.bounded();
        let computed = self.ended.map(|ended| now.saturating_sub(ended));
        if self.layer != 0 && layer < self.layer {
            if let (Some(current), Some(computed)) = (&mut self.current, computed) {
                current.computation += computed;
            }
        } else {
            if let Some(newest) = self.current {
                self.usual = Some(self.usual.map_or(newest, |usual| usual.blend(newest)));
            }
            self.current = computed.map(|computation| Epoch { communication: Duration::ZERO, computation });
        }
        self.layer = layer;
        self.began = Some(now);
        let usual = self.usual.unwrap_or(Epoch::UNKNOWN);
        let remaining = hints.remaining.unwrap_or_else(|| self.remaining());
        quantise(priority(remaining, (layer, layers), usual.communication, usual.computation))
    }

    /// The allreduce that runs ends.
    pub fn end(&mut self, now: Duration) {
        if let (Some(current), Some(began)) = (&mut self.current, self.began.take()) {
            current.communication += now.saturating_sub(began);
        }
        self.ended = Some(now);
    }

    /// The allreduce that runs has failed: this epoch's times say nothing about others.
    pub const fn abandon(&mut self) {
        self.current = None;
        self.layer = 0;
        self.began = None;
        self.ended = None;
    }

    fn remaining(&self) -> Duration {
        let spent = self.current.map_or(Duration::ZERO, |current| current.length());
        let usual = self.usual.map(|usual| usual.length().saturating_sub(spent).max(LEAST_REMAINING));
        usual.unwrap_or(UNKNOWN_REMAINING)
    }
}
