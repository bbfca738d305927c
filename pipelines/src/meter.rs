//! What may be used without a result to show for it: a token bucket for each tenant and resource.
//!
//! A tenant is whatever is charged: a member, a server, a stranger's address, a PSN. Times are nanoseconds
//! of the caller's clock.

use core::sync::atomic::{AtomicU64, Ordering};

use pascaline_aggregator::Key;

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Nanoseconds from one token to the next.
    every: u64,
    burst: u64,
}

impl Rate {
    const fn per_second(tokens: u64, burst: u64) -> Self {
        Self { every: 1_000_000_000 / tokens, burst }
    }

    /// With a burst that is as many times as large.
    pub(crate) const fn times(self, factor: u64) -> Self {
        Self { burst: self.burst * factor, ..self }
    }
}

// The table of all rates. Sections are those of docs/protocol.md.

/// Control requests of a member or a server (9, Too many requests): several times what one sends that repeats
/// its requests every 20 ms.
pub(crate) const MEMBER: Rate = Rate::per_second(200, 64);
/// Those from an address that no member has joined from: enough for a host on which many ranks start at once.
pub(crate) const STRANGER: Rate = Rate::per_second(1000, 512);
/// Answers `too_many` to one source (9): enough to be noticed.
pub(crate) const TOO_MANY: Rate = Rate::per_second(10, 1);
/// Reminders, kept results and commands about PSNs of one member, by lcore (11, What one member may cause).
/// The burst is in windows: after a restart, everything in flight may have to be requested.
pub(crate) const ASKS: Rate = Rate::per_second(2000, 2);
/// Refusals of packets, by lcore, to members and to all others (9, Rejections outside of membership; 14; 15):
/// an lcore must not become an amplifier of mistakes.
pub(crate) const REFUSALS: Rate = Rate::per_second(1000, 1);
/// What requests for one PSN make an lcore send to the other ranks, or to the parent (10): all ranks that
/// wait may ask, ...
const PSN: Rate = Rate::per_second(1000, 1);
/// ... and for many PSNs.
const PSNS: Rate = Rate::per_second(64_000, 64);

/// A token bucket; full when new.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bucket {
    /// When it will be full.
    full: u64,
}

impl Bucket {
    /// Takes a token. False if there is none.
    pub(crate) fn take(&mut self, now: u64, rate: Rate) -> bool {
        let empty = now.saturating_add(rate.every.saturating_mul(rate.burst));
        // Also when its rate was lower before.
        self.full = self.full.max(now).min(empty);
        let has = self.has(now, rate);
        if has {
            self.full = self.full.saturating_add(rate.every);
        }
        has
    }

    /// True if there is a token.
    pub(crate) fn has(self, now: u64, Rate { every, burst }: Rate) -> bool {
        self.full <= now.saturating_add(every.saturating_mul(burst.saturating_sub(1)))
    }

    /// Takes a token from a bucket in a cell that only the caller writes.
    pub(crate) fn take_from(cell: &AtomicU64, now: u64, rate: Rate) -> bool {
        let mut bucket = Self { full: cell.load(Ordering::Relaxed) };
        let may = bucket.take(now, rate);
        cell.store(bucket.full, Ordering::Relaxed);
        may
    }
}

const PLACES: usize = 256;

/// Buckets for PSNs: a fixed number, so that PSNs may have to share one; consecutive ones do not.
#[derive(Debug)]
pub(crate) struct PerPsn {
    places: Box<[Bucket; PLACES]>,
    all: Bucket,
}

impl Default for PerPsn {
    fn default() -> Self {
        Self { places: Box::new([Bucket::default(); PLACES]), all: Bucket::default() }
    }
}

impl PerPsn {
    /// Takes a token of a PSN's, and one of all PSNs'. False if either is missing.
    pub(crate) fn take(&mut self, key: Key, now: u64) -> bool {
        let place = &mut self.places[(key.psn() as usize ^ usize::from(key.job())) % PLACES];
        self.all.has(now, PSNS) && place.take(now, PSN) && self.all.take(now, PSNS)
    }
}

#[cfg(test)]
mod tests;
