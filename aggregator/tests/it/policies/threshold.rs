//! PSNs that are complete without all ranks.

use pascaline_aggregator::{Key, Policy, Region, Rejection};
use pascaline_buffer::HeapPool;

use super::{of_region, opened, psn};
use crate::common::{Event, Known, Parcel, Rig, Sum, Who, full_signature, signature, sum_of};

/// The whole pool of the rig.
const ALL: Region = Region { first: 0, sets: 1 };
const KEY: Key = psn(0);

fn policy() -> Policy {
    of_region(ALL)
}

fn add(rank: u16, fan_in: u16, needed: u16) -> Parcel {
    Parcel::add(KEY, rank, fan_in, &signature(rank, fan_in)).under(&policy()).needing(needed)
}

fn who(rank: u16) -> Who {
    Who { key: KEY, rank }
}

/// What the sum of these ranks says.
#[track_caller]
fn assert_inside(sum: &Sum, ranks: &[u16], fan_in: u16) {
    let mut values = vec![0; full_signature(fan_in).len()];
    for &rank in ranks {
        values.iter_mut().zip(signature(rank, fan_in)).for_each(|(a, b)| *a += b);
    }
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    let all = ranks.len() == usize::from(fan_in);
    assert_eq!(sum.values, values);
    assert_eq!((sum.fan_in, usize::from(sum.count)), (fan_in, ranks.len()));
    assert_eq!(sum.inside, (!all).then_some(ranks), "who is inside, unless all are");
}

#[test]
fn h_of_n_complete_a_psn_and_the_result_says_which() {
    for fan_in in [1, 2, 5, 64] {
        for needed in 1..=fan_in {
            let mut rig = Rig::new(1, 1);
            // The highest ranks first.
            let order: Vec<u16> = (0..fan_in).rev().collect();
            let (early, late) = order.split_at(usize::from(needed));
            let (last, others) = early.split_last().unwrap();
            for (at, &rank) in others.iter().enumerate() {
                let event = rig.one_in(ALL, &add(rank, fan_in, needed));
                assert_eq!(event, if at == 0 { opened(KEY, rank) } else { Event::Added(who(rank)) });
            }
            let done = rig.one_in(ALL, &add(*last, fan_in, needed));
            let Event::Completed { who: by, alone, sum } = &done else { panic!("{done:?}") };
            assert_eq!((*by, *alone), (who(*last), needed == 1));
            assert_inside(sum, early, fan_in);
            // A rank that comes late, or again, gets the same.
            for &rank in late.iter().chain(early) {
                let event = rig.one_in(ALL, &add(rank, fan_in, needed));
                assert_eq!(event, Event::Replayed(who(rank), sum.clone()));
            }
            rig.close();
        }
    }
}

#[test]
fn h_of_n_with_many_ranks() {
    let (fan_in, needed) = (1024, 963);
    let mut rig = Rig::<16>::of(&crate::common::config(1, 1));
    // No two neighbours after each other.
    let order: Vec<u16> = (0..1024u32).map(|n| (n * 387 % 1024) as u16).collect();
    let early = &order[..usize::from(needed)];
    let events: Vec<Event> = early.iter().map(|&rank| rig.one_in(ALL, &add(rank, fan_in, needed))).collect();
    assert_inside(sum_of(events.last().unwrap()), early, fan_in);
    rig.close();
}

#[test]
fn a_threshold_works_on_what_is_kept_until_the_end() {
    let by_rank = Policy { order: pascaline_aggregator::Order::Rank, ..policy() };
    let mut rig = Rig::new(1, 1);
    let add = |rank| add(rank, 5, 3).under(&by_rank);
    rig.one_in(ALL, &add(4));
    rig.one_in(ALL, &add(0));
    let done = rig.one_in(ALL, &add(2));
    assert_inside(sum_of(&done), &[0, 2, 4], 5);
    assert_eq!(rig.session.packets(), 1);
    rig.close();
}

#[test]
fn a_lowered_threshold_completes_at_the_next_sign_of_life() {
    // A duplicate gets only the answer that all get.
    let mut rig = Rig::new(1, 1);
    for rank in 0..3 {
        rig.one_in(ALL, &add(rank, 5, 5));
    }
    let events = rig.offer_in(ALL, &add(1, 5, 3));
    let [Event::Released(sum), refused] = &events[..] else { panic!("{events:?}") };
    assert_inside(sum, &[0, 1, 2], 5);
    assert_eq!(*refused, Event::Rejected(who(1), Rejection::Duplicate));
    let sum = sum.clone();
    assert_eq!(rig.one_in(ALL, &add(4, 5, 3)), Event::Replayed(who(4), sum));
    rig.close();

    let mut rig = Rig::new(1, 1);
    for rank in 0..3 {
        rig.one_in(ALL, &add(rank, 5, 5));
    }
    let reminder = |needed| Parcel::remind(KEY, 0, 5).under(&policy()).needing(needed);
    assert_eq!(rig.one_in(ALL, &reminder(4)), Event::Reminded(who(0), Known::Partial(vec![0, 1, 2])));
    let events = rig.offer_in(ALL, &reminder(3));
    let [Event::Released(sum), Event::Reminded(_, Known::Cached(kept))] = &events[..] else {
        panic!("{events:?}")
    };
    assert_inside(sum, &[0, 1, 2], 5);
    assert_eq!(sum, kept);
    rig.close();

    // The contribution that finds that more are there already than are needed is not turned away.
    let mut rig = Rig::new(1, 1);
    for rank in 0..3 {
        rig.one_in(ALL, &add(rank, 5, 5));
    }
    assert_inside(sum_of(&rig.one_in(ALL, &add(4, 5, 2))), &[0, 1, 2, 4], 5);
    rig.close();
}

