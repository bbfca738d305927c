//! How an update changes the weights.
//!
//! An update may stand for several contributions that were combined on the way: *c*, its `count`. The payload
//! is their sum or their mean, as the queue was told ([`Combined`]); g̅ below is their mean in either case.

use core::time::Duration;

/// What an update that stands for several carries.
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
    /// r_g. Then g_a ← avg(g_a, g_i) and w ← w + γ · g_a.
    ///
    /// The paper does not say what the average is of an update that stands for c: here g_a counts as one and
    /// each contribution as one, g_a ← (g_a + c · g̅) / (1 + c). For c = 1 that is the paper's; in which
    /// order the contributions came does not show. The first update's g_a is g̅.
    Olaf {
        /// γ: 0.001 in the paper.
        rate: f32,
    },
    /// Plain SGD in which an update counts the less the older it is: w ← w + γ · α(age) · c · g̅ with α(age)
    /// = 1 / (1 + age / half). Each of c contributions makes the step that it would have made by itself.
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
    /// r_g.
    reward: Option<f32>,
    /// How often the weights have changed.
    version: u64,
}

/// An update, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gradient<'a> {
    /// Little-endian floats, as many as there are weights.
    pub(super) payload: &'a [u8],
    pub(super) combined: Combined,
    pub(super) count: u16,
    pub(super) reward: f32,
    pub(super) age: Duration,
}

impl Gradient<'_> {
    fn floats(&self) -> impl Iterator<Item = f32> {
        floats(self.payload)
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Whether all of these little-endian floats are numbers.
pub(super) fn all_finite(bytes: &[u8]) -> bool {
    floats(bytes).all(f32::is_finite)
}

impl Model {
    /// A model that begins with these weights, little-endian floats.
    pub(super) fn new(weights: &[u8]) -> Self {
        Self { weights: floats(weights).collect(), ..Self::default() }
    }

    /// A model that begins with zeros.
    pub(super) fn zeros(floats: usize) -> Self {
        Self { weights: vec![0.0; floats], ..Self::default() }
    }

    pub(super) fn weights(&self) -> &[f32] {
        &self.weights
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) const fn reward(&self) -> Option<f32> {
        self.reward
    }

    /// Has an update change the weights. False if its reward is not high enough for the rule.
    pub(super) fn apply(&mut self, rule: Rule, gradient: &Gradient<'_>) -> bool {
        match rule {
            Rule::Olaf { .. } if self.reward.is_some_and(|best| gradient.reward <= best) => return false,
            Rule::Olaf { rate } => {
                self.fold(gradient);
                for (weight, average) in self.weights.iter_mut().zip(&self.average) {
                    *weight += rate * average;
                }
            }
            Rule::Staleness { rate, half } => {
                let alpha = 1.0 / (1.0 + gradient.age.as_secs_f32() / half.as_secs_f32());
                let step =
                    rate * alpha * f32::from(gradient.count) * gradient.combined.to_mean(gradient.count);
                for (weight, value) in self.weights.iter_mut().zip(gradient.floats()) {
                    *weight += step * value;
                }
            }
        }
        self.reward = Some(self.reward.map_or(gradient.reward, |best| best.max(gradient.reward)));
        self.version += 1;
        true
    }

    /// g_a ← (g_a + c · g̅) / (1 + c); the first time g_a ← g̅.
    fn fold(&mut self, gradient: &Gradient<'_>) {
        let to_mean = gradient.combined.to_mean(gradient.count);
        if self.average.is_empty() {
            self.average.extend(gradient.floats().map(|value| value * to_mean));
            return;
        }
        let count = f32::from(gradient.count);
        let (old, new) = (1.0 / (1.0 + count), count * to_mean / (1.0 + count));
        for (average, value) in self.average.iter_mut().zip(gradient.floats()) {
            *average = old * *average + new * value;
        }
    }
}
