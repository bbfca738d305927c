//! The pool's invariants under every mixture of policies, with random jobs and traces. Only what comes out
//! of the pool counts. Numbers are those of the design.

mod ledger;
mod plan;
mod world;

use std::collections::{BTreeMap, HashMap};

use ledger::{Move, Ranks};
use pascaline_aggregator::{Key, Rejection, Verb};
use plan::{AGE_LIMIT, Plan, Step, plans, steps};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use world::{Ask, Turn, World, ranks_of};

use crate::common::{Event, Parcel};

/// Plays a trace and has every turn judged.
fn play<const WORDS: usize>(
    plan: &Plan,
    steps: &[Step],
    mut judge: impl FnMut(&World<WORDS>, &Turn) -> Result<(), TestCaseError>,
) -> Result<World<WORDS>, TestCaseError> {
    let mut world = World::new(plan);
    for step in steps {
        for request in world.requests(step) {
            let turn = world.turn(request)?;
            judge(&world, &turn)?;
        }
    }
    Ok(world)
}

fn entered_at_most_once<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    play::<WORDS>(plan, steps, |world, turn| {
        for (_, passage) in &turn.moves {
            let (Move::Made { sum, ranks } | Move::Given { sum, ranks }) = passage else { continue };
            let found = ranks_of(sum, world.job(sum.key));
            prop_assert_eq!(found.as_ref(), Some(ranks), "once each, and no others: {:?}", sum);
        }
        Ok(())
    })?;
    Ok(())
}

fn complete_and_exact<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut made = HashMap::<Key, Ranks>::new();
    play::<WORDS>(plan, steps, |world, turn| {
        for (event, passage) in &turn.moves {
            if let Move::Made { sum, ranks } | Move::Given { sum, ranks } = passage {
                let all = ranks.len() == usize::from(sum.fan_in);
                prop_assert_eq!(usize::from(sum.count), ranks.len());
                prop_assert_eq!(&sum.inside, &(!all).then(|| ranks.iter().copied().collect::<Vec<_>>()));
            }
            let request = turn.request();
            // What the job needs holds for PSNs of as many ranks as it has.
            let counts = request.is_some_and(|request| request.fan_in == request.job_fan_in);
            match (event, passage) {
                (Event::Completed { .. }, Move::Made { ranks, .. }) => {
                    let request = request.unwrap();
                    let enough = usize::from(if counts { request.needed } else { request.fan_in });
                    prop_assert!(ranks.len() >= enough, "{:?}", request);
                }
                (Event::Opened(_) | Event::Added(_), Move::TakenIn { inside, .. }) => {
                    let waits = *inside < usize::from(request.unwrap().needed);
                    prop_assert!(waits || !counts, "complete, and does not say so");
                }
                (Event::Released(sum), _) => match request {
                    None => {}
                    Some(request) => {
                        let asked_for = request.verb == Verb::Release;
                        prop_assert!(asked_for || sum.count >= request.needed, "{:?}", request);
                    }
                },
                _ => {}
            }
            // Where a PSN may be complete without all ranks, all get the same result.
            if let Move::Made { sum, ranks } = passage
                && world.plan.jobs[usize::from(sum.key.job())].may_be_partial()
            {
                let before = made.insert(sum.key, ranks.clone());
                prop_assert_eq!(before, None, "a second result of {:?}", sum.key);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// The sums at a parameter server: it accepts a contribution that does not overlap with them.
#[derive(Default)]
struct Server(HashMap<Key, Ranks>);

impl Server {
    fn take(&mut self, key: Key, ranks: &Ranks) {
        let known = self.0.entry(key).or_default();
        if known.is_disjoint(ranks) {
            known.extend(ranks);
        }
    }
}

fn evicted_with_bitmap<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut server = Server::default();
    let mut world = play::<WORDS>(plan, steps, |world, turn| {
        for (event, passage) in &turn.moves {
            let Move::Out { ranks } = passage else { continue };
            let served = |key: Key| plan.jobs[usize::from(key.job())].policy.server;
            match event {
                Event::Evicted { ranks: said, sum, .. } => {
                    prop_assert!(said.iter().eq(ranks), "{:?} {:?}", said, ranks);
                    prop_assert_eq!(usize::from(sum.count), ranks.len());
                    let found = ranks_of(sum, world.job(sum.key));
                    prop_assert_eq!(found.as_ref(), Some(ranks), "{:?}", sum);
                    prop_assert!(served(sum.key));
                    server.take(sum.key, ranks);
                }
                Event::Originals { key, values, .. } => {
                    let job = world.job(*key);
                    prop_assert!(values.iter().map(|(rank, _)| rank).eq(ranks));
                    let own = values.iter().all(|(rank, values)| *values == job.signature(*rank));
                    prop_assert!(own, "each its own: {:?}", values);
                    prop_assert!(served(*key));
                    server.take(*key, ranks);
                }
                _ => {}
            }
        }
        if let (Some(request), Some(Event::Rejected(_, Rejection::Conflict | Rejection::Quota))) =
            (turn.request(), turn.events.last())
            && request.verb == Verb::Add
            && request.rules.server()
        {
            server.take(request.key, &Ranks::from([request.rank]));
        }
        Ok(())
    })?;
    // What the server has made of it replaces the pool's content, and contains every rank once.
    for (key, ranks) in server.0 {
        let job = world.job(key).clone();
        if ranks.len() == usize::from(job.fan_in) && key.is_of(world.epoch(key.job())) {
            world.now += 1;
            let result = Parcel::install(key, 0, job.fan_in, &job.full());
            let turn = world.turn(Ask::Offer(world.of_job(result)))?;
            for (_, passage) in &turn.moves {
                if let Move::Made { sum, .. } | Move::Given { sum, .. } = passage {
                    prop_assert_eq!(&sum.values, &job.full());
                }
            }
        }
    }
    Ok(())
}

fn nothing_is_held_for_ever<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = play::<WORDS>(plan, steps, |_, _| Ok(()))?;
    // Whatever the trace has left behind: after the age limit every PSN gets in, everywhere.
    for (number, job) in plan.jobs.iter().enumerate() {
        let sets = job.policy.region.map_or(plan.shared_sets(), |region| region.sets as usize);
        for ahead in 0..(4 * sets * plan.config.ways).try_into().unwrap() {
            world.now += 2 * AGE_LIMIT;
            // An abandoned partial counts against a quota until it is swept.
            world.turn(Ask::Expire)?;
            let mut last = None;
            for rank in 0..job.fan_in {
                let newcomer = world.newcomer(number, ahead, rank);
                last = world.turn(newcomer)?.events.pop();
            }
            prop_assert!(matches!(last, Some(Event::Completed { .. } | Event::Replayed(..))), "{:?}", last);
        }
    }
    Ok(())
}

fn quotas_hold<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    play::<WORDS>(plan, steps, |world, turn| {
        for (number, job) in (0..).zip(&plan.jobs) {
            let (held, quota) = (world.ledger.partials_of(number), job.policy.quota as usize);
            prop_assert!(quota == 0 || held <= quota, "{held} partials of {quota}");
        }
        if let Some(Event::Rejected(who, Rejection::Quota)) = turn.events.last() {
            let quota = plan.jobs[usize::from(who.key.job())].policy.quota as usize;
            prop_assert!(quota > 0 && world.ledger.partials_of(who.key.job()) == quota);
            prop_assert_eq!(turn.events.len(), 1, "before any conflict: no other is concerned");
        }
        Ok(())
    })?;
    Ok(())
}

fn everything_is_conserved<const WORDS: usize>(plan: &Plan, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut taken_in, mut in_results, mut out) = (0, 0, 0);
    let world = play::<WORDS>(plan, steps, |world, turn| {
        let answers = turn.events.iter().filter(|event| event.answers_a_request()).count();
        prop_assert_eq!(answers, usize::from(turn.parcel.is_some()), "one each: {:?}", turn.events);
        for (event, passage) in &turn.moves {
            match passage {
                Move::TakenIn { .. } => taken_in += 1,
                Move::Made { ranks, .. } => {
                    taken_in += usize::from(matches!(event, Event::Completed { .. }));
                    in_results += ranks.len();
                }
                Move::Out { ranks } => out += ranks.len(),
                Move::Given { .. } => {}
            }
        }
        prop_assert_eq!(taken_in, in_results + out + world.ledger.inside(), "contributions");
        // Packets: a sum has one, a partial whose contributions are kept has theirs, a result has one.
        let held = world.packets();
        prop_assert_eq!(world.rig.memory.live(), held + turn.with_the_sink, "neither leaked nor freed early");
        Ok(())
    })?;
    let held = world.packets();
    prop_assert_eq!(world.rig.session.packets(), held, "the pool says the same");
    world.rig.close();
    Ok(())
}

