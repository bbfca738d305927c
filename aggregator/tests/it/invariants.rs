//! The pool's invariants, judged only by what comes out of it. Numbers are those of the design.
//!
//! The fifth, fairness between tenants, needs quotas: `policy_model` has all six, under every mixture of
//! policies.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use pascaline_aggregator::{Key, PoolConfig};
use proptest::prelude::*;

use crate::common::trace::{NARROW, Step, WIDE, is_contribution, trace};
use crate::common::{Event, Parcel, Rig, TICK, config, counts, full_signature, signature, sum_of};

/// Sets, ways, and whether packets come in bursts by the fast path.
type Layout = (usize, usize, bool);

const AGE_LIMIT: u64 = 20 * TICK;

fn rig<const WORDS: usize>((sets, ways, fast): Layout) -> Rig<WORDS> {
    let rig =
        Rig::of(&PoolConfig { age_limit: Duration::from_nanos(AGE_LIMIT), ..config(sets * ways, ways) });
    rig.by_way(fast)
}

fn play<const WORDS: usize>(rig: &mut Rig<WORDS>, step: &Step) -> Vec<Event> {
    match step {
        Step::Offer(parcel) => rig.offer(parcel),
        &Step::Sweep { sets, epoch } => rig.sweep(sets, |key| key.is_of(epoch)),
    }
}

fn fan_in_of(fan_ins: &[u16], key: Key) -> u16 {
    fan_ins[usize::from(key.job())]
}

/// Time after the trace.
fn end(steps: &[Step]) -> u64 {
    let time = |step: &Step| if let Step::Offer(parcel) = step { parcel.request.now } else { 0 };
    steps.iter().map(time).max().unwrap_or(0) + TICK
}

fn entered_at_most_once<const WORDS: usize>(layout: Layout, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut rig = rig::<WORDS>(layout);
    for step in steps {
        for event in play(&mut rig, step) {
            if let Event::Completed { sum, .. } | Event::Replayed(_, sum) = event {
                prop_assert!(counts(&sum.values).all(|count| count <= 1), "{:?}", sum);
            }
        }
    }
    Ok(())
}

fn complete_and_exact<const WORDS: usize>(
    fan_ins: &[u16],
    layout: Layout,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut rig = rig::<WORDS>(layout);
    // The bitmaps, as the events tell them.
    let mut inside: HashMap<Key, BTreeSet<u16>> = HashMap::new();
    for step in steps {
        for event in play(&mut rig, step) {
            match event {
                Event::Opened(who) => {
                    prop_assert!(inside.insert(who.key, BTreeSet::from([who.rank])).is_none());
                }
                Event::Added(who) => prop_assert!(inside.get_mut(&who.key).unwrap().insert(who.rank)),
                Event::Completed { who, sum, .. } => {
                    let ranks = inside.entry(who.key).or_default();
                    prop_assert!(ranks.insert(who.rank));
                    let fan_in = fan_in_of(fan_ins, who.key);
                    prop_assert!(ranks.iter().copied().eq(0..fan_in), "the rule: all ranks");
                    prop_assert_eq!((sum.fan_in, sum.count), (fan_in, fan_in));
                    prop_assert_eq!(sum.values, full_signature(fan_in), "and nothing but them");
                }
                Event::EvictedPartial(key) | Event::EvictedResult(key) => drop(inside.remove(&key)),
                Event::Installed { who, .. } => drop(inside.insert(who.key, BTreeSet::new())),
                _ => {}
            }
        }
    }
    Ok(())
}

fn evicted_partials_start_again<const WORDS: usize>(
    fan_ins: &[u16],
    layout: Layout,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut rig = rig::<WORDS>(layout);
    let (mut evicted, mut opened) = (BTreeSet::new(), HashMap::new());
    for step in steps {
        for event in play(&mut rig, step) {
            if let (Event::Opened(who), Step::Offer(parcel)) = (&event, step) {
                opened.insert(who.key, parcel.request.now);
            }
            if let Event::EvictedPartial(key) = event {
                if let Step::Offer(Parcel { request, .. }) = step {
                    let age = request.now - opened[&key];
                    prop_assert!(request.key == key || age > AGE_LIMIT, "a young victim: {key:?}");
                }
                prop_assert!(!rig.sink.returned.is_empty(), "its buffers come back");
                evicted.insert(key.to_bits());
            }
        }
    }
    let mut now = end(steps);
    for key in evicted.into_iter().map(Key::from_bits) {
        now += 2 * AGE_LIMIT;
        // All ranks send again, as they do when no result comes.
        let fan_in = fan_in_of(fan_ins, key);
        let mut result = None;
        for rank in 0..fan_in {
            now += 1;
            let parcel = Parcel::add(key, rank, fan_in, &signature(rank, fan_in)).at(now);
            result = rig.offer(&parcel).pop();
        }
        let result = result.unwrap();
        prop_assert_eq!(&sum_of(&result).values, &full_signature(fan_in));
    }
    Ok(())
}

