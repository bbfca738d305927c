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
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: OlafArgs,
    }

    fn trainer(more: &[&str]) -> Trainer {
        let common = ["olaf", "--appliance", "127.0.0.1", "--job", "1", "--rank", "0", "--ranks", "3"];
        let args = Command::try_parse_from(common.iter().chain(more)).unwrap().args;
        Trainer::new(&args, 7)
    }

    fn times(more: &[&str]) -> Vec<f64> {
        let mut trainer = trainer(more);
        let mut times = Vec::new();
        while let Some(at) = trainer.next() {
            times.push(1e3 * at.as_secs_f64());
            trainer.train();
        }
        times
    }

    #[test]
    fn updates_come_when_they_should() {
        assert_eq!(times(&["--updates", "4", "--in-phase"]), [0.0, 100.0, 200.0, 300.0]);
        let phased = times(&["--updates", "100"]);
        assert!(phased[0] > 0.0 && phased[0] < 100.0);
        assert!((phased[99] - phased[0] - 9900.0).abs() < 1e-6);
        let jittered = times(&["--updates", "1000", "--in-phase", "--jitter", "0.5"]);
        let off: Vec<f64> = (0_u32..).zip(&jittered).map(|(n, at)| at - 100.0 * f64::from(n)).collect();
        assert!(off[1..].iter().all(|off| (-50.0..=50.0).contains(off)));
        assert!(off.iter().any(|off| *off < -40.0) && off.iter().any(|off| *off > 40.0));
        let poisson = times(&["--updates", "4000", "--poisson"]);
        let mean = poisson[3999] / 4000.0;
        assert!((94.0..106.0).contains(&mean), "{mean}");
        let short = poisson.windows(2).filter(|pair| pair[1] - pair[0] < 100.0).count();
        assert!((2400..2660).contains(&short), "1 − 1/e of the intervals are below the mean: {short}");
    }

    #[test]
    fn rewards_follow_their_curves() {
        let rewards = |more: &[&str]| {
            let mut trainer = trainer(&[&["--updates", "200"], more].concat());
            (0..200).map(|_| trainer.train().1).collect::<Vec<_>>()
        };
        let rising = rewards(&[]);
        assert!(rising[..10].iter().all(|reward| *reward < 45.0), "{rising:?}");
        assert!(rising[190..].iter().all(|reward| (175.0..=200.0).contains(reward)), "{rising:?}");
        assert!(rewards(&["--reward", "steady"]).windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1e-6));
        let random = rewards(&["--reward", "random"]);
        assert!(random.iter().any(|reward| *reward < 50.0) && random.iter().any(|reward| *reward > 150.0));
    }
}
