//! The choice between the slots of a set.

use pascaline_buffer::PacketBuf;

use crate::key::Key;
use crate::sink::Displaced;
use crate::slot::{Hold, MICRO, Slot};

/// Slots a set may have.
pub(crate) const MAX_WAYS: usize = 8;

/// What is looked at before any slot: the short forms of the keys, and which slots are in use. Shares a cache line
/// with the set's owner word.
pub(crate) struct Directory {
    tags: [u32; MAX_WAYS],
    used: u8,
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

/// What may go for a newcomer's sake, the last first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// A partial older than the age limit that ranks still send to or ask for.
    Old,
    /// A kept result.
    Result,
    /// A partial that nobody has sent to or asked for since the age limit. A late duplicate leaves one behind when it
    /// arrives after its result has been displaced. Were results to go first, such partials would fill the ways of a
    /// set one after the other, and would still be there when the PSN comes round again.
    Abandoned,
}

impl Directory {
    pub(crate) const fn new() -> Self {
        Self { tags: [0; MAX_WAYS], used: 0 }
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
        let tag = key.tag();
        // All tags at once, whatever the number of ways: eight compares in one register.
        let mut equal = 0u8;
        for (way, &other) in self.directory.tags.iter().enumerate() {
            equal |= u8::from(other == tag) << way;
        }
        equal & self.directory.used
    }

    /// The way that holds the key, very likely; judged without looking at a slot.
    #[inline]
    pub(crate) fn likely(&self, key: Key) -> Option<usize> {
        let candidates = self.candidates(key);
        (candidates != 0).then(|| candidates.trailing_zeros() as usize)
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
        let mut best: Option<((Claim, u64), usize)> = None;
        for (way, slot) in self.slots.iter().enumerate() {
            let idle = slot.idle(rule.now);
            let claim = match slot.hold {
                Hold::Empty => return Some(way),
                Hold::Done(_) => (Claim::Result, u64::from(idle)),
                Hold::Open(_) => {
                    let age = rule.now.saturating_sub(slot.first);
                    if u64::from(idle) > rule.age_limit.div_ceil(MICRO) {
                        (Claim::Abandoned, u64::from(idle))
                    } else if age > rule.age_limit {
                        (Claim::Old, age)
                    } else {
                        continue;
                    }
                }
            };
            if best.is_none_or(|(most, _)| claim > most) {
                best = Some((claim, way));
            }
        }
        best.map(|(_, way)| way)
    }

    /// Empties a way.
    pub(crate) fn vacate(&mut self, way: usize) -> Option<Vacated<B>> {
        let slot = self.slots.get_mut(way)?;
        self.directory.used &= !(1 << way);
        let what = match core::mem::replace(&mut slot.hold, Hold::Empty) {
            Hold::Empty => return None,
            Hold::Done(_) => Displaced::Result,
            Hold::Open(partial) => Displaced::Partial(partial),
        };
        Some((slot.key, what))
    }
}
