//! How many slots a job may hold, which is asked before any conflict.

use pascaline_aggregator::{ConflictPolicy, Key, Policy, Rejection, SweepAction};

use super::{half, opened, psn, served};
use crate::common::{Event, Parcel, Rig, TICK, Who, sum_of};

fn limited(quota: u32) -> Policy {
    Policy { quota, ..served(ConflictPolicy::Preempt) }
}

fn beyond(key: Key) -> Event {
    Event::Rejected(Who { key, rank: 0 }, Rejection::Quota)
}

#[test]
fn a_job_gets_as_many_slots_as_its_quota_and_no_more() {
    for quota in [1, 2, 7] {
        let mut rig = Rig::new(8, 8);
        for number in 0..quota {
            assert_eq!(rig.one(&half(psn(number), 0, &limited(quota))), opened(psn(number), 0));
        }
        let newcomer = half(psn(100), 0, &limited(quota));
        let packet = newcomer.packet(&rig.memory);
        rig.sink.take();
        rig.session.offer(&newcomer.request, None, packet, &mut rig.sink);
        assert_eq!(rig.sink.events, [beyond(psn(100))]);
        assert_eq!(rig.sink.returned.len(), 1, "the packet is the caller's again");
        // Partials inside are completed nevertheless, and each completion makes room.
        for number in 0..quota {
            assert_eq!(rig.one(&half(psn(100 + number), 0, &limited(quota))), beyond(psn(100 + number)));
            assert_eq!(sum_of(&rig.one(&half(psn(number), 1, &limited(quota)))).values, [3]);
            assert_eq!(
                rig.offer(&half(psn(100 + number), 0, &limited(quota))).pop(),
                Some(opened(psn(100 + number), 0))
            );
        }
        rig.close();
    }
}

#[test]
fn a_job_without_a_quota_takes_what_there_is() {
    let mut rig = Rig::new(8, 8);
    for number in 0..8 {
        assert_eq!(rig.one(&half(psn(number), 0, &limited(0))), opened(psn(number), 0));
    }
    rig.close();
}

#[test]
fn other_jobs_are_not_concerned() {
    let mut rig = Rig::new(8, 8);
    rig.one(&half(psn(0), 0, &limited(1)));
    assert_eq!(rig.one(&half(psn(1), 0, &limited(1))), beyond(psn(1)));
    let other = |number| Key::new(2, 1, number);
    for number in 0..3 {
        assert_eq!(rig.one(&half(other(number), 0, &limited(3))), opened(other(number), 0));
    }
    assert_eq!(rig.one(&half(other(3), 0, &limited(3))), beyond(other(3)));
    // What one job gives back is not the other's.
    rig.one(&half(psn(0), 1, &limited(1)));
    assert_eq!(rig.one(&half(other(3), 0, &limited(3))), beyond(other(3)));
    assert_eq!(rig.one(&half(psn(1), 0, &limited(1))), opened(psn(1), 0));
    rig.close();
}

#[test]
fn a_quota_is_asked_before_a_conflict() {
    let mut rig = Rig::new(1, 1);
    rig.one(&half(psn(0), 0, &limited(1)).priority(8));
    for _ in 0..20 {
        let newcomer = half(psn(1), 0, &limited(1)).priority(u16::MAX);
        assert_eq!(rig.one(&newcomer), beyond(psn(1)), "not even at its own expense");
    }
    let events = rig.offer(&Parcel::fetch(psn(0), 2));
    assert!(
        matches!(events[0], Event::Evicted { priority: 8, .. }),
        "nor is the holder downgraded: {events:?}"
    );
    rig.close();
}

#[test]
fn results_are_not_counted() {
    let mut rig = Rig::new(8, 8);
    for number in 0..30 {
        let events = rig.offer(&half(psn(number), 0, &limited(1)));
        assert_eq!(events.last(), Some(&opened(psn(number), 0)));
        rig.one(&half(psn(number), 1, &limited(1)));
    }
    // Nor what is complete at once, nor what a rank had kept.
    rig.offer(&half(psn(40), 0, &limited(1)));
    let alone = Parcel::add(psn(41), 0, 1, &[1]).under(&limited(1));
    assert_eq!(rig.offer(&alone).pop(), Some(beyond(psn(41))));
    rig.one(&half(psn(40), 1, &limited(1)));
    for number in 41..50 {
        let alone = Parcel::add(psn(number), 0, 1, &[1]).under(&limited(1));
        assert!(matches!(rig.offer(&alone).last(), Some(Event::Completed { alone: true, .. })));
    }
    rig.offer(&half(psn(50), 0, &limited(1)));
    let kept = Parcel::install(psn(51), 0, 2, &[3]).under(&limited(1));
    assert!(matches!(rig.offer(&kept).last(), Some(Event::Installed { .. })), "a result needs no quota");
    rig.close();
}

