//! The choice between the slots of a set.

mod directory;
mod fair;

use pascaline_buffer::PacketBuf;

use crate::key::Key;
use crate::policy::ConflictPolicy;
use crate::request::{Request, Verb};
use crate::sabotage::Sabotage;
use crate::share::Shares;
use crate::sink::{Aggregate, Cause, Rejection};
use crate::slot::Slot;

pub(crate) use directory::{Directory, Limit};
use fair::Claims;
pub(crate) use fair::may_replace;

/// A result that is older than this part of the age limit may be replaced by any PSN that needs its slot.
const RESULTS: u64 = 8;
/// Slots a set may have.
pub(crate) const MAX_WAYS: usize = 8;

/// The slots of a set, lent by its owner.
pub(crate) struct Set<'a, B: PacketBuf, const WORDS: usize> {
    pub(crate) directory: &'a mut Directory,
    pub(crate) slots: &'a mut [Slot<B, WORDS>],
    /// Its number among those of its owner.
    pub(crate) number: usize,
    pub(crate) shares: &'a Shares,
}

/// The place of a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This way; its content is evicted for this cause.
    Way(usize, Cause),
    /// None.
    Rejected(Rejection),
}

/// Which partials a newcomer may evict: the old ones after cached results, the abandoned ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// A partial older than the age limit that ranks still send to or ask for.
    Old,
    /// A partial that has received no packet or request within the age limit. A late duplicate leaves one
    /// behind when its result has been evicted. If results went first, such partials would fill the ways of a
    /// set one after the other, and would still be there when the PSN comes round again.
    Abandoned,
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

    /// The way for a newcomer. After `age_limit` nanoseconds a partial must yield to another PSN.
    pub(crate) fn choose(&mut self, request: &Request, age_limit: u64) -> Choice {
        if request.rules.region() {
            return self.choose_in_region(request.key, request.now, age_limit);
        }
        if let Some(way) = self.directory.empty(self.slots.len()) {
            return Choice::Way(way, Cause::Age);
        }
        if Sabotage::SlotNeverFreed.is_on() {
            return Choice::Rejected(Rejection::Conflict);
        }
        if Sabotage::WrongVictim.is_on()
            && let Some(way) = self.directory.open_ways().next()
        {
            return Choice::Way(way, Cause::Age);
        }
        // A result outlives the loss of one packet or two, and with that its use.
        let idle = Limit::of(age_limit / RESULTS);
        let claims = request.rules.tenant().map(|tenant| self.claims(tenant, request.now, idle));
        let claims = claims.unwrap_or(Claims::ALL);
        if let Some(way) = self.by_age(request, age_limit, claims.by_age) {
            return Choice::Way(way, Cause::Age);
        }
        // A result evicts no partial that is still wanted.
        if request.verb == Verb::Add
            && let Some(way) = self.given_back(claims.back, request.now)
        {
            return Choice::Way(way, Cause::Share);
        }
        self.contend(request, &claims)
    }

    /// The way to be evicted by age: among these, or with a partial that its job has abandoned, whose share
    /// it may be.
    fn by_age(&self, request: &Request, age_limit: u64, among: u8) -> Option<usize> {
        let mut best: Option<((Claim, u64), usize)> = None;
        for way in self.directory.open_ways() {
            let Some(slot) = self.slots.get(way) else { break };
            let (age, idle) = (request.now.saturating_sub(slot.first()), u64::from(slot.idle(request.now)));
            let claim = if slot.is_abandoned(request.now, age_limit) {
                (Claim::Abandoned, idle)
            } else if age > age_limit && among & 1 << way != 0 {
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
            other => self.directory.longest_idle_among(among).or(other.map(|(_, way)| way)),
        }
    }

    /// All ways that the newcomer may have hold partials that are not old: the job's policy decides.
    fn contend(&mut self, request: &Request, claims: &Claims) -> Choice {
        // Only partials that the parameter server can finish are evicted.
        let held = |way: usize| Some((way, self.slots.get(way)?));
        let may = |&way: &usize| claims.contested & 1 << way != 0;
        let mut contested =
            self.directory.open_ways().filter(may).filter_map(held).filter(|(_, slot)| slot.has_server());
        let longest_idle = |contested: &mut dyn Iterator<Item = (usize, &Slot<B, WORDS>)>| {
            contested.max_by_key(|(_, slot)| slot.idle(request.now)).map(|(way, _)| way)
        };
        let won = match request.rules.conflict() {
            ConflictPolicy::FirstCome => None,
            ConflictPolicy::Always => longest_idle(&mut contested),
            ConflictPolicy::Coin => longest_idle(&mut contested).filter(|_| request.key.coin(request.now)),
            ConflictPolicy::Preempt => {
                let least = contested.min_by_key(|(_, slot)| slot.priority()).map(|(way, _)| way);
                match least.and_then(|way| Some((way, self.slots.get_mut(way)?))) {
                    Some((way, holder)) if request.priority > holder.priority() => Some(way),
                    Some((_, holder)) => {
                        holder.halve_priority();
                        None
                    }
                    None => None,
                }
            }
        };
        let why = if claims.limited { Rejection::Share } else { Rejection::Conflict };
        let lost = Choice::Rejected(why);
        won.map_or(lost, |way| Choice::Way(way, Cause::Preempted))
    }

    /// In a region a place belongs to one PSN after the other, and the ways hold the latest of them. A PSN
    /// older than all of them has had its result and must not get another, so it is safe to complete a PSN
    /// without all ranks. (SwitchML, section 3.5, alternates between two versions of a slot for the same
    /// end.)
    ///
    /// A partial that a rank waits for is not evicted either. An abandoned one does: a late duplicate leaves
    /// it behind when it meets a way from which a partial has just been fetched.
    pub(crate) fn choose_in_region(&self, key: Key, now: u64, age_limit: u64) -> Choice {
        let later = |other: Key| {
            let generations = other.generation().wrapping_sub(key.generation());
            if other.job() == key.job() { generations } else { u8::MAX }
        };
        if let Some(way) = self.directory.empty(self.slots.len()) {
            return Choice::Way(way, Cause::Age);
        }
        let mut first: Option<(usize, &Slot<B, WORDS>)> = None;
        for (way, slot) in self.slots.iter().enumerate() {
            match later(slot.key()) {
                0 => {}
                // Handed off by an lcore with the former generation. Numbers far apart tell nothing.
                1..8 => return Choice::Rejected(Rejection::Stale),
                _ => return Choice::Way(way, Cause::Age),
            }
            if first.is_none_or(|(_, least)| slot.key().is_before(least.key())) {
                first = Some((way, slot));
            }
        }
        match first {
            Some((_, slot)) if key.is_before(slot.key()) => Choice::Rejected(Rejection::Stale),
            Some((way, slot)) if !slot.is_partial() || slot.is_abandoned(now, age_limit) => {
                Choice::Way(way, Cause::Age)
            }
            Some(_) | None => Choice::Rejected(Rejection::Conflict),
        }
    }

    /// Notes that a way is empty.
    pub(crate) fn vacated(&mut self, way: usize) {
        self.directory.vacated(way);
    }

    /// The cached result of a way, if there is one. A request makes it young again.
    pub(crate) fn cached(&mut self, way: usize, now: u64) -> Option<Aggregate<'_, B::Shared>> {
        let slot = self.slots.get_mut(way)?;
        if slot.is_done() {
            self.directory.use_result(way);
            slot.touch(now);
        }
        slot.aggregate()
    }
}
