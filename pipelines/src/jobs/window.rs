//! Which PSNs of a generation can be under way: whatever names another never reaches the pool.
//!
//! Let *h* be the highest PSN that has a result, and S the job's window. By the spread rule (protocol,
//! section 10) no rank has sent a PSN beyond *h* + S, and none needs one that is 2 S or more behind: what a
//! rank asks for is among the S that others keep, the latest of which is at most S from *h*.
//!
//! Each lcore notes the highest result that it has given out in a place of its own. Two words that all lcores
//! read say which PSNs are admitted. They lag behind, so they are written rarely, and they err on the narrow
//! side only: a PSN that they do not admit is judged once more by what all lcores have noted.
//!
//! Updates of asynchronous jobs have numbers of their own for each rank, and each is to come in once: one
//! word for each rank says which of the latest ones have come.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// The parts of a window by which the shared words may lag behind an lcore's own results.
const STEPS: u32 = 8;
/// How far behind a rank's newest update a number is still taken for a late copy of one that has come. If it
/// is further off, one of the two was damaged on its way, and counting begins anew.
const LATE: u32 = 1024;

/// The PSNs that one generation of a job may have under way.
///
/// All that a packet or a result needs of it, beside its lcore's own end, is in one cache line. Lcores read
/// that line for every burst, and write it rarely.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct PsnWindow {
    /// Written by whichever lcore sees that they lag (`publish`).
    shared: Words,
    /// S; 0 where results change nothing.
    spread: u32,
    /// The oldest PSN that was admitted in the beginning.
    begin: u32,
    /// One past the highest result of each lcore that the shared words may not know of. Each is written by
    /// that lcore (`completed`), when it gives out a result, and by others where it has given out none for a
    /// quarter of all PSNs (`publish`); read by all, when the words do not admit a PSN. Nothing else is
    /// published by any of these fields, so no access needs an order.
    ends: Box<[CachePadded<AtomicU32>]>,
    /// For how many packets of a rank there is room further up, as far as results from there have said:
    /// written by lcores that learn of another number (`note_room_above`), read by those that give one out.
    room_above: AtomicU16,
    /// Of an asynchronous job, by rank: the number of the newest update, and below it a bit for each of the
    /// 32 up to it that have come. 0 before the first. Whichever lcore receives an update changes it.
    updates: Box<[AtomicU64]>,
}

const _: () = {
    assert!(size_of::<PsnWindow>() == 128);
    assert!(offset_of!(PsnWindow, updates) + size_of::<Box<[AtomicU64]>>() <= 64);
};

/// Written together, but read one by one: a mixture of two states admits no more than the later one.
#[derive(Debug)]
struct Words {
    first: AtomicU32,
    count: AtomicU32,
}

impl PsnWindow {
    /// The window of a generation whose ranks lack nothing before `oldest` and have no result from `next` on,
    /// where they run at most `spread` ahead; with results from so many lcores.
    #[must_use]
    pub fn new(oldest: u32, next: u32, spread: u16, lcores: usize) -> Self {
        let ends = (0..lcores).map(|_| CachePadded::new(AtomicU32::new(next))).collect();
        let window = Self { ends, spread: spread.max(1).into(), ..Self::fixed(oldest, 0) };
        window.publish(next);
        window
    }

