//! The choice between the slots of a set.

use pascaline_buffer::PacketBuf;
use wide::{i16x8, u16x8};

use crate::key::{Key, Tag};
use crate::policy::ConflictPolicy;
use crate::request::Request;
use crate::sink::{Aggregate, Cause, Refusal};
use crate::slot::{Hold, Slot};

/// Slots a set may have.
pub(crate) const MAX_WAYS: usize = 8;

/// What is looked at before any slot: the short forms of the keys, and which slots are in use. A cache line
/// together with nothing else.
pub(crate) struct Directory {
    tags: [u16; MAX_WAYS],
    /// In what order kept results were last of use, by the value of `uses` then.
    stamps: [u16; MAX_WAYS],
    /// When partials were opened, in units of [`TICK`], wrapping after a minute.
    opened: [u16; MAX_WAYS],
    uses: u16,
    used: u8,
    /// Ways with a kept result.
    results: u8,
}

/// Nanoseconds, as a power of two: about a millisecond.
const TICK: u32 = 20;

/// Time in units of [`TICK`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
const fn ticks(nanos: u64) -> u16 {
    (nanos >> TICK) as u16
}

/// The age from which on a partial may have to go, in units of [`TICK`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(u16);

impl Limit {
    /// So many nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "at most half of what 16 bits hold")]
    pub(crate) const fn of(nanos: u64) -> Self {
        const MOST: u64 = 1 << 15;
        // A longer limit is as good as half a minute: who is older than that is looked at.
        let ticks = nanos >> TICK;
        Self(if ticks < MOST { ticks } else { MOST } as u16)
    }
}

/// The slots of a set, in the hands of the session that is at home there.
pub(crate) struct Set<'a, B: PacketBuf, const WORDS: usize> {
    pub(crate) directory: &'a mut Directory,
    pub(crate) slots: &'a mut [Slot<B, WORDS>],
}

/// What becomes of a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It gets this way; if something is there, it goes for this cause.
    Way(usize, Cause),
    /// It gets none.
    None(Refusal),
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
        Self {
            tags: [0; MAX_WAYS],
            stamps: [0; MAX_WAYS],
            opened: [0; MAX_WAYS],
            uses: 0,
            used: 0,
            results: 0,
        }
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

impl Directory {
    /// The ways that may hold a key with this tag, a bit for each.
    #[inline(always)]
    fn candidates(&self, tag: Tag) -> u8 {
        // All tags at once, whatever the number of ways.
        let tags = i16x8::new(self.tags.map(u16::cast_signed));
        let equal = tags.simd_eq(i16x8::splat(tag.0.cast_signed())).to_bitmask();
        #[expect(clippy::cast_possible_truncation, reason = "eight ways, eight bits")]
        let equal = equal as u8;
        equal & self.used
    }

    /// True if no key with this tag is here.
    #[inline(always)]
    pub(crate) fn misses(&self, tag: Tag) -> bool {
        self.candidates(tag) == 0
    }

    /// The way that holds the key with this tag, or else the one that it will get, very likely; of so many ways.
    #[inline(always)]
    pub(crate) fn likely(&self, tag: Tag, ways: usize) -> usize {
        match self.candidates(tag) {
            0 => self.for_another(ways),
            candidates => candidates.trailing_zeros() as usize,
        }
    }

    /// The way that another key will get, very likely.
    fn for_another(&self, ways: usize) -> usize {
        self.empty(ways).or_else(|| self.oldest_result()).unwrap_or(0)
    }

    /// True if a key with this tag, which is not here, would get this way without much ado: it holds no partial, and no partial
    /// that might have to go first is older than the limit. Partials need not be looked at for that, which
    /// would be a cache line for each; one that is a minute older than the limit passes for a young one now and then.
    #[inline(always)]
    pub(crate) fn is_free_for(&self, tag: Tag, way: usize, now: u64, limit: Limit) -> bool {
        // All ways at once, since which ones are open is nothing that a processor can predict.
        let ages = u16x8::splat(ticks(now)) - u16x8::new(self.opened);
        let old = u16x8::splat(limit.0).saturating_sub(ages).simd_eq(u16x8::ZERO).to_bitmask();
        let open = u32::from(self.used & !self.results);
        (old | 1 << (way % MAX_WAYS)) & open == 0 && self.candidates(tag) == 0
    }

    /// Notes that a way, which is empty now or held a result, is about to hold a key with this tag.
    #[inline(always)]
    pub(crate) fn occupy(&mut self, tag: Tag, way: usize, now: u64) {
        let way = way % MAX_WAYS;
        self.opened[way] = ticks(now);
        self.tags[way] = tag.0;
        self.used |= 1 << way;
        self.results &= !(1 << way);
    }

    /// Notes that a way is empty.
    pub(crate) fn vacated(&mut self, way: usize) {
        self.used &= !(1 << way);
        self.results &= !(1 << way);
    }

    /// An empty one of so many ways.
    #[inline]
    fn empty(&self, ways: usize) -> Option<usize> {
        let empty = (!self.used).trailing_zeros() as usize;
        (empty < ways).then_some(empty)
    }
}

