//! A trainer that only pretends: when it has updates, and what is in them.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use super::OlafArgs;

/// How rewards develop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Reward {
    /// Always the same.
    Steady,
    /// From 0 towards 200, fast at first and slower later, with noise of up to 10 either way.
    Rising,
    /// Anything between 0 and 200.
    Random,
}

/// What rewards rise to; about what PPO reaches on LunarLander (Olaf, figures 2 and 3).
const BEST: f64 = 200.0;
const NOISE: f64 = 10.0;

/// The trainer of one worker.
#[derive(Debug)]
pub(super) struct Trainer {
    rng: Rng,
    gradient: Vec<f32>,
    updates: u32,
    done: u32,
    interval: Duration,
    jitter: f64,
    poisson: bool,
    reward: Reward,
    /// The time of the next update, without jitter.
    at: Duration,
}

impl Trainer {
    pub(super) fn new(args: &OlafArgs, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let phase = if args.in_phase { 0.0 } else { rng.f64() };
        Self {
            rng,
            gradient: vec![0.0; args.floats.get()],
            updates: args.updates.get(),
            done: 0,
            interval: args.interval,
            jitter: args.jitter,
            poisson: args.poisson,
            reward: args.reward,
            at: args.interval.mul_f64(phase),
        }
    }

    /// Weights to begin with, between −1 and 1.
    pub(super) fn weights(&mut self) -> Vec<f32> {
        self.gradient.iter().map(|_| 2.0 * self.rng.f32() - 1.0).collect()
    }

    /// When, after the start, the next update is due; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Duration> {
        if self.done == self.updates {
            return None;
        }
        let at = self.at;
        let step = if self.poisson { -(1.0 - self.rng.f64()).ln() } else { 1.0 };
        self.at += self.interval.mul_f64(step);
        // Around its time, so that jitter does not add up.
        let early = self.interval.mul_f64(self.jitter);
        let late = self.interval.mul_f64(2.0 * self.jitter * self.rng.f64());
        Some(at.saturating_sub(early) + if self.jitter > 0.0 { late } else { Duration::ZERO })
    }

    /// The next update.
    pub(super) fn train(&mut self) -> (&[f32], f32) {
        self.done += 1;
        for value in &mut self.gradient {
            *value = 2.0 * self.rng.f32() - 1.0;
        }
        let progress = f64::from(self.done) / f64::from(self.updates);
        let reward = match self.reward {
            Reward::Steady => BEST,
            Reward::Rising => BEST * (1.0 - (-3.0 * progress).exp()) + NOISE * (2.0 * self.rng.f64() - 1.0),
            Reward::Random => BEST * self.rng.f64(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "a reward is a small number")]
        let reward = reward as f32;
        (&self.gradient, reward)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
mod tests;
