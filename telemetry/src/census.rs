//! How the aggregator pool is filled, counted by the lcores on their rounds.
//!
//! Only the owner of a set may read it, so only lcores can count the contents of sets. Each visits its own
//! sets in turn in any case. It adds its counts to cells, each for an equal part of them, and writes a cell
//! when it has passed its last set. Sets are assigned to lcores in turn, so the same cells of all lcores
//! together describe one part of the pool.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The most cells; a smaller pool has one per set.
pub const CENSUS_CELLS: usize = 256;

/// One lcore's counts. Only that lcore writes them.
#[derive(Debug)]
pub struct Census {
    /// Partials in the upper half, cached results in the lower.
    cells: Box<[AtomicU64]>,
    oldest_ns: AtomicU64,
}

/// The side of the lcore.
#[derive(Debug)]
pub struct Surveyor {
    census: Arc<Census>,
    sets: usize,
    sets_per_cell: usize,
    /// The set that is visited next.
    at: usize,
    found: Found,
    oldest_ns: u64,
}

/// Contents of a part of the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Slots with a partial.
    pub open: u32,
    /// Slots with a cached result.
    pub done: u32,
    /// Age of the oldest of these partials, in nanoseconds since its first contribution.
    pub oldest_ns: u64,
}

impl Found {
    /// Notes a slot with a partial since `first`, or with a cached result.
    #[inline]
    pub fn note(&mut self, now: u64, first: Option<u64>) {
        match first {
            Some(first) => {
                self.open += 1;
                self.oldest_ns = self.oldest_ns.max(now.saturating_sub(first));
            }
            None => self.done += 1,
        }
    }
}

impl Default for Surveyor {
    /// That of a pool without sets.
    fn default() -> Self {
        Self::new(0).0
    }
}

impl Surveyor {
    /// For an lcore that owns `sets` sets.
    #[must_use]
    pub fn new(sets: usize) -> (Self, Arc<Census>) {
        let sets_per_cell = sets.div_ceil(CENSUS_CELLS).max(1);
        let cells = sets.div_ceil(sets_per_cell);
        let census = Arc::new(Census {
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            oldest_ns: AtomicU64::new(0),
        });
        let found = Found::default();
        (Self { census: Arc::clone(&census), sets, sets_per_cell, at: 0, found, oldest_ns: 0 }, census)
    }

    /// How many of the next sets may be visited together: all of one cell, at most `most`, at least one.
    #[must_use]
    #[inline]
    pub fn sets_together(&self, most: usize) -> usize {
        let of_cell = self.sets_per_cell - self.at % self.sets_per_cell;
        of_cell.min(most).min(self.sets - self.at).max(1)
    }

    /// Notes the content of this many sets. Sets are visited in order, from the first one on, in cycles.
    #[inline]
    pub fn visited(&mut self, sets: usize, found: Found) {
        self.found.open += found.open;
        self.found.done += found.done;
        self.oldest_ns = self.oldest_ns.max(found.oldest_ns);
        let end = self.at + sets;
        let last = end >= self.sets;
        if last || end.is_multiple_of(self.sets_per_cell) {
            let Found { open, done, .. } = core::mem::take(&mut self.found);
            if let Some(cell) = self.census.cells.get((end - 1) / self.sets_per_cell) {
                cell.store(u64::from(open) << 32 | u64::from(done), Ordering::Relaxed);
            }
        }
        self.at = if last { 0 } else { end };
        if last {
            self.census.oldest_ns.store(core::mem::take(&mut self.oldest_ns), Ordering::Relaxed);
        }
    }
}

impl Census {
    /// Partials and cached results, by cell.
    pub fn cells(&self) -> impl Iterator<Item = (u32, u32)> {
        self.cells.iter().map(|cell| {
            let both = cell.load(Ordering::Relaxed);
            #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
            ((both >> 32) as u32, both as u32)
        })
    }

    /// Age of the oldest partial on the lcore's last whole round, in nanoseconds.
    #[must_use]
    pub fn oldest_ns(&self) -> u64 {
        self.oldest_ns.load(Ordering::Relaxed)
    }
}

/// Adds up the cells of several lcores.
#[must_use]
pub fn merge<'a>(lcores: impl IntoIterator<Item = &'a Census>) -> Vec<(u32, u32)> {
    let mut cells: Vec<(u32, u32)> = Vec::new();
    for census in lcores {
        cells.resize(census.cells.len().max(cells.len()), (0, 0));
        for (cell, (open, done)) in cells.iter_mut().zip(census.cells()) {
            *cell = (cell.0 + open, cell.1 + done);
        }
    }
    cells
}

#[cfg(test)]
mod tests;