#[test]
fn a_raised_threshold_waits_for_more() {
    let mut rig = Rig::new(1, 1);
    rig.one_in(ALL, &add(0, 5, 3));
    rig.one_in(ALL, &add(1, 5, 3));
    assert_eq!(rig.one_in(ALL, &add(2, 5, 5)), Event::Added(who(2)));
    assert_eq!(rig.one_in(ALL, &add(0, 5, 5)), Event::Rejected(who(0), Rejection::Duplicate));
    assert_eq!(rig.one_in(ALL, &add(3, 5, 5)), Event::Added(who(3)));
    assert_inside(sum_of(&rig.one_in(ALL, &add(4, 5, 5))), &[0, 1, 2, 3, 4], 5);
    rig.close();
}

/// How many a job needs says nothing about a PSN that was begun with another number of ranks.
#[test]
fn a_threshold_of_another_number_of_ranks_does_not_count() {
    let of_two = |parcel: Parcel| parcel.with(|r| (r.job_fan_in, r.needed) = (2, 2));
    let begin = || {
        let mut rig = Rig::new(1, 1);
        rig.one_in(ALL, &add(0, 5, 5));
        rig
    };
    // A contribution.
    let mut rig = begin();
    assert_eq!(rig.one_in(ALL, &of_two(add(1, 5, 5))), Event::Added(who(1)));
    // A duplicate.
    assert_eq!(rig.one_in(ALL, &of_two(add(1, 5, 5))), Event::Rejected(who(1), Rejection::Duplicate));
    // A reminder.
    let reminder = of_two(Parcel::remind(KEY, 0, 5).under(&policy()));
    assert_eq!(rig.one_in(ALL, &reminder), Event::Reminded(who(0), Known::Partial(vec![0, 1])));
    for rank in 2..4 {
        assert_eq!(
            rig.one_in(ALL, &of_two(add(rank, 5, 5)).with(|r| r.rank = rank)),
            Event::Added(who(rank))
        );
    }
    // All that the PSN was begun with complete it, whatever the job says.
    assert_inside(sum_of(&rig.one_in(ALL, &of_two(add(4, 5, 5)))), &[0, 1, 2, 3, 4], 5);
    rig.close();

    let mut rig = begin();
    for rank in 1..5 {
        // More than any PSN of the old kind can have now.
        let more = add(rank, 5, 5).with(|r| (r.job_fan_in, r.needed) = (9, 9));
        assert_eq!(rig.one_in(ALL, &more), Event::Added(who(rank)));
    }
    let events = rig.offer_in(ALL, &add(3, 5, 5).with(|r| (r.job_fan_in, r.needed) = (9, 9)));
    assert!(
        matches!(&events[..], [Event::Released(sum), Event::Rejected(..)] if sum.count == 5),
        "{events:?}"
    );
    rig.close();
}

#[test]
fn without_room_to_say_who_is_inside_a_partial_is_given_up() {
    for needed in [1, 2] {
        let mut rig = Rig::<16>::of(&crate::common::config(1, 1));
        let quota = Policy { quota: 1, ..policy() };
        let mut events = Vec::new();
        for rank in 0..needed {
            let parcel = add(rank, 1024, needed).under(&quota);
            let memory = HeapPool::clone(&rig.memory);
            let packet = parcel.packet_with_room(&memory, 0);
            rig.sink.take();
            rig.session.offer(&parcel.request, Some(ALL), packet, &mut rig.sink);
            events = std::mem::take(&mut rig.sink.events);
        }
        let [Event::EvictedPartial(key), taken] = &events[..] else { panic!("{events:?}") };
        assert_eq!(*key, KEY);
        let last = who(needed - 1);
        assert_eq!(*taken, if needed == 1 { Event::Opened(last) } else { Event::Added(last) });
        assert_eq!(rig.session.packets(), 0);
        // The place is free, and so is the one in the quota.
        assert_eq!(rig.one_in(ALL, &add(0, 1024, 2).under(&quota)), opened(KEY, 0));
        rig.close();
    }
}
