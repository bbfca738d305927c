//! Contributions that are combined on their way to the lcore that is at home in their set.

use pascaline_aggregator::{Cause, ConflictPolicy, Key, Order, Policy, Pool, Rejection, Session};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_wire::{DType, Element, Op};
use proptest::prelude::*;

use crate::common::{Event, Parcel, Recorder, Who, config, full_signature, signature, sum_of};

/// Two lcores: the first is at home in the sets of even PSNs.
struct Two<const WORDS: usize = 1> {
    home: Session<HeapBuf, WORDS>,
    away: Session<HeapBuf, WORDS>,
    sink: Recorder,
    memory: HeapPool,
}

impl<const WORDS: usize> Two<WORDS> {
    fn new(slots: usize) -> Self {
        let mut sessions = Pool::sessions(&config(slots, 1), Kernels::detect(), 2).unwrap();
        let (away, home) = (sessions.pop().unwrap(), sessions.pop().unwrap());
        Self { home, away, sink: Recorder::default(), memory: HeapPool::new() }
    }

    /// The other lcore receives it.
    fn away(&mut self, parcel: &Parcel) -> Vec<Event> {
        self.away.offer(&parcel.request, None, parcel.packet(&self.memory), &mut self.sink);
        self.sink.take()
    }

    fn home(&mut self, parcel: &Parcel) -> Vec<Event> {
        self.home.offer(&parcel.request, None, parcel.packet(&self.memory), &mut self.sink);
        self.sink.take()
    }

    /// Packets in flight arrive.
    fn arrive(&mut self) -> Vec<Event> {
        self.away.resume(&mut self.sink);
        assert!(self.sink.take().is_empty());
        self.home.resume(&mut self.sink);
        self.sink.take()
    }

    #[track_caller]
    fn close(self) {
        drop((self.home, self.away, self.sink));
        assert_eq!(self.memory.live(), 0, "packets leaked");
    }
}

const KEY: Key = Key::new(1, 1, 6);

fn part(rank: u16, fan_in: u16) -> Parcel {
    Parcel::add(KEY, rank, fan_in, &signature(rank, fan_in))
}

fn who(rank: u16) -> Who {
    Who { key: KEY, rank }
}

#[test]
fn all_ranks_of_a_psn_cross_as_one_packet() {
    let mut two = Two::<1>::new(4);
    assert_eq!(two.away(&part(0, 64)), [Event::HandedOff]);
    for rank in 1..64 {
        assert_eq!(two.away(&part(rank, 64)), [Event::Added(who(rank))]);
    }
    assert_eq!(two.memory.live(), 1, "the others have been given back");
    let said = two.arrive();
    let [Event::Completed { who: first, alone: true, sum }] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((*first, sum.count, sum.inside.clone()), (who(0), 64, None));
    assert_eq!(sum.values, full_signature(64));
    two.close();
}

#[test]
fn what_comes_from_both_sides_meets_in_the_slot() {
    for first_at_home in [false, true] {
        let mut two = Two::<1>::new(4);
        let at_home = |two: &mut Two| (0..3).flat_map(|rank| two.home(&part(rank, 6))).last();
        let before = first_at_home.then(|| at_home(&mut two)).flatten();
        for rank in 3..6 {
            two.away(&part(rank, 6));
        }
        let arrived = two.arrive().pop();
        let last = if first_at_home { arrived } else { at_home(&mut two) }.unwrap();
        assert!(!matches!(before, Some(Event::Completed { .. })));
        assert_eq!(sum_of(&last).values, full_signature(6));
        two.close();
    }
}

#[test]
fn a_rank_is_not_combined_with_itself() {
    let mut two = Two::<1>::new(4);
    for (rank, said) in
        [(1, Event::HandedOff), (2, Event::Added(who(2))), (2, Event::HandedOff), (1, Event::Added(who(1)))]
    {
        assert_eq!(two.away(&part(rank, 4)), [said]);
    }
    // Two times the same two: the second is none of the pool's.
    let said = two.arrive();
    assert_eq!(said, [Event::Opened(who(1)), Event::Rejected(who(2), Rejection::Duplicate)]);
    two.away(&part(0, 4));
    two.away(&part(3, 4));
    assert_eq!(sum_of(two.arrive().last().unwrap()).values, full_signature(4));
    two.close();
}