impl<B: PacketBuf, const WORDS: usize> Set<'_, B, WORDS> {
    /// The way that holds the key.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<usize> {
        let mut candidates = self.directory.candidates(key.tag());
        while candidates != 0 {
            let way = candidates.trailing_zeros() as usize;
            if self.slots.get(way).is_some_and(|slot| slot.key() == key) {
                return Some(way);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// An empty way.
    #[inline]
    fn empty(&self) -> Option<usize> {
        self.directory.empty(self.slots.len())
    }

    /// The way for a newcomer. `age_limit` is the number of nanoseconds after which a partial must yield to another PSN.
    pub(crate) fn choose(&mut self, request: &Request, age_limit: u64) -> Choice {
        if request.rules.region() {
            return self.choose_in_region(request.key, request.now, age_limit);
        }
        if let Some(way) = self.empty() {
            return Choice::Way(way, Cause::Age);
        }
        let mut best: Option<((Claim, u64), usize)> = None;
        for way in self.open_ways() {
            let Some(slot) = self.slots.get(way) else { break };
            let (age, idle) = (request.now.saturating_sub(slot.first()), u64::from(slot.idle(request.now)));
            let claim = if slot.is_abandoned(request.now, age_limit) {
                (Claim::Abandoned, idle)
            } else if age > age_limit {
                (Claim::Old, age)
            } else {
                continue;
            };
            if best.is_none_or(|(most, _)| claim > most) {
                best = Some((claim, way));
            }
        }
        let by_age = match best {
            Some(((Claim::Abandoned, _), way)) => Some(way),
            other => self.directory.oldest_result().or(other.map(|(_, way)| way)),
        };
        match by_age {
            Some(way) => Choice::Way(way, Cause::Age),
            None => self.contend(request),
        }
    }

    /// All ways hold partials that are not old: the job's policy decides.
    fn contend(&mut self, request: &Request) -> Choice {
        // Only what can be finished by the parameter server is taken from its slot.
        let contested = self.open_ways().filter_map(|way| Some((way, self.slots.get(way)?)));
        let contested = contested.filter(|(_, slot)| slot.has_server());
        let oldest = |contested: &mut dyn Iterator<Item = (usize, &Slot<B, WORDS>)>| {
            contested.max_by_key(|(_, slot)| slot.idle(request.now)).map(|(way, _)| way)
        };
        let mut contested = contested;
        let won = match request.rules.conflict() {
            ConflictPolicy::FirstCome => None,
            ConflictPolicy::Always => oldest(&mut contested),
            ConflictPolicy::Coin => oldest(&mut contested).filter(|_| request.key.coin(request.now)),
            ConflictPolicy::Preempt => {
                let least = contested.min_by_key(|(_, slot)| slot.priority).map(|(way, _)| way);
                match least.and_then(|way| Some((way, self.slots.get_mut(way)?))) {
                    Some((way, holder)) if request.priority > holder.priority => Some(way),
                    Some((_, holder)) => {
                        holder.priority /= 2;
                        None
                    }
                    None => None,
                }
            }
        };
        won.map_or(Choice::None(Refusal::Conflict), |way| Choice::Way(way, Cause::Preempted))
    }

    /// In a region a place belongs to one PSN after the other, and the ways hold the latest of them. One that is older than
    /// all of them has had its result, and must not get another: this is what makes it safe to complete a PSN without all
    /// ranks. (SwitchML alternates between two versions of a slot for the same end.)
    ///
    /// Nor does a partial that somebody waits for go: only an abandoned one, which a late duplicate leaves behind when it meets
    /// a way from which a partial has just been fetched.
    pub(crate) fn choose_in_region(&self, key: Key, now: u64, age_limit: u64) -> Choice {
        let outdated = |other: Key| (other.job(), other.epoch()) != (key.job(), key.epoch());
        if let Some(way) = self.empty() {
            return Choice::Way(way, Cause::Age);
        }
        let mut oldest: Option<(usize, &Slot<B, WORDS>)> = None;
        for (way, slot) in self.slots.iter().enumerate() {
            if outdated(slot.key()) {
                return Choice::Way(way, Cause::Age);
            }
            if oldest.is_none_or(|(_, least)| slot.key().is_before(least.key())) {
                oldest = Some((way, slot));
            }
        }
        match oldest {
            Some((_, slot)) if key.is_before(slot.key()) => Choice::None(Refusal::Stale),
            Some((way, slot)) if !slot.is_partial() || slot.is_abandoned(now, age_limit) => {
                Choice::Way(way, Cause::Age)
            }
            _ => Choice::None(Refusal::Conflict),
        }
    }

    /// The ways that hold partials.
    fn open_ways(&self) -> impl Iterator<Item = usize> + use<B, WORDS> {
        ways(self.directory.used & !self.directory.results)
    }

    /// The ways that hold something.
    pub(crate) fn used_ways(&self) -> impl Iterator<Item = usize> + use<B, WORDS> {
        ways(self.directory.used)
    }

    /// Notes that a way, which is empty now, is about to hold this key.
    #[inline]
    pub(crate) fn occupy(&mut self, way: usize, key: Key, now: u64) {
        self.directory.occupy(key.tag(), way, now);
    }

    /// Notes that a way is empty.
    pub(crate) fn vacated(&mut self, way: usize) {
        self.directory.vacated(way);
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
}

/// The ways whose bits are set.
fn ways(mut bits: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let way = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (way < MAX_WAYS).then_some(way)
    })
}
