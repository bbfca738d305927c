//! Lcores that do not turn.
//!
//! An lcore turns all the time, and counts its turns. One that does not is stuck, or something else has its
//! core: its packets wait, and the ranks' heartbeats with them.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::observe::explain::Stalled;

/// An lcore that has not turned for so long is held up: from then on, who is not heard is not silent.
const HELD_UP: Duration = Duration::from_millis(250);
/// After so long it is said.
const STALLED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Lcore {
    turns: u64,
    /// When that number was first seen.
    since: Duration,
    told: bool,
}

/// Something that is worth a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noticed {
    Stalls(Stalled),
    /// It turns again, after so long.
    Turns(Stalled),
}

/// What the control plane has seen of the lcores.
#[derive(Debug)]
pub(super) struct Watch(Vec<Lcore>);

impl Watch {
    /// Watches this many lcores from `now` on.
    pub(super) fn new(now: Duration, lcores: usize) -> Self {
        Self(vec![Lcore { turns: 0, since: now, told: false }; lcores])
    }

    /// Looks at how often each has turned. To be called several times in [`HELD_UP`].
    pub(super) fn look(&mut self, now: Duration, turns: impl IntoIterator<Item = u64>) -> Vec<Noticed> {
        let mut noticed = Vec::new();
        for (number, (lcore, turns)) in self.0.iter_mut().zip(turns).enumerate() {
            let stalled = Stalled { lcore: number, time: now.saturating_sub(lcore.since) };
            if turns != lcore.turns {
                if lcore.told {
                    noticed.push(Noticed::Turns(stalled));
                }
                *lcore = Lcore { turns, since: now, told: false };
            } else if stalled.time >= STALLED && !lcore.told {
                lcore.told = true;
                noticed.push(Noticed::Stalls(stalled));
            }
        }
        noticed
    }

    /// Whether an lcore is held up.
    pub(super) fn held_up(&self, now: Duration) -> bool {
        self.0.iter().any(|lcore| now.saturating_sub(lcore.since) >= HELD_UP)
    }

    /// The lcores that have been said to stall.
    pub(super) fn stalled(&self, now: Duration) -> Vec<Stalled> {
        let told = self.0.iter().enumerate().filter(|(_, lcore)| lcore.told);
        told.map(|(lcore, seen)| Stalled { lcore, time: now.saturating_sub(seen.since) }).collect()
    }
}
