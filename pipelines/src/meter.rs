//! What may be used without a result to show for it: a token bucket for each tenant and resource.
//!
//! A tenant is whatever is charged: a member, a server, the address of a stranger. Times are nanoseconds of
//! the caller's clock.

use core::sync::atomic::{AtomicU64, Ordering};

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

/// A token bucket; full when new.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bucket {
    /// When it will be full.
    full: u64,
}

impl Bucket {
    /// Takes a token. False if there is none.
    pub(crate) fn take(&mut self, now: u64, Rate { every, burst }: Rate) -> bool {
        let empty = now.saturating_add(every.saturating_mul(burst));
        // Also when its rate was lower before.
        self.full = self.full.max(now).min(empty);
        let full = self.full.saturating_add(every);
        let may = full <= empty;
        if may {
            self.full = full;
        }
        may
    }

    /// The same for a bucket in a cell that only the caller writes.
    pub(crate) fn take_from(cell: &AtomicU64, now: u64, rate: Rate) -> bool {
        let mut bucket = Self { full: cell.load(Ordering::Relaxed) };
        let may = bucket.take(now, rate);
        cell.store(bucket.full, Ordering::Relaxed);
        may
    }
}

#[cfg(test)]
mod tests;
