//! Who gets a slot that holds another PSN's partial.

use pascaline_aggregator::{Cause, ConflictPolicy, Key, Policy, Rejection};

use super::{half, opened, psn, served};
use crate::common::{Event, Parcel, Rig, TICK, Who, sum_of};

/// One set, which is full of partials of these priorities: PSN 0 in the first way, and so on.
fn full(priorities: &[u16], holders: &Policy) -> Rig {
    let mut rig = Rig::new(priorities.len(), priorities.len());
    for (number, &priority) in (0..).zip(priorities) {
        let key = psn(number);
        assert_eq!(rig.one(&half(key, 0, holders).priority(priority)), opened(key, 0));
    }
    rig
}

fn rejected(key: Key, why: Rejection) -> Event {
    Event::Rejected(Who { key, rank: 0 }, why)
}

/// The priority that a partial has by now.
fn priority_of(rig: &mut Rig, key: Key) -> u16 {
    match rig.offer(&Parcel::fetch(key, 2)).first() {
        Some(Event::Evicted { cause: Cause::Fetched, priority, .. }) => *priority,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_come_keeps_the_holder_whatever_the_newcomer_is_worth() {
    let policy = served(ConflictPolicy::FirstCome);
    let mut rig = full(&[0, 0], &policy);
    for _ in 0..100 {
        let newcomer = half(psn(7), 0, &policy).priority(u16::MAX);
        assert_eq!(rig.one(&newcomer), rejected(psn(7), Rejection::Conflict));
    }
    for key in [psn(0), psn(1)] {
        assert_eq!(sum_of(&rig.one(&half(key, 1, &policy))).values, [3]);
    }
    rig.close();
}

#[test]
fn a_higher_priority_preempts_and_the_loser_goes_to_the_server_whole() {
    let policy = served(ConflictPolicy::Preempt);
    let mut rig = full(&[5], &policy);
    let events = rig.offer(&half(psn(1), 0, &policy).priority(6));
    let [Event::Evicted { cause, ranks, priority, sum }, opening] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*cause, ranks.as_slice(), *priority), (Cause::Preempted, [0].as_slice(), 5));
    assert_eq!((sum.key, sum.values.as_slice(), sum.fan_in, sum.count), (psn(0), [1].as_slice(), 2, 1));
    assert_eq!(*opening, opened(psn(1), 0));
    // The newcomer is the holder now, and nothing of the loser is left.
    assert_eq!(sum_of(&rig.one(&half(psn(1), 1, &policy))).values, [3]);
    rig.close();
}

#[test]
fn an_equal_priority_loses_and_halves_the_holders() {
    let policy = served(ConflictPolicy::Preempt);
    for (holder, newcomer, left) in [(5, 5, 2), (5, 0, 2), (1, 1, 0), (u16::MAX, 9, u16::MAX / 2)] {
        let mut rig = full(&[holder], &policy);
        let event = rig.one(&half(psn(1), 0, &policy).priority(newcomer));
        assert_eq!(event, rejected(psn(1), Rejection::Conflict), "{newcomer} against {holder}");
        assert_eq!(priority_of(&mut rig, psn(0)), left);
        rig.close();
    }
}

#[test]
fn a_holder_is_downgraded_until_it_yields() {
    let policy = served(ConflictPolicy::Preempt);
    for (holder, newcomer) in [(u16::MAX, 1), (u16::MAX, u16::MAX - 1), (100, 99), (7, 3), (1, 1)] {
        let mut rig = full(&[holder], &policy);
        let halvings = (0..).take_while(|n| u32::from(holder) >> n >= u32::from(newcomer)).count();
        let attempt = half(psn(1), 0, &policy).priority(newcomer);
        for _ in 0..halvings {
            assert_eq!(rig.one(&attempt), rejected(psn(1), Rejection::Conflict));
        }
        let events = rig.offer(&attempt);
        assert!(
            matches!(
                &events[..],
                [Event::Evicted { priority, .. }, Event::Opened(_)] if *priority < newcomer
            ),
            "after {halvings} failures: {events:?}"
        );
        rig.close();
    }
}

#[test]
fn what_is_worth_nothing_preempts_nothing() {
    let policy = served(ConflictPolicy::Preempt);
    let mut rig = full(&[0], &policy);
    for _ in 0..100 {
        assert_eq!(rig.one(&half(psn(1), 0, &policy)), rejected(psn(1), Rejection::Conflict));
    }
    rig.close();
}

#[test]
fn of_several_holders_the_least_important_is_taken_and_only_it_is_downgraded() {
    let policy = served(ConflictPolicy::Preempt);
    let newcomer = |priority| half(psn(9), 0, &policy).priority(priority);
    let mut rig = full(&[8, 4, 6, 9], &policy);
    assert_eq!(rig.one(&newcomer(4)), rejected(psn(9), Rejection::Conflict));
    let events = rig.offer(&newcomer(3));
    assert!(matches!(&events[0], Event::Evicted { priority: 2, sum, .. } if sum.key == psn(1)), "{events:?}");
    let others = [psn(0), psn(2), psn(3)].map(|key| priority_of(&mut rig, key));
    assert_eq!(others, [8, 6, 9]);
    rig.close();
}