#[test]
fn if_one_of_them_is_inside_none_is_added_and_all_may_come_again() {
    let mut two = Two::<1>::new(4);
    two.home(&part(1, 3));
    two.away(&part(0, 3));
    two.away(&part(1, 3));
    assert_eq!(two.arrive(), [Event::Rejected(who(0), Rejection::Duplicate)]);
    // Sent again, each for itself.
    for rank in [0, 1] {
        assert_eq!(two.away(&part(rank, 3).with(|r| r.again = true)), [Event::HandedOff]);
    }
    assert_eq!(two.arrive(), [Event::Added(who(0)), Event::Rejected(who(1), Rejection::Duplicate)]);
    two.away(&part(2, 3));
    assert_eq!(sum_of(&two.arrive()[0]).values, full_signature(3));
    // And when there is a result.
    two.away(&part(0, 3));
    two.away(&part(2, 3));
    assert_eq!(two.arrive(), [Event::Rejected(who(0), Rejection::Duplicate)]);
    two.close();
}

/// Offered after an ordinary contribution of rank 0, and must travel by itself.
#[test]
fn what_is_special_or_different_is_not_combined() {
    let rank = Policy { order: Order::Rank, ..Policy::default() };
    let region = Policy { conflict: ConflictPolicy::Always, server: true, ..Policy::default() };
    let cases: [(&str, Parcel); 12] = [
        ("sent again", part(1, 4).with(|r| r.again = true)),
        ("saturated", part(1, 4).with(|r| r.overflow = true)),
        ("another PSN", Parcel::add(Key::new(1, 1, 8), 1, 4, &signature(1, 4))),
        ("another generation", Parcel::add(Key::new(1, 2, 6), 1, 4, &signature(1, 4))),
        ("another fan-in", part(1, 5)),
        ("another length", Parcel::add(KEY, 1, 4, &[1, 2, 3])),
        ("another type", part(1, 4).of(Element::F32_SUM)),
        ("another policy", part(1, 4).under(&region)),
        ("by rank", part(1, 4).under(&rank)),
        ("fewer are enough", part(1, 4).needing(3)),
        ("a reminder", Parcel::remind(KEY, 1, 4)),
        ("a result", Parcel::install(KEY, 1, 4, &full_signature(4))),
    ];
    for (what, parcel) in cases {
        let mut two = Two::<1>::new(4);
        two.away(&part(0, 4));
        assert_eq!(two.away(&parcel), [Event::HandedOff], "{what}");
        two.arrive();
        two.close();
    }
    // Nor anything with what says that it is of none, or of two, whichever comes first.
    for count in [0, 2] {
        for first in [true, false] {
            let (bad, good) = (part(0, 4).with(|r| r.count = count), part(1, 4));
            let both = if first { [bad, good] } else { [good, bad] };
            let mut two = Two::<1>::new(4);
            for parcel in &both {
                assert_eq!(two.away(parcel), [Event::HandedOff], "count {count}");
            }
            let events = two.arrive();
            let refused = Event::Rejected(Who { key: KEY, rank: 0 }, Rejection::BadCount);
            assert!(events.contains(&refused), "count {count}: {events:?}");
            two.close();
        }
    }
    // Nor are two that are alike in that.
    for policy in [rank, Policy::default()] {
        let sixteen = Element { dtype: DType::F16, op: Op::Sum };
        let element = if policy.order == Order::Rank { Element::F32_SUM } else { sixteen };
        let mut two = Two::<1>::new(4);
        for rank in 0..2 {
            assert_eq!(two.away(&part(rank, 4).of(element).under(&policy)), [Event::HandedOff]);
        }
        two.arrive();
        two.close();
    }
}

#[test]
fn ranks_beyond_the_sixty_fourth_travel_by_themselves() {
    let mut two = Two::<16>::new(4);
    let mut crossed = 0;
    for rank in 0..200 {
        let said = two.away(&part(rank, 200));
        crossed += usize::from(said == [Event::HandedOff]);
    }
    assert_eq!(crossed, 1 + 200 - 64);
    let mut said = two.arrive();
    said.extend(two.arrive());
    assert_eq!(sum_of(said.last().unwrap()).values, full_signature(200));
    two.close();
}

