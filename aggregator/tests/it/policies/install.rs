//! Results from elsewhere that are not of all ranks.

use pascaline_aggregator::{ConflictPolicy, Key, Rejection, Request};

use super::{half, psn, served};
use crate::common::{Event, Known, Parcel, Rig, Who, full_signature, signature, sum_of, sum_of_ranks};

const KEY: Key = psn(0);
/// Those inside of the four.
const INSIDE: [u16; 3] = [0, 2, 3];

fn values() -> Vec<i32> {
    sum_of_ranks(&INSIDE, 4)
}

fn kept() -> Parcel {
    Parcel::install_of(KEY, &INSIDE, 4, &values())
}

fn add(rank: u16) -> Parcel {
    Parcel::add(KEY, rank, 4, &signature(rank, 4))
}

#[track_caller]
fn rejected(parcel: &Parcel, why: Rejection) {
    for begun in [false, true] {
        let mut rig = Rig::new(1, 1);
        if begun {
            rig.one(&add(1));
        }
        let who = Who { key: KEY, rank: parcel.request.rank };
        assert_eq!(rig.one(parcel), Event::Rejected(who, why));
        assert_eq!(rig.sink.returned.len(), 1);
        assert_eq!(rig.session.packets(), usize::from(begun), "and nothing has changed");
        rig.close();
    }
}

#[test]
fn a_partial_result_is_kept_with_its_bitmap() {
    let mut rig = Rig::new(1, 1);
    let event = rig.one(&kept().at(9));
    let Event::Installed { who, sum } = &event else { panic!("{event:?}") };
    assert_eq!(*who, Who { key: KEY, rank: 0 });
    assert_eq!((sum.fan_in, sum.count, sum.first), (4, 3, 9));
    assert_eq!((&sum.values, &sum.inside), (&values(), &Some(INSIDE.to_vec())));
    let reminder = Parcel::remind(KEY, 1, 4);
    assert_eq!(rig.one(&reminder), Event::Reminded(Who { key: KEY, rank: 1 }, Known::Cached(sum.clone())));
    assert_eq!(
        rig.one(&add(1)),
        Event::Replayed(Who { key: KEY, rank: 1 }, sum.clone()),
        "the one left out, too"
    );
    rig.close();
}

#[test]
fn it_takes_the_place_of_a_partial_of_other_ranks() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(1));
    rig.one(&add(2));
    let events = rig.offer(&kept());
    assert!(matches!(&events[..], [Event::EvictedPartial(KEY), Event::Installed { .. }]), "{events:?}");
    assert_eq!(sum_of(&rig.one(&add(1))).inside, Some(INSIDE.to_vec()));
    rig.close();
}

#[test]
fn without_a_slot_it_is_given_out_with_its_bitmap() {
    let mut rig = Rig::new(1, 1);
    rig.one(&half(psn(1), 0, &served(ConflictPolicy::Always)));
    let event = rig.one(&kept().under(&served(ConflictPolicy::Always)));
    assert!(matches!(event, Event::PassedOn { .. }), "no result is worth a partial: {event:?}");
    assert_eq!((&sum_of(&event).values, &sum_of(&event).inside), (&values(), &Some(INSIDE.to_vec())));
    rig.close();
}

#[test]
fn the_count_must_be_what_the_bitmap_says() {
    for count in [1, 2, 4, 5, u16::MAX] {
        rejected(&kept().with(|r| r.count = count), Rejection::BadCount);
    }
    for inside in [&[][..], &[0, 2], &[0, 1, 2, 3]] {
        rejected(&Parcel { inside: Some(inside.to_vec()), ..kept() }, Rejection::BadCount);
    }
}

#[test]
fn the_bitmap_must_name_ranks_of_the_job() {
    for inside in [[0, 2, 4], [0, 2, 63], [4, 5, 6]] {
        rejected(&Parcel { inside: Some(inside.to_vec()), ..kept() }, Rejection::BadCount);
    }
}

#[test]
fn what_is_not_of_all_ranks_must_say_so() {
    let cases: [fn(&mut Request); 3] = [
        // Without the flag, what follows the payload is not read.
        |r| r.partial = false,
        // The flag says that there is a trailer: there is one, and it is of all of them.
        |r| r.count = 4,
        |r| r.count = 0,
    ];
    for change in cases {
        rejected(&kept().with(change), Rejection::BadCount);
    }
    // No trailer, no bitmap in it, or something behind it.
    rejected(&Parcel { inside: None, ..kept() }, Rejection::BadCount);
    rejected(&Parcel { inside: None, trailing: 12, ..kept() }, Rejection::BadCount);
    rejected(&Parcel { trailing: 1, ..kept() }, Rejection::BadCount);
    // One whose payload is not as long as it says.
    rejected(&kept().with(|r| r.len = 0), Rejection::BadCount);
    rejected(&kept().with(|r| r.len = 4), Rejection::BadCount);
    let mut rig = Rig::new(1, 1);
    let packet = kept().packet(&rig.memory);
    rig.session.offer(&kept().with(|r| r.offset = u16::MAX).request, None, packet, &mut rig.sink);
    assert!(
        matches!(rig.sink.events[..], [Event::Rejected(_, Rejection::BadCount)]),
        "one that ends before it"
    );
    rig.close();
}

#[test]
fn nobody_but_the_job_is_believed() {
    rejected(&kept().with(|r| r.rank = 4), Rejection::RankOutOfRange);
    rejected(&kept().with(|r| r.job_fan_in = 5), Rejection::FanInMismatch);
    rejected(&kept().with(|r| r.element = 0), Rejection::ElementUnsupported);
}

#[test]
fn a_bitmap_may_be_wider_than_the_jobs() {
    // The trailer is made for 100 ranks, the request for four.
    let made = kept().with(|r| r.fan_in = 100);
    let mut rig = Rig::new(1, 1);
    let packet = made.packet(&rig.memory);
    rig.session.offer(&kept().request, None, packet, &mut rig.sink);
    let events = rig.sink.take();
    let [Event::Installed { sum, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(sum.inside, Some(INSIDE.to_vec()));
    rig.close();
    // But not name ranks that the pool's bitmap does not have.
    let mut rig = Rig::new(1, 1);
    let packet = Parcel { inside: Some(vec![0, 2, 99]), ..made }.packet(&rig.memory);
    rig.session.offer(&kept().request, None, packet, &mut rig.sink);
    assert!(matches!(rig.sink.events[0], Event::Rejected(_, Rejection::BadCount)));
    rig.close();
}

#[test]
fn with_many_ranks() {
    let inside: Vec<u16> = (0..1024).filter(|rank| rank % 3 != 0).collect();
    let mut rig = Rig::<16>::of(&crate::common::config(1, 1));
    let kept = Parcel::install_of(KEY, &inside, 1024, &full_signature(1024));
    let event = rig.one(&kept);
    assert!(matches!(event, Event::Installed { .. }));
    assert_eq!(sum_of(&event).inside, Some(inside.clone()));
    let mut one_more = kept.clone();
    one_more.request.count += 1;
    rig.judge(1, |_, _| pascaline_aggregator::SweepAction::Vacate);
    assert!(matches!(rig.one(&one_more), Event::Rejected(_, Rejection::BadCount)));
    rig.close();
}