fn nothing_is_held_for_ever<const WORDS: usize>(layout: Layout, steps: &[Step]) -> Result<(), TestCaseError> {
    let (sets, ways, _) = layout;
    let mut rig = rig::<WORDS>(layout);
    let mut held = BTreeSet::new();
    let mut follow = |events: &[Event]| {
        for event in events {
            match event {
                Event::Opened(who) | Event::Completed { who, .. } | Event::Installed { who, .. } => {
                    assert!(held.insert(who.key.to_bits()));
                }
                Event::EvictedPartial(key) | Event::EvictedResult(key) => {
                    held.remove(&key.to_bits());
                }
                _ => {}
            }
        }
        held.len()
    };
    let mut in_use = 0;
    for step in steps {
        // A key that completes is followed from its opening on.
        let events: Vec<Event> = play(&mut rig, step)
            .into_iter()
            .filter(|event| !matches!(event, Event::Completed { alone: false, .. }))
            .collect();
        in_use = follow(&events);
    }
    // Each newcomer gets in at once. One newcomer per slot drives out all the old ones, although the
    // newcomers are complete and could go themselves.
    let mut now = end(steps) + 2 * AGE_LIMIT;
    for place in 0..sets {
        let newcomers = (0..).map(|psn| Key::new(99, 0, psn)).filter(|key| key.place(sets) == place);
        for key in newcomers.take(ways) {
            now += TICK;
            let events = rig.offer(&Parcel::add(key, 0, 1, &[1]).at(now));
            prop_assert!(matches!(events.last(), Some(Event::Completed { .. })), "{:?}", events);
            in_use = follow(&events);
        }
    }
    prop_assert_eq!(in_use, sets * ways);
    prop_assert!(held.iter().all(|&bits| Key::from_bits(bits).job() == 99), "{:?}", held);
    Ok(())
}

fn packets_are_conserved<const WORDS: usize>(layout: Layout, steps: &[Step]) -> Result<(), TestCaseError> {
    let (sets, ways, _) = layout;
    let mut rig = rig::<WORDS>(layout);
    let mut held = 0;
    for step in steps {
        let events = play(&mut rig, step);
        let offered = usize::from(matches!(step, Step::Offer(_)));
        prop_assert_eq!(events.iter().filter(|event| event.answers_a_request()).count(), offered);
        held += offered;
        held -= rig.sink.returned.len();
        for event in &events {
            match event {
                // Only the sink has held it since.
                Event::PassedOn { .. } | Event::EvictedResult(_) => held -= 1,
                // The packet itself comes back.
                Event::Replayed(..) | Event::Reminded(..) | Event::Rejected(..) => {
                    prop_assert!(!rig.sink.returned.is_empty());
                }
                Event::HandedOff => prop_assert!(false, "there is only one lcore"),
                _ => {}
            }
        }
        rig.sink.take();
        prop_assert_eq!(rig.memory.live(), held, "neither leaked nor freed early");
        prop_assert!(held <= sets * ways, "a slot holds one packet");
        if let Step::Offer(parcel) = step {
            prop_assert!(is_contribution(parcel) || !events.iter().any(|e| matches!(e, Event::Opened(_))));
        }
    }
    rig.close();
    Ok(())
}

fn layout() -> impl Strategy<Value = Layout> {
    let sets = proptest::sample::select(vec![1usize, 2, 4]);
    (sets, proptest::sample::select(vec![1usize, 2, 4, 8]), any::<bool>())
}

macro_rules! invariants {
    ($module:ident, $words:literal, $fan_ins:ident, $cases:literal, $steps:literal) => {
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: $cases, failure_persistence: None, ..ProptestConfig::default()
                })]

                /// Holds R11.1 of protocol.md.
                #[test]
                fn invariant_1_a_contribution_enters_a_result_at_most_once(
                    layout in layout(), steps in trace($fan_ins, false, $steps)
                ) {
                    entered_at_most_once::<$words>(layout, &steps)?;
                }

                #[test]
                fn invariant_2_a_result_leaves_when_all_are_in_and_holds_exactly_them(
                    layout in layout(), steps in trace($fan_ins, false, $steps)
                ) {
                    complete_and_exact::<$words>($fan_ins, layout, &steps)?;
                }

                #[test]
                fn invariant_3_an_evicted_partial_is_never_counted_twice(
                    layout in layout(), steps in trace($fan_ins, false, $steps)
                ) {
                    evicted_partials_start_again::<$words>($fan_ins, layout, &steps)?;
                }

                #[test]
                fn invariant_4_no_slot_is_held_for_ever(
                    layout in layout(), steps in trace($fan_ins, false, $steps)
                ) {
                    nothing_is_held_for_ever::<$words>(layout, &steps)?;
                }

                #[test]
                fn invariant_6_packets_are_neither_leaked_nor_freed_twice(
                    layout in layout(), steps in trace($fan_ins, true, $steps)
                ) {
                    packets_are_conserved::<$words>(layout, &steps)?;
                }
            }
        }
    };
}

invariants!(narrow, 1, NARROW, 300, 80);
invariants!(wide, 16, WIDE, 15, 30);

/// Each fault inside the pool breaks an invariant, by whatever way packets come in.
#[cfg(feature = "sabotage")]
mod sabotages {
    use pascaline_aggregator::Sabotage;
    use proptest::test_runner::{Config, TestError, TestRunner};

    use super::*;

    fn is_found(fault: Sabotage, fast: bool) -> bool {
        let config =
            Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        let judged =
            TestRunner::new(config).run(&(layout(), trace(NARROW, false, 80)), |((sets, ways, _), steps)| {
                let layout = (sets, ways, fast);
                fault.during(|| {
                    entered_at_most_once::<1>(layout, &steps)?;
                    complete_and_exact::<1>(NARROW, layout, &steps)?;
                    evicted_partials_start_again::<1>(NARROW, layout, &steps)?;
                    nothing_is_held_for_ever::<1>(layout, &steps)?;
                    packets_are_conserved::<1>(layout, &steps)
                })
            });
        matches!(judged, Err(TestError::Fail(..)))
    }

    #[test]
    fn every_fault_inside_the_pool_is_found() {
        // The test of shares finds the other one: here all slots are one job's.
        for fault in Sabotage::WITHIN_AN_LCORE.into_iter().filter(|&fault| fault != Sabotage::ShareKept) {
            for fast in [false, true] {
                assert!(is_found(fault, fast), "{fault:?}, fast path: {fast}");
            }
        }
    }
}
