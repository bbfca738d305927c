//! Limits on an lcore's answers: it must not become an amplifier.

use pascaline_aggregator::Key;

use crate::server::Credit;

/// Least time between two refusals, and between two fan-outs for one PSN, in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000;
/// Fan-outs within that time, for all PSNs.
const FAN_OUTS: u32 = 64;
/// Latest fan-outs that are remembered, by PSN.
const PLACES: usize = 64;

/// What an lcore remembers of its latest answers. Times are nanoseconds of its clock.
#[derive(Debug)]
pub(crate) struct Limits {
    last_refusal: Option<u64>,
    /// The latest fan-out of each place: its key and its time.
    fan_outs: [Option<(Key, u64)>; PLACES],
    /// When this interval began, and the fan-outs in it.
    since: u64,
    count: u32,
    /// What jobs may pass on to the parameter server.
    pub(crate) server: Credit,
}

impl Default for Limits {
    fn default() -> Self {
        Self { last_refusal: None, fan_outs: [None; PLACES], since: 0, count: 0, server: Credit::default() }
    }
}

impl Limits {
    /// True if a refusal may be sent now.
    pub(crate) fn may_refuse(&self, now: u64) -> bool {
        self.last_refusal.is_none_or(|last| now.saturating_sub(last) >= INTERVAL_NS)
    }

    /// Notes that one was sent.
    pub(crate) const fn refused(&mut self, now: u64) {
        self.last_refusal = Some(now);
    }

    /// True if all ranks may be reminded of a PSN that the pool does not know: one frame in, one per rank
    /// out. The pool itself limits reminders of PSNs that it knows.
    pub(crate) fn may_fan_out(&mut self, key: Key, now: u64) -> bool {
        if now.saturating_sub(self.since) >= INTERVAL_NS {
            (self.since, self.count) = (now, 0);
        }
        let place = &mut self.fan_outs[(key.psn() as usize ^ usize::from(key.job())) % PLACES];
        let recent = place.is_some_and(|(other, at)| other == key && now.saturating_sub(at) < INTERVAL_NS);
        if recent || self.count >= FAN_OUTS {
            return false;
        }
        *place = Some((key, now));
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests;