/// Whatever ends a partial, its place in the quota is free again: once, and not twice.
#[test]
fn each_end_of_a_partial_gives_its_place_back() {
    type End = fn(&mut Rig) -> Vec<Event>;
    let one = limited(1);
    let ends: [(&str, End); 10] = [
        ("completion", |rig| rig.offer(&half(psn(0), 1, &limited(1)))),
        ("fetch", |rig| rig.offer(&Parcel::fetch(psn(0), 2))),
        ("install", |rig| rig.offer(&Parcel::install(psn(0), 1, 2, &[3]))),
        ("release", |rig| rig.offer(&Parcel::release(psn(0), 1, 2))),
        ("lowered threshold, a duplicate", |rig| rig.offer(&half(psn(0), 0, &limited(1)).needing(1))),
        ("lowered threshold, a reminder", |rig| rig.offer(&Parcel::remind(psn(0), 0, 2).needing(1))),
        ("sweep: vacated", |rig| rig.judge(1, |_, _| SweepAction::Vacate)),
        ("sweep: released", |rig| rig.judge(1, |_, _| SweepAction::Release)),
        ("age", |rig| {
            rig.offer(&half(Key::new(2, 1, 0), 0, &served(ConflictPolicy::FirstCome)).at(1002 * TICK))
        }),
        ("preemption", |rig| {
            rig.offer(&half(Key::new(2, 1, 0), 0, &served(ConflictPolicy::Preempt)).priority(9))
        }),
    ];
    for (end, act) in ends {
        let mut rig = Rig::new(1, 1);
        assert_eq!(rig.one(&half(psn(0), 0, &one)), opened(psn(0), 0), "{end}");
        let events = act(&mut rig);
        assert!(!events.is_empty() && !matches!(events[0], Event::Rejected(..)), "{end}: {events:?}");
        // The PSN that took the slot makes way.
        rig.judge(1, |_, _| SweepAction::Vacate);
        assert_eq!(rig.one(&half(psn(1), 0, &one)), opened(psn(1), 0), "{end}: the place is free");
        assert_eq!(rig.one(&half(psn(2), 0, &one)), beyond(psn(2)), "{end}: one place, not two");
        rig.close();
    }
}

#[test]
fn what_is_refused_is_not_counted() {
    let mut rig = Rig::new(1, 1);
    rig.one(&half(Key::new(2, 1, 0), 0, &Policy::default()));
    for _ in 0..5 {
        let event = rig.one(&half(psn(1), 0, &limited(1)));
        assert_eq!(event, Event::Rejected(Who { key: psn(1), rank: 0 }, Rejection::Conflict));
        rig.one(&half(psn(1), 0, &limited(1)).with(|r| r.fan_in = 3));
        rig.one(&half(psn(1), 0, &limited(1)).with(|r| r.count = 2));
        rig.one(&Parcel::remind(psn(1), 0, 2).under(&limited(1)));
    }
    rig.one(&half(Key::new(2, 1, 0), 1, &Policy::default()));
    assert_eq!(rig.offer(&half(psn(1), 0, &limited(1))).pop(), Some(opened(psn(1), 0)));
    rig.close();
}

#[test]
fn partials_of_the_last_generation_count_until_they_are_swept() {
    let mut rig = Rig::new(8, 8);
    rig.one(&half(psn(0), 0, &limited(1)));
    let next = Key::new(1, 2, 0);
    assert_eq!(rig.one(&half(next, 0, &limited(1))), beyond(next));
    assert_eq!(rig.sweep(1, |key| key.is_of(1)), [Event::EvictedPartial(psn(0))]);
    assert_eq!(rig.one(&half(next, 0, &limited(1))), opened(next, 0));
    rig.close();
}

#[test]
fn a_partial_counts_by_the_quota_that_its_job_had_when_it_was_opened() {
    let mut rig = Rig::new(8, 8);
    // Opened while the job had none.
    rig.one(&half(psn(0), 0, &limited(0)));
    assert_eq!(rig.one(&half(psn(1), 0, &limited(1))), opened(psn(1), 0));
    // A slot that was not counted gives nothing back.
    rig.one(&half(psn(0), 1, &limited(1)));
    assert_eq!(rig.one(&half(psn(2), 0, &limited(1))), beyond(psn(2)));
    // A counted one does, though the job has no quota any more.
    rig.one(&half(psn(1), 1, &limited(0)));
    assert_eq!(rig.one(&half(psn(2), 0, &limited(1))), opened(psn(2), 0));
    rig.close();
}
