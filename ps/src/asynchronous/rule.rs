//! How an update changes the weights.
//!
//! An update may stand for several contributions that were combined on the way: *c*, its `count`. The payload
//! is their sum or their mean, as the queue is configured ([`Combined`]); g̅ below is their mean in either
//! case.

use core::time::Duration;

/// The payload of an update that stands for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combined {
    /// The sum of the contributions.
    Sum,
    /// Their mean.
    Mean,
}

impl Combined {
    /// The factor between the payload and the mean of its contributions.
    #[must_use]
    pub fn to_mean(self, count: u16) -> f32 {
        match self {
            Self::Sum => f32::from(count.max(1)).recip(),
            Self::Mean => 1.0,
        }
    }
}

/// The rule by which weights follow updates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Olaf's (section 2.1): an update counts only if its reward is higher than the highest one so far, r_i >
    /// r_g; so far in this generation of the job, and not before [`Settings::memory`](super::Settings). Then
    /// g_a ← avg(g_a, g_i) and w ← w + γ · g_a.
    ///
    /// The paper does not define the average for an update that stands for c: here g_a counts as one and each
    /// contribution as one, g_a ← (g_a + c · g̅) / (1 + c). For c = 1 that is the paper's; the order of the
    /// contributions does not matter. The first update's g_a is g̅.
    Olaf {
        /// γ: 0.001 in the paper.
        rate: f32,
    },
    /// Plain SGD in which older updates count less: w ← w + γ · α(age) · c · g̅ with α(age) = 1 / (1 + age /
    /// half). Each of c contributions makes the same step as alone.
    Staleness {
        /// γ.
        rate: f32,
        /// The age at which an update counts half. Above 0.
        half: Duration,
    },
}

impl Default for Rule {
    /// The paper's rule with the paper's γ.
    fn default() -> Self {
        Self::Olaf { rate: 0.001 }
    }
}

/// A cluster's model.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    weights: Vec<f32>,
    /// g_a; empty before the first update that counts.
    average: Vec<f32>,
    /// r_g, and when it was last reached or raised.
    reward: Option<(f32, u64)>,
    /// How often the weights have changed.
    version: u64,
    /// The next weights, until they are known to be finite.
    next: Vec<f32>,
}

/// The outcome of an update at a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// It has changed the weights.
    Applied,
    /// Its reward is not high enough for the rule.
    LowReward,
    /// It would have made weights infinite or NaN. Nothing has changed.
    Diverges,
}

/// An update, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gradient<'a> {
    /// Little-endian floats, one for each weight.
    pub(super) payload: &'a [u8],
    pub(super) combined: Combined,
    pub(super) count: u16,
    pub(super) reward: f32,
    pub(super) age: Duration,
    /// Unix time.
    pub(super) now: u64,
}

impl Gradient<'_> {
    fn floats(&self) -> impl Iterator<Item = f32> + Clone {
        floats(self.payload)
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + Clone {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Whether all of these little-endian floats are finite.
pub(super) fn all_finite(bytes: &[u8]) -> bool {
    floats(bytes).all(f32::is_finite)
}

impl Model {
    /// A model that begins with these weights, little-endian floats.
    pub(super) fn new(weights: &[u8]) -> Self {
        Self { weights: floats(weights).collect(), ..Self::default() }
    }

    pub(super) fn weights(&self) -> &[f32] {
        &self.weights
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn reward(&self) -> Option<f32> {
        self.reward.map(|(reward, _)| reward)
    }

    /// g_a; empty before the first update that counts.
    pub(super) fn average(&self) -> &[f32] {
        &self.average
    }

    /// A model from a file.
    pub(super) fn kept(weights: Vec<f32>, average: Vec<f32>, version: u64) -> Self {
        Self { weights, average, version, ..Self::default() }
    }

    /// Forgets r_g: earlier rewards say nothing about new ones.
    pub(super) const fn forget_reward(&mut self) {
        self.reward = None;
    }

    /// Lets an update change the weights, if the rule allows. r_g is forgotten after `memory` without one
    /// that counts.
    pub(super) fn apply(&mut self, rule: Rule, memory: Duration, gradient: &Gradient<'_>) -> Judged {
        let recent = |(_, at): &(f32, u64)| Duration::from_nanos(gradient.now.saturating_sub(*at)) < memory;
        let best = self.reward.filter(recent).map(|(best, _)| best);
        self.next.clear();
        match rule {
            Rule::Olaf { .. } if best.is_some_and(|best| gradient.reward <= best) => {
                // An update that reaches the highest shows that it can still be reached.
                let reached = best.filter(|&best| gradient.reward >= best);
                self.reward = reached.map(|best| (best, gradient.now)).or(self.reward);
                return Judged::LowReward;
            }
            Rule::Olaf { rate } => {
                let (old, new) = self.shares(gradient);
                let average = self.average.iter().copied().chain(core::iter::repeat(0.0));
                let folded = gradient.floats().zip(average).map(|(value, there)| old * there + new * value);
                // The weights first, then the average.
                self.next
                    .extend(self.weights.iter().zip(folded.clone()).map(|(weight, it)| weight + rate * it));
                self.next.extend(folded);
            }
            Rule::Staleness { rate, half } => {
                let alpha = 1.0 / (1.0 + gradient.age.as_secs_f32() / half.as_secs_f32());
                let step =
                    rate * alpha * f32::from(gradient.count) * gradient.combined.to_mean(gradient.count);
                let moved = self.weights.iter().zip(gradient.floats());
                self.next.extend(moved.map(|(weight, value)| weight + step * value));
            }
        }
        if !self.next.iter().all(|value| value.is_finite()) {
            return Judged::Diverges;
        }
        let (weights, average) = self.next.split_at(self.weights.len());
        self.weights.copy_from_slice(weights);
        if !average.is_empty() {
            self.average.clear();
            self.average.extend_from_slice(average);
        }
        let best = best.map_or(gradient.reward, |best| best.max(gradient.reward));
        self.reward = Some((best, gradient.now));
        self.version += 1;
        Judged::Applied
    }

    /// The shares of g_a and of the payload in the new g_a: g_a ← (g_a + c · g̅) / (1 + c); the first time
    /// g_a ← g̅.
    fn shares(&self, gradient: &Gradient<'_>) -> (f32, f32) {
        let (to_mean, count) = (gradient.combined.to_mean(gradient.count), f32::from(gradient.count));
        if self.average.is_empty() {
            (0.0, to_mean)
        } else {
            (1.0 / (1.0 + count), count * to_mean / (1.0 + count))
        }
    }
}