/// Were a policy never to come into effect, the invariants would prove nothing about it.
#[test]
fn everything_that_can_happen_happens() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeMap::<String, usize>::new();
    for _ in 0..300 {
        let plan = plans(plan::NARROW).new_tree(&mut runner).unwrap().current();
        let trace = steps(80).new_tree(&mut runner).unwrap().current();
        play::<1>(&plan, &trace, |_, turn| {
            for event in &turn.events {
                *seen.entry(world::what(event)).or_default() += 1;
            }
            Ok(())
        })
        .unwrap();
    }
    for what in world::EVERYTHING {
        assert!(seen.get(*what).is_some_and(|&times| times >= 3), "{what}: {seen:#?}");
    }
}

macro_rules! invariants {
    ($module:ident, $words:literal, $fan_ins:expr, $cases:literal, $steps:literal) => {
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: $cases, failure_persistence: None, ..ProptestConfig::default()
                })]

                #[test]
                fn invariant_1_a_contribution_enters_a_result_at_most_once(
                    plan in plans($fan_ins), steps in steps($steps)
                ) {
                    entered_at_most_once::<$words>(&plan, &steps)?;
                }

                #[test]
                fn invariant_2_a_result_leaves_when_its_rule_holds_and_says_exactly_who_is_inside(
                    plan in plans($fan_ins), steps in steps($steps)
                ) {
                    complete_and_exact::<$words>(&plan, &steps)?;
                }

                #[test]
                fn invariant_3_what_is_evicted_says_who_is_inside_so_that_the_server_counts_nobody_twice(
                    plan in plans($fan_ins), steps in steps($steps)
                ) {
                    evicted_with_bitmap::<$words>(&plan, &steps)?;
                }

                #[test]
                fn invariant_4_no_slot_is_held_for_ever(plan in plans($fan_ins), steps in steps($steps)) {
                    nothing_is_held_for_ever::<$words>(&plan, &steps)?;
                }

                #[test]
                fn invariant_5_no_job_holds_more_slots_than_its_quota(
                    plan in plans($fan_ins), steps in steps($steps)
                ) {
                    quotas_hold::<$words>(&plan, &steps)?;
                }

                #[test]
                fn invariant_6_contributions_and_packets_are_neither_lost_nor_doubled(
                    plan in plans($fan_ins), steps in steps($steps)
                ) {
                    everything_is_conserved::<$words>(&plan, &steps)?;
                }
            }
        }
    };
}

invariants!(narrow, 1, plan::NARROW, 250, 80);
invariants!(wide, 16, plan::WIDE, 12, 25);
