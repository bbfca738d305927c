//! What an lcore does when there is nothing to do.

use core::time::Duration;

/// How an lcore idles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Polls for ever: least latency, a whole core.
    Spin,
    /// Polls for a while, then yields, then sleeps between polls: for machines where others need the core.
    Backoff {
        /// Longest sleep between two polls; bounds the latency of the first packet after a pause.
        longest_nap: Duration,
    },
}

/// Empty polls before the first yield.
const SPINS: u32 = 64;
/// Empty polls before the first sleep.
const YIELDS: u32 = 96;
const SHORTEST_NAP: Duration = Duration::from_micros(5);

/// The idling of one lcore.
#[derive(Debug)]
pub struct Idle {
    policy: IdlePolicy,
    empty: u32,
    nap: Duration,
}

/// What to do before the next poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Poll again at once.
    Spin,
    /// Let another thread run.
    Yield,
    /// Sleep.
    Nap(Duration),
}

impl Idle {
    /// Idles by this policy.
    #[must_use]
    pub const fn new(policy: IdlePolicy) -> Self {
        Self { policy, empty: 0, nap: SHORTEST_NAP }
    }

    /// Says what to do after a poll that found something, or did not.
    #[inline]
    pub fn polled(&mut self, found: bool) -> Rest {
        let IdlePolicy::Backoff { longest_nap } = self.policy else { return Rest::Spin };
        if found {
            self.empty = 0;
            self.nap = SHORTEST_NAP;
            return Rest::Spin;
        }
        self.empty = self.empty.saturating_add(1);
        match self.empty {
            0..SPINS => Rest::Spin,
            SPINS..YIELDS => Rest::Yield,
            _ => {
                let nap = self.nap.min(longest_nap);
                self.nap = (self.nap * 2).min(longest_nap);
                Rest::Nap(nap)
            }
        }
    }
}

impl Rest {
    /// Does it.
    #[inline]
    pub fn take(self) {
        match self {
            Self::Spin => core::hint::spin_loop(),
            Self::Yield => std::thread::yield_now(),
            Self::Nap(nap) => std::thread::sleep(nap),
        }
    }
}

#[cfg(test)]
mod tests;
