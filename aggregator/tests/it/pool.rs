//! The choice between slots: who gets in, and who has to go.

use std::time::Duration;

use pascaline_aggregator::{Key, Pool, PoolConfig, PoolConfigError, Rejection};
use pascaline_buffer::HeapBuf;
use pascaline_buffer::combine::Kernels;

use crate::common::{Event, Parcel, Rig, TICK, Who, config, keys_of_one_set, sum_of};

const WAYS: [usize; 4] = [1, 2, 4, 8];
/// The age limit of the rig.
const LIMIT: u64 = 1000 * TICK;

/// Four sets of `ways`, and the keys that meet in set 0.
fn rig(ways: usize) -> (Rig, Vec<Key>) {
    (Rig::new(4 * ways, ways), keys_of_one_set(4).take(2 * ways + 2).collect())
}

fn open(key: Key, now: u64) -> Parcel {
    Parcel::add(key, 0, 2, &[1]).at(now)
}

fn whole(key: Key, now: u64) -> Parcel {
    Parcel::add(key, 0, 1, &[1]).at(now)
}

fn opened(key: Key) -> Event {
    Event::Opened(Who { key, rank: 0 })
}

#[test]
fn a_set_holds_as_many_psns_as_it_has_ways() {
    for ways in WAYS {
        let (mut rig, keys) = rig(ways);
        for &key in &keys[..ways] {
            assert_eq!(rig.one(&open(key, 0)), opened(key));
        }
        for &key in &keys[ways..] {
            let who = Who { key, rank: 0 };
            assert_eq!(rig.one(&open(key, 0)), Event::Rejected(who, Rejection::Conflict), "{ways} ways");
        }
        // Other sets are not concerned.
        let elsewhere = (0..).map(|psn| Key::new(1, 1, psn)).find(|key| key.place(4) == 1).unwrap();
        assert_eq!(rig.one(&open(elsewhere, 0)), opened(elsewhere));
        // Those inside are whole.
        for &key in &keys[..ways] {
            assert_eq!(sum_of(&rig.one(&Parcel::add(key, 1, 2, &[2]))).values, [3]);
        }
        rig.close();
    }
}

/// A set first compares a tag of 16 bits. All job numbers are tried at one PSN, so that jobs of equal tags
/// meet in one set.
#[test]
fn no_job_gets_into_the_sum_of_another() {
    const WAITING: u16 = 7;
    let key = |job| Key::new(job, 1, 7);
    for fast in [false, true] {
        let mut rig = Rig::new(8, 8).by_way(fast);
        for job in 1..=WAITING {
            assert_eq!(rig.one(&open(key(job), 0)), opened(key(job)));
        }
        for job in WAITING + 1..=u16::MAX {
            let events = rig.offer(&Parcel::add(key(job), 0, 1, &[2]));
            let sum = sum_of(events.last().unwrap());
            assert_eq!((sum.key, sum.values.as_slice()), (key(job), [2].as_slice()));
        }
        for job in 1..=WAITING {
            assert_eq!(sum_of(&rig.one(&Parcel::add(key(job), 1, 2, &[4]))).values, [5]);
        }
        rig.close();
    }
}

#[test]
fn a_pool_of_one_slot_is_a_pool() {
    let mut rig = Rig::new(1, 1);
    for psn in 0..100 {
        let key = Key::new(1, 1, psn);
        rig.offer(&open(key, 0));
        assert_eq!(sum_of(&rig.one(&Parcel::add(key, 1, 2, &[2]))).values, [3]);
    }
    rig.close();
}

#[test]
fn the_result_longest_out_of_use_goes() {
    for ways in WAYS {
        for eldest in 0..ways {
            let (mut rig, keys) = rig(ways);
            for (n, &key) in keys[..ways].iter().enumerate() {
                rig.one(&whole(key, n as u64 * TICK));
            }
            // All but one are asked for again, in an order that is not that of the ways.
            for &key in keys[..ways].iter().rev().filter(|&&key| key != keys[eldest]) {
                rig.one(&whole(key, 20 * TICK));
            }
            let newcomer = keys[ways];
            assert_eq!(
                rig.offer(&open(newcomer, 21 * TICK)),
                [Event::EvictedResult(keys[eldest]), opened(newcomer)],
                "way {eldest} of {ways}"
            );
            rig.close();
        }
    }
}

#[test]
fn a_reminder_keeps_a_result_young() {
    let (mut rig, keys) = rig(2);
    rig.one(&whole(keys[0], 0));
    rig.one(&whole(keys[1], TICK));
    rig.one(&Parcel::remind(keys[0], 0, 1).at(2 * TICK));
    assert_eq!(rig.offer(&open(keys[2], 3 * TICK))[0], Event::EvictedResult(keys[1]));
    rig.close();
}

