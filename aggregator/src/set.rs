//! The choice between the slots of a set.

use pascaline_buffer::PacketBuf;
use wide::u32x8;

use crate::key::Key;
use crate::sink::{Aggregate, Displaced};
use crate::slot::{Hold, MICRO, Slot};

/// Slots a set may have.
pub(crate) const MAX_WAYS: usize = 8;

/// What is looked at before any slot: the short forms of the keys, and which slots are in use. Shares a cache line
/// with the set's owner word.
pub(crate) struct Directory {
    tags: [u32; MAX_WAYS],
    /// In what order kept results were last of use, by the value of `uses` then.
    stamps: [u16; MAX_WAYS],
    uses: u16,
    used: u8,
    /// Ways with a kept result.
    results: u8,
}

/// The slots of a set, owned for the moment.
pub(crate) struct Set<'a, B: PacketBuf, const WORDS: usize> {
    pub(crate) directory: &'a mut Directory,
    pub(crate) slots: &'a mut [Slot<B, WORDS>],
}

/// What a slot held, and for which PSN.
pub(crate) type Vacated<B> = (Key, Displaced<B>);

/// What a newcomer may displace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Displacement {
    /// Time now, in nanoseconds.
    pub(crate) now: u64,
    /// Nanoseconds after which a partial must yield to another PSN.
    pub(crate) age_limit: u64,
}

/// Which partials may go for a newcomer's sake: the old ones after kept results, the abandoned ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// A partial older than the age limit that ranks still send to or ask for.
    Old,
    /// A partial that nobody has sent to or asked for since the age limit. A late duplicate leaves one behind when it
    /// arrives after its result has been displaced. Were results to go first, such partials would fill the ways of a
    /// set one after the other, and would still be there when the PSN comes round again.
    Abandoned,
}

impl Directory {
    pub(crate) const fn new() -> Self {
        Self { tags: [0; MAX_WAYS], stamps: [0; MAX_WAYS], uses: 0, used: 0, results: 0 }
    }

    /// Notes that a way has a kept result that is of use now.
    #[inline]
    pub(crate) fn use_result(&mut self, way: usize) {
        self.uses = self.uses.wrapping_add(1);
        if let Some(stamp) = self.stamps.get_mut(way) {
            *stamp = self.uses;
            self.results |= 1 << way;
        }
    }

    /// The way with the kept result that has been out of use longest.
    ///
    /// Nothing is asked of the slots, since each is a cache line. After 65,536 uses of its neighbours a result may pass
    /// for a younger one; in a set of eight that is harmless.
    #[inline]
    fn oldest_result(&self) -> Option<usize> {
        let mut best = None;
        let mut left = self.results;
        while left != 0 {
            let way = left.trailing_zeros() as usize;
            let unused = self.uses.wrapping_sub(self.stamps[way]);
            if best.is_none_or(|(most, _)| unused > most) {
                best = Some((unused, way));
            }
            left &= left - 1;
        }
        best.map(|(_, way)| way)
    }
}

impl<B: PacketBuf, const WORDS: usize> Set<'_, B, WORDS> {
    /// The way that holds the key.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<usize> {
        let mut candidates = self.candidates(key);
        while candidates != 0 {
            let way = candidates.trailing_zeros() as usize;
            if self.slots.get(way).is_some_and(|slot| slot.key == key) {
                return Some(way);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// The ways that may hold the key, a bit for each, judged by the directory alone.
    #[inline]
    fn candidates(&self, key: Key) -> u8 {
        // All tags at once, whatever the number of ways.
        let tags = u32x8::new(self.directory.tags);
        let equal = tags.simd_eq(u32x8::splat(key.tag())).to_bitmask();
        #[expect(clippy::cast_possible_truncation, reason = "eight ways, eight bits")]
        let equal = equal as u8;
        equal & self.directory.used
    }

    /// The way that holds the key, or else the one that it will get, very likely; judged without looking at a slot.
    #[inline]
    pub(crate) fn likely(&self, key: Key) -> usize {
        match self.candidates(key) {
            0 => self.empty().or_else(|| self.directory.oldest_result()).unwrap_or(0),
            candidates => candidates.trailing_zeros() as usize,
        }
    }

    /// An empty way.
    #[inline]
    fn empty(&self) -> Option<usize> {
        let empty = (!self.directory.used).trailing_zeros() as usize;
        (empty < self.slots.len()).then_some(empty)
    }

    /// A way for a new key; what had to go from it comes with it.
    pub(crate) fn claim(&mut self, key: Key, rule: Displacement) -> Option<(usize, Option<Vacated<B>>)> {
        let way = self.choose(rule)?;
        let displaced = self.vacate(way);
        self.directory.tags[way] = key.tag();
        self.directory.used |= 1 << way;
        Some((way, displaced))
    }

    /// An empty way, else the one with the best claim to be vacated; within a claim, the one longest so.
    fn choose(&self, rule: Displacement) -> Option<usize> {
        if let Some(way) = self.empty() {
            return Some(way);
        }
        let mut best: Option<((Claim, u64), usize)> = None;
        let mut open = self.directory.used & !self.directory.results;
        while open != 0 {
            let way = open.trailing_zeros() as usize;
            open &= open - 1;
            let Some(slot) = self.slots.get(way) else { break };
            let (age, idle) = (rule.now.saturating_sub(slot.first), u64::from(slot.idle(rule.now)));
            let claim = if idle > rule.age_limit.div_ceil(MICRO) {
                (Claim::Abandoned, idle)
            } else if age > rule.age_limit {
                (Claim::Old, age)
            } else {
                continue;
            };
            if best.is_none_or(|(most, _)| claim > most) {
                best = Some((claim, way));
            }
        }
        match best {
            Some(((Claim::Abandoned, _), way)) => Some(way),
            other => self.directory.oldest_result().or(other.map(|(_, way)| way)),
        }
    }

    /// The kept result of a way, if there is one. Being asked for makes it young again.
    pub(crate) fn kept(&mut self, way: usize, now: u64) -> Option<Aggregate<'_, B::Shared>> {
        let slot = self.slots.get_mut(way)?;
        if let Hold::Done(_) = slot.hold {
            self.directory.use_result(way);
            slot.touch(now);
        }
        slot.aggregate()
    }

    /// Empties a way.
    pub(crate) fn vacate(&mut self, way: usize) -> Option<Vacated<B>> {
        let slot = self.slots.get_mut(way)?;
        self.directory.used &= !(1 << way);
        self.directory.results &= !(1 << way);
        let what = match core::mem::replace(&mut slot.hold, Hold::Empty) {
            Hold::Empty => return None,
            Hold::Done(_) => Displaced::Result,
            Hold::Open(partial) => Displaced::Partial(partial),
        };
        Some((slot.key, what))
    }
}
