//! Where every contribution is, as the events tell it.

use std::collections::{BTreeSet, HashMap};

use pascaline_aggregator::{Key, Rejection};
use proptest::prelude::*;

use crate::common::{Event, Known, Sum};

pub(crate) type Ranks = BTreeSet<u16>;

/// What an event does to contributions.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    /// A partial has taken one in, and has this many now.
    TakenIn { inside: usize },
    /// A partial of these has become a result.
    Made { sum: Sum, ranks: Ranks },
    /// A result of these is given once more.
    Given { sum: Sum, ranks: Ranks },
    /// A partial of these has left the pool.
    Out { ranks: Ranks },
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) partials: HashMap<Key, Ranks>,
    pub(crate) results: HashMap<Key, Ranks>,
}

impl Ledger {
    /// Contributions in partials.
    pub(crate) fn inside(&self) -> usize {
        self.partials.values().map(BTreeSet::len).sum()
    }

    pub(crate) fn partials_of(&self, job: u16) -> usize {
        self.partials.keys().filter(|key| key.job() == job).count()
    }

    /// Follows an event. It is an error if it cannot be: it is about what is not there, or twice.
    pub(crate) fn follow(&mut self, event: &Event) -> Result<Option<Move>, TestCaseError> {
        Ok(match event {
            Event::Opened(who) => {
                prop_assert!(!self.results.contains_key(&who.key), "there is a result");
                let before = self.partials.insert(who.key, Ranks::from([who.rank]));
                prop_assert_eq!(before, None, "there is a partial");
                Some(Move::TakenIn { inside: 1 })
            }
            Event::Added(who) => {
                let Some(partial) = self.partials.get_mut(&who.key) else {
                    return Err(TestCaseError::fail("added to nothing"));
                };
                prop_assert!(partial.insert(who.rank), "a second time");
                Some(Move::TakenIn { inside: partial.len() })
            }
            Event::Completed { who, alone, sum } => {
                let before = self.partials.remove(&who.key);
                prop_assert_eq!(before.is_none(), *alone);
                let mut ranks = before.unwrap_or_default();
                prop_assert!(ranks.insert(who.rank), "a second time");
                Some(self.made(sum, ranks)?)
            }
            Event::Released(sum) => {
                let Some(ranks) = self.partials.remove(&sum.key) else {
                    return Err(TestCaseError::fail("released from nothing"));
                };
                Some(self.made(sum, ranks)?)
            }
            Event::Replayed(_, sum)
            | Event::Reminded(_, Known::Cached(sum))
            | Event::Fetched(_, Some(sum)) => {
                let Some(ranks) = self.results.get(&sum.key).cloned() else {
                    return Err(TestCaseError::fail("given from nothing"));
                };
                Some(Move::Given { sum: sum.clone(), ranks })
            }
            Event::Installed { sum, .. } => {
                let ranks = ranks_inside(sum);
                prop_assert!(!self.partials.contains_key(&sum.key), "it takes a partial's place");
                prop_assert_eq!(self.results.insert(sum.key, ranks.clone()), None);
                Some(Move::Given { sum: sum.clone(), ranks })
            }
            Event::PassedOn { sum, .. } => Some(Move::Given { sum: sum.clone(), ranks: ranks_inside(sum) }),
            Event::EvictedPartial(key) | Event::Originals { key, .. } => Some(self.out(*key)?),
            Event::Evicted { sum, .. } => Some(self.out(sum.key)?),
            other => {
                self.leaves_all(other)?;
                None
            }
        })
    }

    /// Follows an event that moves no contribution.
    fn leaves_all(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let partial = |key| self.partials.get(key);
        let unknown = |key| !self.partials.contains_key(key) && !self.results.contains_key(key);
        match event {
            Event::Reminded(who, Known::Partial(inside)) => {
                prop_assert!(partial(&who.key).is_some_and(|ranks| ranks.iter().eq(inside)));
            }
            Event::Reminded(who, Known::Recently) => prop_assert!(partial(&who.key).is_some()),
            Event::Reminded(who, Known::Unknown) | Event::Fetched(who, None) => {
                prop_assert!(unknown(&who.key));
            }
            Event::Rejected(who, Rejection::Duplicate) => {
                let inside = partial(&who.key).is_some_and(|ranks| ranks.contains(&who.rank));
                prop_assert!(inside || self.results.contains_key(&who.key), "a duplicate of nothing");
            }
            Event::Rejected(
                who,
                Rejection::Stale | Rejection::Conflict | Rejection::Quota | Rejection::UnknownPsn,
            ) => prop_assert!(unknown(&who.key)),
            Event::EvictedResult(key) => {
                prop_assert!(self.results.remove(key).is_some(), "no result to displace");
            }
            Event::Rejected(..) | Event::Obeyed(_) => {}
            Event::HandedOff => return Err(TestCaseError::fail("there is only one lcore")),
            other => return Err(TestCaseError::fail(format!("{other:?} moves contributions"))),
        }
        Ok(())
    }

    fn made(&mut self, sum: &Sum, ranks: Ranks) -> Result<Move, TestCaseError> {
        prop_assert_eq!(self.results.insert(sum.key, ranks.clone()), None, "there is a result");
        Ok(Move::Made { sum: sum.clone(), ranks })
    }

    fn out(&mut self, key: Key) -> Result<Move, TestCaseError> {
        match self.partials.remove(&key) {
            Some(ranks) => Ok(Move::Out { ranks }),
            None => Err(TestCaseError::fail("no partial to displace")),
        }
    }
}

/// The ranks that a result from elsewhere says are inside.
fn ranks_inside(sum: &Sum) -> Ranks {
    sum.inside.as_ref().map_or_else(|| (0..sum.fan_in).collect(), |inside| inside.iter().copied().collect())
}