#[test]
fn a_clock_that_lags_behind_does_not_make_the_youngest_result_the_oldest() {
    let (mut rig, keys) = rig(2);
    rig.one(&whole(keys[0], 1000 * TICK));
    rig.one(&whole(keys[1], 2000 * TICK));
    // A packet that was handed off, received before the second result was last of use.
    assert_eq!(rig.offer(&open(keys[2], 1999 * TICK))[0], Event::EvictedResult(keys[0]));
    rig.close();
}

#[test]
fn results_go_before_partials_that_are_young_or_waited_for() {
    for (now, touch) in [(LIMIT, None), (3 * LIMIT, Some(0)), (3 * LIMIT, Some(1))] {
        let (mut rig, keys) = rig(2);
        rig.one(&open(keys[0], 0));
        rig.one(&whole(keys[1], now - TICK));
        match touch {
            // Its rank sends again.
            Some(0) => drop(rig.one(&open(keys[0], now - 10 * TICK))),
            // It is asked for.
            Some(_) => drop(rig.one(&Parcel::remind(keys[0], 0, 2).at(now - 10 * TICK))),
            None => {}
        }
        assert_eq!(rig.offer(&open(keys[2], now))[0], Event::EvictedResult(keys[1]));
        rig.close();
    }
}

#[test]
fn a_partial_that_nobody_asks_for_goes_before_results() {
    for ways in [2, 4, 8] {
        let (mut rig, keys) = rig(ways);
        for &key in &keys[..ways - 1] {
            rig.one(&whole(key, 0));
        }
        let ghost = keys[ways - 1];
        rig.one(&open(ghost, 0));
        let newcomer = keys[ways];
        assert_eq!(
            rig.offer(&open(newcomer, LIMIT + TICK)),
            [Event::EvictedPartial(ghost), opened(newcomer)],
            "{ways} ways"
        );
        rig.close();
    }
}

#[test]
fn of_the_partials_nobody_asks_for_the_one_longest_so_goes() {
    let (mut rig, keys) = rig(2);
    rig.one(&Parcel::add(keys[0], 0, 3, &[1]).at(0));
    rig.one(&open(keys[1], TICK));
    rig.one(&Parcel::add(keys[0], 1, 3, &[1]).at(2 * TICK));
    assert_eq!(rig.offer(&open(keys[2], 5 * LIMIT))[0], Event::EvictedPartial(keys[1]));
    rig.close();
}

#[test]
fn an_old_partial_yields_and_its_buffer_is_handed_back() {
    for ways in WAYS {
        let (mut rig, keys) = rig(ways);
        for (n, &key) in keys[..ways].iter().enumerate() {
            rig.one(&open(key, n as u64 * TICK));
        }
        // All are still waited for, the oldest most recently.
        for &key in keys[..ways].iter().rev() {
            rig.one(&open(key, LIMIT - TICK));
        }
        let newcomer = keys[ways];
        let who = Who { key: newcomer, rank: 0 };
        assert_eq!(rig.one(&open(newcomer, LIMIT)), Event::Rejected(who, Rejection::Conflict), "not yet");
        let events = rig.offer(&open(newcomer, LIMIT + 1));
        assert_eq!(events, [Event::EvictedPartial(keys[0]), opened(newcomer)], "{ways} ways");
        assert_eq!(rig.sink.returned.len(), 1);
        rig.close();
    }
}

#[test]
fn of_the_partials_waited_for_the_oldest_yields() {
    let (mut rig, keys) = rig(4);
    for (key, first) in keys.iter().zip([3, 1, 0, 2]) {
        rig.one(&open(*key, first * TICK));
    }
    for &key in &keys[..4] {
        rig.one(&open(key, LIMIT));
    }
    for (newcomer, oldest) in [(4, 2), (5, 1), (6, 3), (7, 0)] {
        let events = rig.offer(&open(keys[newcomer], LIMIT + 4 * TICK));
        assert_eq!(events[0], Event::EvictedPartial(keys[oldest]));
    }
    rig.close();
}

#[test]
fn without_an_age_limit_a_partial_stays() {
    let mut rig = Rig::<1>::of(&PoolConfig { age_limit: Duration::MAX, ..config(1, 1) });
    rig.one(&open(Key::new(1, 1, 0), 0));
    let event = rig.one(&open(Key::new(1, 1, 1), u64::MAX));
    assert!(matches!(event, Event::Rejected(_, Rejection::Conflict)));
    rig.close();
}

#[test]
fn a_displaced_psn_can_start_again() {
    let (mut rig, keys) = rig(1);
    rig.one(&open(keys[0], 0));
    rig.offer(&open(keys[1], 2 * LIMIT));
    rig.one(&Parcel::add(keys[1], 1, 2, &[2]).at(2 * LIMIT));
    let events = rig.offer(&open(keys[0], 2 * LIMIT));
    assert_eq!(events, [Event::EvictedResult(keys[1]), opened(keys[0])]);
    assert_eq!(sum_of(&rig.one(&Parcel::add(keys[0], 1, 2, &[2]))).values, [3], "the same rank once");
    rig.close();
}