#[test]
fn only_what_a_server_can_complete_is_taken_from_its_slot() {
    let alone = Policy { server: false, ..served(ConflictPolicy::Preempt) };
    for conflict in ConflictPolicy::ALL {
        let mut rig = full(&[0], &alone);
        for now in 0..50 {
            let newcomer = half(psn(1), 0, &served(conflict)).priority(u16::MAX).at(now * TICK);
            assert_eq!(rig.one(&newcomer), rejected(psn(1), Rejection::Conflict), "{conflict:?}");
        }
        assert_eq!(sum_of(&rig.one(&half(psn(0), 1, &alone))).values, [3]);
        rig.close();
    }
}

#[test]
fn holders_without_a_server_are_passed_over_and_not_downgraded() {
    let mut rig = Rig::new(2, 2);
    let policy = served(ConflictPolicy::Preempt);
    rig.one(&half(psn(0), 0, &Policy { server: false, ..policy }).priority(1));
    rig.one(&half(psn(1), 0, &policy).priority(9));
    assert_eq!(rig.one(&half(psn(2), 0, &policy).priority(5)), rejected(psn(2), Rejection::Conflict));
    let events = rig.offer(&half(psn(2), 0, &policy).priority(5));
    assert!(matches!(&events[0], Event::Evicted { priority: 4, sum, .. } if sum.key == psn(1)), "{events:?}");
    rig.close();
}

#[test]
fn it_is_the_newcomers_policy_that_counts() {
    let mut rig = full(&[0], &served(ConflictPolicy::Always));
    let modest = half(psn(1), 0, &served(ConflictPolicy::FirstCome));
    assert_eq!(rig.one(&modest), rejected(psn(1), Rejection::Conflict));
    // Whether it has a server itself does not matter for what it takes, only for what it loses.
    let alone = Policy { server: false, ..served(ConflictPolicy::Always) };
    let events = rig.offer(&half(psn(1), 0, &alone));
    assert!(
        matches!(&events[..], [Event::Evicted { cause: Cause::Preempted, .. }, Event::Opened(_)]),
        "{events:?}"
    );
    assert_eq!(
        rig.one(&half(psn(2), 0, &served(ConflictPolicy::Always))),
        rejected(psn(2), Rejection::Conflict),
        "what has no server stays"
    );
    rig.close();
}

#[test]
fn always_takes_the_partial_longest_out_of_use_whatever_it_is_worth() {
    let policy = served(ConflictPolicy::Always);
    let mut rig = full(&[9, 1, 9, 0], &policy);
    // A duplicate keeps a partial in use.
    for (key, now) in [(psn(0), 3), (psn(1), 5), (psn(2), 4), (psn(3), 6)] {
        rig.one(&half(key, 0, &policy).at(now * TICK));
    }
    for (newcomer, loser) in
        [(psn(4), psn(0)), (psn(5), psn(2)), (psn(6), psn(1)), (psn(7), psn(3)), (psn(8), psn(4))]
    {
        let now = 6 + u64::from(newcomer.psn());
        let events = rig.offer(&half(newcomer, 0, &policy).at(now * TICK));
        assert!(
            matches!(&events[0], Event::Evicted { cause: Cause::Preempted, sum, .. } if sum.key == loser),
            "{events:?}"
        );
        assert_eq!(events[1], opened(newcomer, 0));
    }
    rig.close();
}

/// Which of a thousand newcomers get the slot.
fn coins() -> Vec<bool> {
    let policy = served(ConflictPolicy::Coin);
    let mut rig = full(&[9], &policy);
    let won = (1..=1000)
        .map(|number| {
            let events = rig.offer(&half(psn(number), 0, &policy).at(u64::from(number)));
            match &events[..] {
                [Event::Evicted { cause: Cause::Preempted, .. }, Event::Opened(_)] => true,
                [Event::Rejected(_, Rejection::Conflict)] => false,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    rig.close();
    won
}

#[test]
fn a_coin_falls_either_way_and_the_same_way_again() {
    let won = coins();
    let heads = won.iter().filter(|&&won| won).count();
    // A fair coin leaves this range once in 10^10 times.
    assert!((400..=600).contains(&heads), "{heads} of 1,000");
    assert_eq!(won, coins(), "the same packets at the same times");
    // A newcomer that is sent again has another chance.
    let policy = served(ConflictPolicy::Coin);
    let mut rig = full(&[9], &policy);
    let attempts = (0..100).map(|now| rig.offer(&half(psn(1), 0, &policy).at(now)).len());
    assert!(attempts.into_iter().any(|events| events == 2));
    rig.close();
}

#[test]
fn what_nobody_needs_goes_before_any_conflict() {
    for conflict in ConflictPolicy::ALL {
        let policy = served(conflict);
        let mut rig = full(&[0], &policy);
        rig.one(&half(psn(0), 1, &policy));
        assert_eq!(
            rig.offer(&half(psn(1), 0, &policy).at(1)),
            [Event::EvictedResult(psn(0)), opened(psn(1), 0)],
            "{conflict:?}: a kept result"
        );
        rig.close();

        let mut rig = full(&[u16::MAX], &policy);
        let late = 1001 * TICK;
        let events = rig.offer(&half(psn(1), 0, &policy).at(late + TICK));
        assert!(
            matches!(&events[..], [Event::Evicted { cause: Cause::Age, .. }, Event::Opened(_)]),
            "{conflict:?}: a partial beyond the age limit goes to the server: {events:?}"
        );
        rig.close();
    }
}
