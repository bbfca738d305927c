//! Sums of which there may be another one, and results that all ranks have agreed upon.

use pascaline_aggregator::{Cause, ConflictPolicy, Key, Order, Policy, Rejection};
use pascaline_wire::round;

use super::{psn, served};
use crate::common::{Event, Known, Parcel, Rig, Who, signature, sum_of};

const KEY: Key = psn(0);

fn policy() -> Policy {
    served(ConflictPolicy::FirstCome)
}

fn add(rank: u16, again: bool) -> Parcel {
    Parcel::add(KEY, rank, 3, &signature(rank, 3)).under(&policy()).with(|request| request.again = again)
}

fn result(round: u16, value: i32) -> Parcel {
    Parcel::install(KEY, 0, 3, &[value]).under(&policy()).priority(round)
}

#[test]
fn a_sum_with_a_contribution_that_was_sent_before_is_the_servers_business() {
    for sent_before in [[true, false, false], [false, false, true], [true, true, true]] {
        let mut rig = Rig::new(1, 1);
        for rank in 0..2 {
            rig.one(&add(rank, sent_before[usize::from(rank)]));
        }
        let events = rig.offer(&add(2, sent_before[2]));
        let [Event::Evicted { cause: Cause::Referred, ranks, .. }, Event::Added(who)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((&ranks[..], who.rank), (&[0, 1, 2][..], 2));
        assert_eq!(rig.sink.again, [sent_before[0]], "what opened the slot says whether all may have been");
        rig.close();
    }
}

#[test]
fn where_there_is_no_server_or_the_order_is_fixed_it_is_the_result() {
    for policy in [Policy::default(), Policy { order: Order::Rank, ..policy() }] {
        let mut rig = Rig::new(1, 1);
        for rank in 0..2 {
            rig.one(&add(rank, true).under(&policy));
        }
        assert!(matches!(rig.one(&add(2, true).under(&policy)), Event::Completed { .. }));
        assert_eq!(rig.sink.rounds, [round::NONE]);
        rig.close();
    }
}

#[test]
fn what_is_taken_from_its_slot_half_way_says_what_opened_it() {
    for (order, first, second) in [Order::Arrival, Order::Rank]
        .into_iter()
        .flat_map(|order| [(order, true, false), (order, false, true)])
    {
        let policy = Policy { order, ..policy() };
        let mut rig = Rig::new(1, 1);
        rig.one(&add(0, first).under(&policy));
        rig.one(&add(1, second).under(&policy));
        rig.offer(&Parcel::fetch(KEY, 3));
        assert_eq!(rig.sink.again, [first]);
        rig.close();
    }
}

#[test]
fn fewer_being_needed_makes_no_result_of_a_doubtful_sum_either() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0, true));
    rig.one(&add(1, false));
    let reminder = Parcel::remind(KEY, 2, 3).under(&policy()).needing(2);
    let events = rig.offer(&reminder);
    assert!(matches!(&events[0], Event::Evicted { cause: Cause::Referred, .. }), "{events:?}");
    assert_eq!(events[1], Event::Reminded(Who { key: KEY, rank: 2 }, Known::Unknown));
    rig.close();
}

#[test]
fn a_result_has_its_round_as_long_as_it_is_kept() {
    let mut rig = Rig::new(1, 1);
    for round in [7, round::TAKEN] {
        rig.offer(&result(round, 5));
        rig.offer(&add(1, true));
        rig.offer(&Parcel::fetch(KEY, 3));
        assert_eq!(rig.sink.rounds.last(), Some(&round));
    }
    // The next PSN in the slot has no agreement yet.
    for rank in 0..3 {
        let parcel = Parcel::add(psn(1), rank, 3, &signature(rank, 3)).under(&policy()).priority(9);
        rig.offer(&parcel.at(1 << 40));
    }
    assert_eq!(rig.sink.rounds, [round::NONE]);
    rig.close();
}

#[test]
fn what_has_been_agreed_upon_since_takes_the_place_of_what_was_made_before() {
    // The kept set, the new one, and whether it adds a rank.
    let cases = [
        (round::NONE, round::NONE, false),
        (round::NONE, 7, true),
        (round::NONE, round::TAKEN, true),
        (7, round::NONE, false),
        (7, 7, false),
        (7, 8, true),
        (7, round::TAKEN, true),
        (round::TAKEN, 7, false),
        (round::TAKEN, round::TAKEN, false),
    ];
    for (kept, comes, news) in cases {
        let mut rig = Rig::new(1, 1);
        rig.offer(&result(kept, 5));
        let events = rig.offer(&result(comes, 6));
        if news {
            assert!(matches!(events[0], Event::EvictedResult(KEY)), "{kept} {comes}: {events:?}");
            assert!(matches!(events[1], Event::Installed { .. }), "{kept} {comes}: {events:?}");
        } else {
            let who = Who { key: KEY, rank: 0 };
            assert_eq!(events, [Event::Rejected(who, Rejection::Duplicate)], "{kept} {comes}");
        }
        let left = rig.one(&Parcel::fetch(KEY, 3));
        let Event::Fetched(_, Some(left)) = &left else { panic!("{left:?}") };
        assert_eq!(left.values, [if news { 6 } else { 5 }]);
        rig.close();
    }
    // Without a server there are no agreements.
    let mut rig = Rig::new(1, 1);
    rig.offer(&result(round::NONE, 5).under(&Policy::default()));
    let event = rig.one(&result(round::TAKEN, 6).under(&Policy::default()));
    assert!(matches!(event, Event::Rejected(_, Rejection::Duplicate)), "{event:?}");
    rig.close();
}

#[test]
fn who_has_promised_to_wait_for_an_agreement_is_not_given_what_was_made_before() {
    let reminder = |promised| Parcel::remind(KEY, 2, 3).under(&policy()).priority(promised);
    for (kept, promised, given) in [
        (round::NONE, round::NONE, true),
        (round::NONE, 7, false),
        (7, 7, true),
        (7, 8, false),
        (round::TAKEN, 7, true),
    ] {
        let mut rig = Rig::new(1, 1);
        let installed = rig.one(&result(kept, 5));
        let known = if given { Known::Cached(sum_of(&installed).clone()) } else { Known::Unknown };
        assert_eq!(rig.one(&reminder(promised)), Event::Reminded(Who { key: KEY, rank: 2 }, known));
        rig.close();
    }
}