#[test]
fn a_sweep_vacates_what_is_outdated_and_nothing_else() {
    for ways in WAYS {
        let mut rig = Rig::new(8 * ways, ways);
        let key = |epoch, psn| Key::new(1, epoch, psn);
        let mut held = Vec::new();
        for psn in 0..2 * u32::try_from(ways).unwrap() {
            for epoch in [1, 2] {
                let parcel = if psn % 2 == 0 { open(key(epoch, psn), 0) } else { whole(key(epoch, psn), 0) };
                for event in rig.offer(&parcel) {
                    match event {
                        Event::Opened(Who { key, .. }) | Event::Completed { who: Who { key, .. }, .. } => {
                            held.push(key);
                        }
                        Event::EvictedResult(key) => held.retain(|&other| other != key),
                        Event::Rejected(..) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        let mut swept = Vec::new();
        for event in rig.sweep(8, |key| key.is_of(1)) {
            match event {
                Event::EvictedPartial(key) => {
                    assert_eq!(key.psn() % 2, 0);
                    swept.push(key);
                }
                Event::EvictedResult(key) => {
                    assert_eq!(key.psn() % 2, 1);
                    swept.push(key);
                }
                other => panic!("{other:?}"),
            }
        }
        let (mut old, new): (Vec<Key>, Vec<Key>) = held.into_iter().partition(|key| key.is_of(1));
        assert!(!old.is_empty() && !new.is_empty());
        swept.sort_unstable_by_key(|key| key.to_bits());
        old.sort_unstable_by_key(|key| key.to_bits());
        assert_eq!(swept, old);
        assert!(rig.sweep(8, |key| key.is_of(1)).is_empty(), "a second sweep finds nothing");
        for key in new {
            let again = if key.psn() % 2 == 0 {
                sum_of(&rig.one(&Parcel::add(key, 1, 2, &[2]))).values.clone()
            } else {
                sum_of(&rig.one(&whole(key, 0))).values.clone()
            };
            assert_eq!(again, if key.psn() % 2 == 0 { [3] } else { [1] }, "untouched");
        }
        rig.close();
    }
}

#[test]
fn what_a_sweep_vacates_is_free_for_the_same_psn() {
    let (mut rig, keys) = rig(2);
    rig.one(&open(keys[0], 0));
    rig.one(&whole(keys[1], 0));
    assert_eq!(rig.sweep(4, |_| true).len(), 2);
    assert_eq!(rig.one(&open(keys[0], 0)), opened(keys[0]), "neither a duplicate nor a replay");
    assert_eq!(rig.one(&open(keys[1], 0)), opened(keys[1]));
    rig.close();
}

#[test]
fn a_sweep_goes_on_where_the_last_one_stopped() {
    let mut rig = Rig::new(4, 1);
    let keys: Vec<Key> =
        (0..4).map(|set| (0..).map(|n| Key::new(1, 1, n)).find(|k| k.place(4) == set).unwrap()).collect();
    for &key in &keys {
        rig.one(&open(key, 0));
    }
    assert_eq!(rig.sweep(3, |key| key == keys[3]), []);
    assert_eq!(rig.sweep(1, |_| true), [Event::EvictedPartial(keys[3])]);
    assert_eq!(rig.sweep(1, |_| true), [Event::EvictedPartial(keys[0])], "and begins again");
    assert_eq!(rig.sweep(usize::MAX, |_| true).len(), 2, "never more than once around");
    rig.close();
}

#[test]
fn layouts_that_cannot_be_are_errors() {
    let layout = |slots, ways| {
        Pool::<HeapBuf>::sessions(&config(slots, ways), Kernels::scalar(), 1).map(|sessions| sessions.len())
    };
    for ways in [0, 3, 5, 6, 7, 9, 16, usize::MAX] {
        assert_eq!(layout(1024, ways), Err(PoolConfigError::Ways(ways)));
    }
    for slots in [0, 3, 1000, 1 << 29, usize::MAX] {
        assert_eq!(layout(slots, 1), Err(PoolConfigError::Slots(slots)));
    }
    for ways in WAYS {
        assert_eq!(layout(ways, ways), Ok(1), "one set");
        if ways > 1 {
            assert_eq!(layout(ways / 2, ways), Err(PoolConfigError::Slots(ways / 2)));
        }
    }
    for error in [PoolConfigError::Slots(3), PoolConfigError::Ways(3)] {
        assert!(error.to_string().starts_with('3'), "the message names the value: {error}");
    }
}

#[test]
fn there_are_as_many_sessions_as_lcores() {
    for lcores in [0, 1, 2, 7] {
        let mut sessions = Pool::<HeapBuf>::sessions(&config(16, 4), Kernels::scalar(), lcores).unwrap();
        assert_eq!(sessions.len(), lcores);
        assert!(sessions.iter_mut().all(|session| session.packets() == 0));
    }
}