    /// Admits every PSN.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::fixed(0, u32::MAX)
    }

    /// Admits no PSN: ranks are missing, and nobody has been told to go.
    #[must_use]
    pub fn closed() -> Self {
        Self::fixed(0, 0)
    }

    fn fixed(first: u32, count: u32) -> Self {
        let shared = Words { first: AtomicU32::new(first), count: AtomicU32::new(count) };
        Self {
            shared,
            spread: 0,
            begin: first,
            ends: Box::default(),
            room_above: AtomicU16::new(u16::MAX),
            updates: Box::default(),
        }
    }

    /// The same window, which also tells which updates of each of `ranks` ranks have come.
    #[must_use]
    pub fn with_updates(self, ranks: u16) -> Self {
        Self { updates: (0..ranks).map(|_| AtomicU64::new(0)).collect(), ..self }
    }

    /// Notes an update of a rank. False if it has come before, or is so late that it may have.
    pub(crate) fn is_first(&self, rank: u16, psn: u32) -> bool {
        let Some(come) = self.updates.get(usize::from(rank)) else { return true };
        // Tried again only while another lcore notes one of the same rank.
        come.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |come| noted(come, psn)).is_ok()
    }

    /// Takes note of the `wnd_cap` of a result from above.
    pub(crate) fn note_room_above(&self, packets: u16) {
        // A store takes the line away from all other lcores.
        if self.room_above() != packets {
            self.room_above.store(packets, Ordering::Relaxed);
        }
    }

    /// The last one noted.
    pub(crate) fn room_above(&self) -> u16 {
        self.room_above.load(Ordering::Relaxed)
    }

    /// S, or a usual one where there are no limits.
    #[must_use]
    pub const fn spread(&self) -> u32 {
        if self.spread > 0 { self.spread } else { 512 }
    }

    /// True if the PSN may be under way.
    #[must_use]
    #[inline(always)]
    pub fn has(&self, psn: u32) -> bool {
        self.admits_at_once(psn) || self.admits(psn)
    }

    /// True if the PSN was in flight and is further behind the highest result than ranks keep results: a rank
    /// without its result gets none, unless the appliance still has it.
    #[must_use]
    pub fn is_past(&self, psn: u32) -> bool {
        self.catch_up();
        let known = self.known();
        let behind = known.wrapping_sub(psn);
        self.spread > 0
            && (self.spread + 1..1 << 31).contains(&behind)
            && behind <= known.wrapping_sub(self.begin)
    }

    /// True if the shared words admit a PSN.
    #[inline(always)]
    pub(crate) fn admits_at_once(&self, psn: u32) -> bool {
        let Words { first, count } = &self.shared;
        psn.wrapping_sub(first.load(Ordering::Relaxed)) < count.load(Ordering::Relaxed)
    }

    /// True if a PSN is admitted after a look at what each lcore has noted.
    #[cold]
    #[inline(never)]
    fn admits(&self, psn: u32) -> bool {
        self.catch_up();
        self.admits_at_once(psn) || self.shared.count.load(Ordering::Relaxed) == u32::MAX
    }

    /// Has the shared words know what each lcore has noted.
    fn catch_up(&self) {
        let known = self.known();
        let ahead = |end: &CachePadded<AtomicU32>| end.load(Ordering::Relaxed).wrapping_sub(known);
        // What is beyond that was noted long ago, by an lcore that gives out no results any more.
        let news = self.ends.iter().map(ahead).filter(|&ahead| ahead <= 2 * self.spread).max();
        if let Some(ahead) = news.filter(|&ahead| ahead > 0) {
            self.publish(known.wrapping_add(ahead));
        }
    }

    /// Notes that an lcore gives out the result of a PSN.
    #[inline]
    pub fn completed(&self, lcore: usize, psn: u32) {
        let Some(own) = self.ends.get(lcore) else { return };
        let (end, known) = (psn.wrapping_add(1), self.known());
        // The next one of the lcore, of which the others need not know yet: as nearly always.
        let step = end.wrapping_sub(own.load(Ordering::Relaxed)).wrapping_sub(1);
        if step < self.spread && end.wrapping_sub(known) <= self.spread / STEPS {
            own.store(end, Ordering::Relaxed);
        } else {
            self.note(own, end, known);
        }
    }

    #[inline(never)]
    fn note(&self, own: &AtomicU32, end: u32, known: u32) {
        let (ahead, before) = (end.wrapping_sub(known), own.load(Ordering::Relaxed).wrapping_sub(known));
        // Nothing new, or nothing that can be.
        if ahead == 0 || ahead > 2 * self.spread {
            return;
        }
        if before < ahead || before > 2 * self.spread {
            own.store(end, Ordering::Relaxed);
        }
        if ahead > self.spread / STEPS {
            self.publish(end);
        }
    }

    /// One past the highest result that the shared words know of.
    fn known(&self) -> u32 {
        let Words { first, count } = &self.shared;
        first.load(Ordering::Relaxed).wrapping_add(count.load(Ordering::Relaxed)).wrapping_sub(self.spread)
    }

    /// Admits what may be under way where `end` is one past the highest result. What was too old stays so.
    fn publish(&self, end: u32) {
        let (first, behind) = (self.shared.first.load(Ordering::Relaxed), end.wrapping_sub(2 * self.spread));
        let first = if behind.wrapping_sub(first) < 1 << 31 { behind } else { first };
        self.shared.first.store(first, Ordering::Relaxed);
        self.shared.count.store(end.wrapping_add(self.spread).wrapping_sub(first), Ordering::Relaxed);
        // An lcore that gives out no results any more must not be taken for one that is ahead, once PSNs have
        // come round to what it noted.
        for own in &self.ends {
            let noted = own.load(Ordering::Relaxed);
            if (1 << 30..3 << 30).contains(&end.wrapping_sub(noted)) {
                let _ = own.compare_exchange(noted, end, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// What is known of a rank's updates after this one; `None` if it may be known already.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the word")]
fn noted(come: u64, psn: u32) -> Option<u64> {
    let (newest, bits) = ((come >> 32) as u32, come as u32);
    let (ahead, behind) = (psn.wrapping_sub(newest), newest.wrapping_sub(psn));
    let word = |newest: u32, bits: u32| u64::from(newest) << 32 | u64::from(bits);
    if bits == 0 || (behind > LATE && ahead >= u32::BITS) {
        Some(word(psn, 1))
    } else if behind < u32::BITS {
        (bits >> behind & 1 == 0).then(|| word(newest, bits | 1 << behind))
    } else if ahead < u32::BITS {
        Some(word(psn, bits << ahead | 1))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