#[test]
fn what_finds_no_slot_goes_to_the_parameter_server_as_a_partial() {
    let policy = Policy { conflict: ConflictPolicy::FirstCome, server: true, ..Policy::default() };
    let mut two = Two::<1>::new(2);
    let holder = Parcel::add(Key::new(1, 1, 2), 0, 4, &[7]).under(&policy);
    two.home(&holder);
    two.away(&part(1, 4).under(&policy));
    two.away(&part(3, 4).under(&policy));
    let said = two.arrive();
    let [Event::Opened(first), Event::Evicted { cause, ranks, sum, .. }] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!((*first, *cause), (who(1), Cause::NoRoom(Rejection::Conflict)));
    assert_eq!((ranks.as_slice(), sum.count), ([1, 3].as_slice(), 2));
    let mut expected = signature(1, 4);
    expected.iter_mut().zip(signature(3, 4)).for_each(|(a, b)| *a += b);
    assert_eq!(sum.values, expected);
    two.close();
}

#[test]
fn what_finds_no_slot_and_has_no_server_comes_back_and_may_be_offered_again() {
    let mut two = Two::<1>::new(2);
    two.home(&Parcel::add(Key::new(1, 1, 2), 0, 2, &[7]));
    for rank in 0..3 {
        two.away(&part(rank, 4));
    }
    two.away.resume(&mut two.sink);
    two.sink.take();
    two.home.resume(&mut two.sink);
    assert_eq!(two.sink.events, [Event::Rejected(who(0), Rejection::Conflict)]);
    let packet = two.sink.returned.pop().unwrap();
    // The slot becomes free, and what came back gets in.
    two.home(&Parcel::add(Key::new(1, 1, 2), 1, 2, &[7]));
    let request = part(0, 4).with(|r| (r.count, r.inside) = (3, 0b111)).request;
    two.home.offer(&request, None, packet, &mut two.sink);
    let said = two.sink.take();
    assert_eq!(said.last(), Some(&Event::Opened(who(0))));
    assert_eq!(sum_of(&two.home(&part(3, 4))[0]).values, full_signature(4));
    two.close();
}

#[test]
fn a_quota_counts_what_was_combined_as_one_slot() {
    let policy = Policy { quota: 1, ..Policy::default() };
    let mut two = Two::<1>::new(8);
    let of = |psn, rank| Parcel::add(Key::new(1, 1, psn), rank, 3, &signature(rank, 3)).under(&policy);
    for psn in [2, 4] {
        two.away(&of(psn, 0));
        two.away(&of(psn, 1));
    }
    let said = two.arrive();
    let rejected = Event::Rejected(Who { key: Key::new(1, 1, 4), rank: 0 }, Rejection::Quota);
    assert_eq!(said[1..], [rejected]);
    two.home(&of(2, 2));
    two.away(&of(4, 0));
    two.away(&of(4, 1));
    assert_eq!(two.arrive(), [Event::Opened(Who { key: Key::new(1, 1, 4), rank: 0 })]);
    two.close();
}

#[test]
fn saturation_on_the_way_is_reported() {
    let mut two = Two::<1>::new(4);
    let big = |rank| Parcel::add(KEY, rank, 3, &[i32::MAX]);
    two.home(&big(0));
    two.away(&big(1));
    two.away(&big(2));
    let said = two.arrive();
    let sum = sum_of(&said[0]);
    assert!(sum.overflow);
    assert_eq!(sum.values, [i32::MAX]);
    two.close();
}

proptest! {
    /// Any lcore receives any packet, in any order, with copies. Each PSN still completes once, with each
    /// contribution once, if ranks send again what was rejected together with others.
    #[test]
    fn any_distribution_gives_the_same_sums(
        deals in prop::collection::vec((0u32..6, 0u16..5, any::<bool>(), any::<bool>()), 1..120),
    ) {
        let mut two = Two::<1>::new(64);
        let mut completed = std::collections::HashMap::new();
        let mut note = |said: Vec<Event>| {
            for event in said {
                if let Event::Completed { sum, .. } = event {
                    assert_eq!(sum.values, full_signature(5));
                    assert!(completed.insert(sum.key, ()).is_none(), "completed twice");
                }
            }
        };
        let part = |psn, rank| Parcel::add(Key::new(1, 1, 2 * psn), rank, 5, &signature(rank, 5));
        for (psn, rank, away, turn) in deals {
            let parcel = part(psn, rank);
            note(if away { two.away(&parcel) } else { two.home(&parcel) });
            if turn {
                note(two.arrive());
            }
        }
        note(two.arrive());
        // What a worker does when nothing comes back.
        for psn in 0..6 {
            for rank in 0..5 {
                let parcel = part(psn, rank).with(|r| r.again = true);
                note(if rank % 2 == 0 { two.away(&parcel) } else { two.home(&parcel) });
            }
            note(two.arrive());
        }
        prop_assert_eq!(completed.len(), 6);
        two.close();
    }
}
