//! A network that loses, duplicates, delays and reorders, all from one seed.

use std::time::Duration;

use fastrand::Rng;

/// True with this probability.
pub(crate) fn chance(random: &mut Rng, probability: f64) -> bool {
    random.f64() < probability
}

/// Any time up to a limit.
pub(crate) fn up_to(random: &mut Rng, limit: Duration) -> Duration {
    Duration::from_nanos(random.u64(..=u64::try_from(limit.as_nanos()).unwrap()))
}

/// What every leg does to packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Propagation.
    pub(crate) delay: Duration,
    /// More delay for some packets, up to this: what reorders.
    pub(crate) jitter: Duration,
    /// Share of packets that are delayed more.
    pub(crate) jittered: f64,
    /// Time that one packet occupies the leg.
    pub(crate) serialisation: Duration,
    /// Chance that a result is forgotten when it has been sent.
    pub(crate) forget_result: f64,
    /// Chance that a partial is forgotten with each contribution.
    pub(crate) forget_partial: f64,
    /// Chance that reminders are passed on as a parameter server does: with BYPASS.
    pub(crate) server: f64,
}

impl Conditions {
    pub(crate) const IDEAL: Self = Self {
        loss: 0.0,
        duplicate: 0.0,
        delay: Duration::from_micros(25),
        jitter: Duration::ZERO,
        jittered: 0.0,
        serialisation: Duration::from_nanos(8_600),
        forget_result: 0.0,
        forget_partial: 0.0,
        server: 0.0,
    };
}

/// One direction between a rank and the aggregator.
#[derive(Debug, Default, Clone)]
pub(crate) struct Leg {
    free_at: Duration,
}

impl Leg {
    /// When the copies of a packet sent now arrive.
    pub(crate) fn arrivals(
        &mut self,
        now: Duration,
        conditions: &Conditions,
        random: &mut Rng,
    ) -> Vec<Duration> {
        self.free_at = self.free_at.max(now) + conditions.serialisation;
        let copies = 1 + u32::from(chance(random, conditions.duplicate));
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            if !chance(random, conditions.loss) {
                let more = if chance(random, conditions.jittered) {
                    up_to(random, conditions.jitter)
                } else {
                    Duration::ZERO
                };
                arrivals.push(self.free_at + conditions.delay + more);
            }
        }
        arrivals
    }
}
