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
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// The last refusal to a stranger, and to a member.
    last_refusals: [Option<u64>; 2],
    /// Fan-outs for PSNs.
    fan_outs: Paced,
    /// Sums that went to the parent again, and reminders.
    climbs: Paced,
    asks: Paced,
    /// What jobs may pass on to the parameter server.
    pub(crate) server: Credit,
    /// What they may give to the pool that comes to nothing.
    pub(crate) pool: Credit,
}

impl Limits {
    /// True if a refusal may be sent now, to a member or to a stranger: neither takes the other's turn.
    pub(crate) fn may_refuse(&self, now: u64, member: bool) -> bool {
        let last = self.last_refusals[usize::from(member)];
        last.is_none_or(|last| now.saturating_sub(last) >= INTERVAL_NS)
    }

    /// Notes that one was sent.
    pub(crate) const fn refused(&mut self, now: u64, member: bool) {
        self.last_refusals[member as usize] = Some(now);
    }

    /// True if all ranks may be reminded of a PSN that the pool does not know: one frame in, one per rank
    /// out. The pool itself limits reminders of PSNs that it knows.
    pub(crate) fn may_fan_out(&mut self, key: Key, now: u64) -> bool {
        self.fan_outs.may(key, now)
    }

    /// True if a sum, or a result, may go to the parent once more: each rank that waits asks for it.
    pub(crate) fn may_climb(&mut self, key: Key, now: u64) -> bool {
        self.climbs.may(key, now)
    }

    /// The same for reminders. A worker sends one right behind a contribution, which must not take its turn.
    pub(crate) fn may_ask_above(&mut self, key: Key, now: u64) -> bool {
        self.asks.may(key, now)
    }
}

/// What is done for a PSN once in an interval at most, and not for too many PSNs.
#[derive(Debug)]
struct Paced {
    /// The latest of each place: its key and its time.
    places: [Option<(Key, u64)>; PLACES],
    /// When this interval began, and how many there were in it.
    since: u64,
    count: u32,
}

impl Default for Paced {
    fn default() -> Self {
        Self { places: [None; PLACES], since: 0, count: 0 }
    }
}

impl Paced {
    fn may(&mut self, key: Key, now: u64) -> bool {
        if now.saturating_sub(self.since) >= INTERVAL_NS {
            (self.since, self.count) = (now, 0);
        }
        let place = &mut self.places[(key.psn() as usize ^ usize::from(key.job())) % PLACES];
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
