//! Jobs with a part of the pool of their own: each place belongs to one PSN after the other.

use pascaline_aggregator::{Cause, ConflictPolicy, Key, Policy, PoolConfig, Region, Rejection, SweepAction};

use super::{half, of_region, opened, psn};
use crate::common::{Event, Parcel, Rig, TICK, Who, config, sum_of};

const WAYS: [usize; 4] = [1, 2, 4, 8];
/// Four sets that all jobs share, then four of this job.
const OWN: Region = Region { first: 4, sets: 4 };

fn rig(ways: usize) -> Rig {
    Rig::of(&PoolConfig { reserved: 4 * ways, ..config(8 * ways, ways) })
}

fn first_half(key: Key) -> Parcel {
    half(key, 0, &of_region(OWN))
}

/// Completes a PSN of which nothing is there.
#[track_caller]
fn complete(rig: &mut Rig, key: Key) {
    assert_eq!(rig.offer_in(OWN, &first_half(key)).pop(), Some(opened(key, 0)));
    let done = rig.one_in(OWN, &half(key, 1, &of_region(OWN)));
    assert_eq!(sum_of(&done).values, [3]);
}

fn rejected(key: Key, why: Rejection) -> Event {
    Event::Rejected(Who { key, rank: 0 }, why)
}

#[test]
fn neither_part_of_the_pool_reaches_into_the_other() {
    let mut rig = rig(1);
    // All other jobs' partials take every shared slot, and find no other.
    let (mut taken, mut lost) = (0, 0);
    for number in 0..200 {
        match rig.one(&half(Key::new(2, 1, number), 0, &Policy::default())) {
            Event::Opened(_) => taken += 1,
            Event::Rejected(_, Rejection::Conflict) => lost += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((taken, lost), (4, 196));
    for number in 0..4 {
        assert_eq!(rig.one_in(OWN, &first_half(psn(number))), opened(psn(number), 0));
    }
    assert_eq!(rig.one_in(OWN, &first_half(psn(4))), rejected(psn(4), Rejection::Conflict));
    assert_eq!(rig.judge(8, |_, _| SweepAction::Vacate).len(), 8);
    rig.close();
}

/// Another lcore with the former generation has handed it off, and it arrives when the new one has had a
/// result already, without the last rank. If it took that one's place, that rank could begin another result.
#[test]
fn what_comes_late_of_a_past_generation_does_not_take_the_place_of_a_new_result() {
    // Generations are serial numbers.
    for (past, new) in [(1, 2), (254, 255), (255, 256), (253, 260)] {
        let mut rig = rig(1);
        let part = |epoch, rank| {
            let key = Key::new(1, epoch, 5);
            Parcel::add(key, rank, 3, &[1 << rank]).needing(2).under(&of_region(OWN))
        };
        rig.one_in(OWN, &part(new, 0));
        assert_eq!(sum_of(&rig.one_in(OWN, &part(new, 1))).values, [3]);
        assert_eq!(rig.one_in(OWN, &part(past, 0)), rejected(part(past, 0).request.key, Rejection::Stale));
        let Event::Replayed(_, sum) = rig.one_in(OWN, &part(new, 2)) else { panic!("another result") };
        assert_eq!(sum.values, [3]);
        // A later one takes the place.
        assert!(matches!(
            rig.offer_in(OWN, &part(new + 1, 0))[..],
            [Event::EvictedResult(_), Event::Opened(_)]
        ));
        rig.close();
    }
}

#[test]
fn a_place_holds_as_many_versions_as_it_has_ways() {
    for ways in WAYS {
        let mut rig = rig(ways);
        let key = |version: usize| psn(4 * u32::try_from(version).unwrap() + 1);
        for version in 0..ways {
            assert_eq!(rig.one_in(OWN, &first_half(key(version))), opened(key(version), 0));
        }
        // As long as a rank waits for the oldest, no other gets in.
        for now in [0, 900 * TICK, 1800 * TICK, 2700 * TICK] {
            let newcomer = first_half(key(ways)).at(now);
            assert_eq!(rig.one_in(OWN, &newcomer), rejected(key(ways), Rejection::Conflict), "{ways} ways");
            rig.one_in(OWN, &first_half(key(0)).at(now));
        }
        // Nor if any but the oldest is.
        for version in 1..ways {
            rig.one_in(OWN, &half(key(version), 1, &of_region(OWN)));
            let newcomer = first_half(key(ways));
            assert_eq!(rig.one_in(OWN, &newcomer), rejected(key(ways), Rejection::Conflict));
        }
        rig.one_in(OWN, &half(key(0), 1, &of_region(OWN)));
        assert_eq!(
            rig.offer_in(OWN, &first_half(key(ways))),
            [Event::EvictedResult(key(0)), opened(key(ways), 0)]
        );
        // The others' results are still there.
        for version in 1..ways {
            assert!(matches!(rig.one_in(OWN, &first_half(key(version))), Event::Replayed(..)));
        }
        rig.close();
    }
}

#[test]
fn what_is_older_than_all_that_is_there_has_had_its_result() {
    for ways in WAYS {
        let mut rig = rig(ways);
        for version in 0..=u32::try_from(ways).unwrap() {
            complete(&mut rig, psn(4 * version));
        }
        for rank in [0, 1] {
            let late = half(psn(0), rank, &of_region(OWN));
            let who = Who { key: psn(0), rank };
            assert_eq!(rig.one_in(OWN, &late), Event::Rejected(who, Rejection::Stale), "{ways} ways");
        }
        // And nothing of it is known any more.
        let event = rig.one_in(OWN, &Parcel::remind(psn(0), 0, 2).under(&of_region(OWN)));
        assert!(matches!(event, Event::Reminded(_, crate::common::Known::Unknown)), "{event:?}");
        rig.close();
    }
}

#[test]
fn what_is_younger_than_the_oldest_result_takes_its_place() {
    let mut rig = rig(2);
    complete(&mut rig, psn(0));
    complete(&mut rig, psn(8));
    assert_eq!(
        rig.offer_in(OWN, &first_half(psn(4))),
        [Event::EvictedResult(psn(0)), opened(psn(4), 0)],
        "between the two"
    );
    assert_eq!(rig.one_in(OWN, &first_half(psn(0))), rejected(psn(0), Rejection::Stale));
    rig.close();
}

#[test]
fn numbers_go_on_after_the_last_one() {
    for ways in WAYS {
        let mut rig = rig(ways);
        let mut number = u32::MAX - 19;
        for _ in 0..10 {
            complete(&mut rig, psn(number));
            number = number.wrapping_add(4);
        }
        assert_eq!(number, 20);
        let oldest = number.wrapping_sub(4 * u32::try_from(ways).unwrap());
        assert!(matches!(rig.one_in(OWN, &first_half(psn(oldest))), Event::Replayed(..)));
        for late in [oldest.wrapping_sub(4), u32::MAX - 19] {
            assert_eq!(rig.one_in(OWN, &first_half(psn(late))), rejected(psn(late), Rejection::Stale));
        }
        rig.close();
    }
}

#[test]
fn a_generation_that_is_over_yields_at_once() {
    let server = Policy { server: true, ..of_region(OWN) };
    for (held, outdated) in [(Key::new(1, 0, 8), true), (Key::new(2, 1, 8), true), (psn(8), false)] {
        let mut rig = rig(1);
        rig.one_in(OWN, &half(held, 0, &of_region(OWN)));
        let events = rig.offer_in(OWN, &first_half(psn(4)));
        if outdated {
            assert_eq!(events, [Event::EvictedPartial(held), opened(psn(4), 0)], "of {held:?}");
        } else {
            assert_eq!(events, [rejected(psn(4), Rejection::Stale)]);
        }
        rig.close();
    }
    let mut rig = rig(1);
    rig.one_in(OWN, &half(Key::new(1, 0, 8), 0, &server));
    let events = rig.offer_in(OWN, &first_half(psn(4)));
    assert!(
        matches!(&events[..], [Event::Evicted { cause: Cause::Age, .. }, Event::Opened(_)]),
        "where there is a server, it goes there: {events:?}"
    );
    rig.close();
}

/// A late duplicate can leave a partial that never completes, for instance in a way that the server has just
/// fetched from. The window has moved on and no rank waits for it: it must not keep its place forever.
#[test]
fn an_abandoned_partial_yields() {
    for server in [true, false] {
        let policy = Policy { server, ..of_region(OWN) };
        let mut rig = rig(1);
        rig.offer_in(OWN, &half(psn(4), 0, &policy));
        rig.offer_in(OWN, &Parcel::fetch(psn(4), 2).under(&policy));
        assert_eq!(rig.one_in(OWN, &half(psn(0), 0, &policy).at(TICK)), opened(psn(0), 0), "the duplicate");
        let newcomer = |now| half(psn(8), 0, &policy).at(now * TICK);
        assert_eq!(rig.one_in(OWN, &newcomer(1000)), rejected(psn(8), Rejection::Conflict), "not yet");
        let events = rig.offer_in(OWN, &newcomer(1002));
        let [gone, opening] = &events[..] else { panic!("{events:?}") };
        if server {
            assert!(matches!(gone, Event::Evicted { cause: Cause::Age, .. }), "{gone:?}");
        } else {
            assert_eq!(*gone, Event::EvictedPartial(psn(0)));
        }
        assert_eq!(*opening, opened(psn(8), 0));
        rig.close();
    }
    // Not one that is younger than another in its place: that one is waited for.
    let mut rig = rig(2);
    rig.offer_in(OWN, &first_half(psn(0)));
    rig.offer_in(OWN, &first_half(psn(4)));
    rig.offer_in(OWN, &first_half(psn(0)).at(2000 * TICK));
    assert_eq!(rig.one_in(OWN, &first_half(psn(8)).at(2001 * TICK)), rejected(psn(8), Rejection::Conflict));
    rig.close();
}

#[test]
fn the_conflict_policy_has_no_say_in_a_region() {
    for conflict in [ConflictPolicy::Preempt, ConflictPolicy::Always, ConflictPolicy::Coin] {
        let policy = Policy { conflict, server: true, ..of_region(OWN) };
        let mut rig = rig(1);
        rig.one_in(OWN, &half(psn(0), 0, &policy).priority(3));
        for now in 0..50 {
            let newcomer = half(psn(4), 0, &policy).priority(9).at(now);
            assert_eq!(rig.one_in(OWN, &newcomer), rejected(psn(4), Rejection::Conflict), "{conflict:?}");
        }
        let events = rig.offer_in(OWN, &Parcel::fetch(psn(0), 2).under(&policy));
        assert!(matches!(events[0], Event::Evicted { priority: 3, .. }), "{events:?}");
        rig.close();
    }
}

#[test]
fn a_quota_holds_in_a_region_too() {
    let policy = Policy { quota: 2, ..of_region(OWN) };
    let mut rig = rig(4);
    for number in 0..2 {
        assert_eq!(rig.one_in(OWN, &half(psn(number), 0, &policy)), opened(psn(number), 0));
    }
    assert_eq!(rig.one_in(OWN, &half(psn(2), 0, &policy)), rejected(psn(2), Rejection::Quota));
    rig.close();
}

#[test]
fn a_kept_result_that_is_too_old_for_its_place_is_given_out_and_not_kept() {
    let mut rig = rig(1);
    complete(&mut rig, psn(8));
    let kept = Parcel::install(psn(4), 0, 2, &[77]).under(&of_region(OWN));
    let event = rig.one_in(OWN, &kept);
    assert!(matches!(event, Event::PassedOn { .. }));
    assert_eq!(sum_of(&event).values, [77]);
    assert!(matches!(rig.one_in(OWN, &first_half(psn(8))), Event::Replayed(..)), "the younger one stays");
    // A younger one takes the place of a result, but not of a partial.
    let kept = |key| Parcel::install(key, 0, 2, &[77]).under(&of_region(OWN));
    let events = rig.offer_in(OWN, &kept(psn(12)));
    assert!(matches!(&events[..], [Event::EvictedResult(_), Event::Installed { .. }]), "{events:?}");
    rig.offer_in(OWN, &first_half(psn(16)));
    assert!(matches!(rig.one_in(OWN, &kept(psn(20))), Event::PassedOn { .. }));
    rig.close();
}
