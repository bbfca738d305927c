//! Partials that are sent out as they are, on request or because their time is up.

use pascaline_aggregator::{Key, Order, Policy, Rejection, SweepAction};
use pascaline_wire::{DType, Element, Op};

use super::{half, opened, psn};
use crate::common::{Event, Parcel, Rig, TICK, Who, full_signature, signature, sum_of, sum_of_ranks};

const KEY: Key = psn(0);

fn add(rank: u16) -> Parcel {
    Parcel::add(KEY, rank, 4, &signature(rank, 4))
}

#[test]
fn what_there_is_is_sent_out_and_kept() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(3).at(5));
    rig.one(&add(1).at(6));
    let asker = Who { key: KEY, rank: 2 };
    let events = rig.offer(&Parcel::release(KEY, 2, 4).at(7));
    let [Event::Released(sum), obeyed] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*obeyed, Event::Obeyed(asker));
    assert_eq!((sum.fan_in, sum.count, sum.first), (4, 2, 5));
    assert_eq!(sum.inside, Some(vec![1, 3]));
    assert_eq!(sum.values, sum_of_ranks(&[1, 3], 4));
    assert_eq!(rig.sink.returned.len(), 1, "the packet that asked");
    let sum = sum.clone();
    // Late ranks are not added any more: they get what the others got.
    for rank in 0..4 {
        assert_eq!(rig.one(&add(rank)), Event::Replayed(Who { key: KEY, rank }, sum.clone()));
    }
    // There is no second result either: a repeated request gets the first.
    assert_eq!(rig.one(&Parcel::release(KEY, 2, 4)), Event::Replayed(asker, sum));
    rig.close();
}

#[test]
fn of_an_unknown_psn_there_is_nothing_to_send() {
    let mut rig = Rig::new(1, 1);
    let who = Who { key: KEY, rank: 1 };
    assert_eq!(rig.one(&Parcel::release(KEY, 1, 4)), Event::Rejected(who, Rejection::UnknownPsn));
    rig.one(&half(psn(1), 0, &Policy::default()));
    assert_eq!(rig.one(&Parcel::release(KEY, 1, 4)), Event::Rejected(who, Rejection::UnknownPsn));
    assert_eq!(rig.session.packets(), 1, "and nothing has come of it");
    rig.close();
}

#[test]
fn a_complete_result_is_given_as_it_is() {
    let mut rig = Rig::new(1, 1);
    for rank in 0..4 {
        rig.one(&add(rank));
    }
    let event = rig.one(&Parcel::release(KEY, 1, 4));
    assert!(matches!(event, Event::Replayed(..)));
    assert_eq!((&sum_of(&event).values, &sum_of(&event).inside), (&full_signature(4), &None));
    rig.close();
}

#[test]
fn what_was_kept_until_the_end_is_added_by_then() {
    let by_rank = Policy { order: Order::Rank, ..Policy::default() };
    let mut rig = Rig::new(1, 1);
    for rank in [2, 0, 3] {
        rig.one(&add(rank).under(&by_rank));
    }
    let events = rig.offer(&Parcel::release(KEY, 2, 4).under(&by_rank));
    let sum = sum_of(&events[0]);
    assert_eq!((sum.count, &sum.inside), (3, &Some(vec![0, 2, 3])));
    assert_eq!(sum.values, sum_of_ranks(&[0, 2, 3], 4));
    assert_eq!(rig.session.packets(), 1);
    rig.close();

    // 1.0 and 2.0 in bfloat16, two of each in a word.
    let element = Element { dtype: DType::Bf16, op: Op::Sum };
    let mut rig = Rig::new(1, 1);
    for (rank, value) in [(2, 0x3f80_3f80), (0, 0x4000_4000)] {
        rig.one(&Parcel::add(KEY, rank, 4, &[value]).of(element));
    }
    let events = rig.offer(&Parcel::release(KEY, 2, 4));
    assert_eq!(
        (&sum_of(&events[0]).values[..], sum_of(&events[0]).element),
        (&[0x4040_4040][..], element.code())
    );
    rig.close();
}

#[test]
fn a_sweep_sends_out_what_has_waited_too_long() {
    let mut rig = Rig::new(8, 4);
    // Opened at different times, and one complete.
    for (number, now) in [(0, 10), (1, 20), (2, 30)] {
        assert_eq!(rig.one(&half(psn(number), 0, &Policy::default()).at(now * TICK)), opened(psn(number), 0));
    }
    rig.one(&half(psn(0), 1, &Policy::default()));
    let judge = |key: Key, first: Option<u64>| {
        assert_eq!(first.is_some(), key != psn(0), "a result has no time");
        if first.is_some_and(|first| first <= 20 * TICK) { SweepAction::Release } else { SweepAction::Keep }
    };
    let events = rig.judge(2, judge);
    let [Event::Released(sum)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((sum.key, sum.count, &sum.inside), (psn(1), 1, &Some(vec![0])));
    // The third goes on.
    assert_eq!(sum_of(&rig.one(&half(psn(2), 1, &Policy::default()))).values, [3]);
    assert_eq!(rig.judge(2, |_, _| SweepAction::Release), [], "results are not sent out again");
    rig.close();
}
