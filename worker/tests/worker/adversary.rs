//! A network that loses, duplicates, delays and reorders, all from one seed.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability && probability > 0.0
    }

    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(limit.as_nanos()).unwrap() + 1))
    }
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
        random: &mut Random,
    ) -> Vec<Duration> {
        self.free_at = self.free_at.max(now) + conditions.serialisation;
        let copies = 1 + u32::from(random.chance(conditions.duplicate));
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            if !random.chance(conditions.loss) {
                let more = if random.chance(conditions.jittered) {
                    random.up_to(conditions.jitter)
                } else {
                    Duration::ZERO
                };
                arrivals.push(self.free_at + conditions.delay + more);
            }
        }
        arrivals
    }
}
