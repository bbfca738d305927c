//! What the parameter server gets when it asks.

use pascaline_aggregator::{Cause, ConflictPolicy, Key, Order, Policy};
use pascaline_buffer::PacketBuf;
use pascaline_wire::Element;

use super::{half, opened, psn, served};
use crate::common::{Event, Parcel, Rig, Who, full_signature, signature, sum_of, sum_of_ranks};

const KEY: Key = psn(0);
const ASKER: Who = Who { key: KEY, rank: 0 };

fn policy() -> Policy {
    served(ConflictPolicy::FirstCome)
}

fn add(rank: u16, fan_in: u16) -> Parcel {
    Parcel::add(KEY, rank, fan_in, &signature(rank, fan_in)).under(&policy())
}

#[test]
fn a_partial_leaves_its_slot_with_its_bitmap() {
    let mut rig = Rig::new(1, 1);
    for rank in [3, 0, 4] {
        rig.one(&add(rank, 6).priority(7 - rank).with(|r| r.overflow = rank == 0));
    }
    let events = rig.offer(&Parcel::fetch(KEY, 6));
    let [Event::Evicted { cause, ranks, priority, sum }, fetched] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*cause, ranks.as_slice()), (Cause::Fetched, [0, 3, 4].as_slice()));
    assert_eq!(*priority, 4, "that of the first contribution");
    assert_eq!((sum.fan_in, sum.count, sum.overflow), (6, 3, true));
    assert_eq!(sum.values, sum_of_ranks(&[0, 3, 4], 6));
    assert_eq!(*fetched, Event::Fetched(ASKER, None));
    assert_eq!(rig.sink.returned.len(), 2, "the partial's packet, and the one that asked");
    assert_eq!(rig.session.packets(), 0);
    // The next contribution begins anew, and does not contain what has gone.
    assert_eq!(rig.one(&add(1, 6)), opened(KEY, 1));
    rig.close();
}

#[test]
fn where_nothing_is_there_is_nothing_to_fetch() {
    let mut rig = Rig::new(1, 1);
    assert_eq!(rig.one(&Parcel::fetch(KEY, 2)), Event::Fetched(ASKER, None));
    assert_eq!(rig.sink.returned.len(), 1);
    rig.one(&half(psn(1), 0, &policy()));
    assert_eq!(rig.one(&Parcel::fetch(KEY, 2)), Event::Fetched(ASKER, None), "nor beside another");
    assert_eq!(sum_of(&rig.one(&half(psn(1), 1, &policy()))).values, [3]);
    rig.close();
}

#[test]
fn a_kept_result_is_told_and_stays() {
    let mut rig = Rig::new(1, 1);
    rig.one(&half(KEY, 0, &policy()));
    let result = sum_of(&rig.one(&half(KEY, 1, &policy()))).clone();
    for _ in 0..3 {
        assert_eq!(rig.one(&Parcel::fetch(KEY, 2)), Event::Fetched(ASKER, Some(result.clone())));
    }
    assert!(matches!(rig.one(&half(KEY, 1, &policy())), Event::Replayed(..)));
    rig.close();
}

#[test]
fn being_fetched_keeps_a_result_young() {
    let mut rig = Rig::new(2, 2);
    for key in [psn(0), psn(1)] {
        rig.one(&Parcel::add(key, 0, 1, &[1]));
    }
    rig.one(&Parcel::fetch(psn(0), 1));
    assert_eq!(rig.offer(&half(psn(2), 0, &policy()))[0], Event::EvictedResult(psn(1)));
    rig.close();
}

/// Contributions that have not been added yet go as they came.
#[test]
fn what_is_kept_until_the_end_is_fetched_one_by_one() {
    let by_rank = Policy { order: Order::Rank, ..policy() };
    let half_floats = Element { dtype: pascaline_wire::DType::Bf16, op: pascaline_wire::Op::Sum };
    for (policy, element) in [(by_rank, Element::I32_SUM), (policy(), half_floats)] {
        let mut rig = Rig::new(1, 1);
        let add = |rank| add(rank, 5).under(&policy).of(element).priority(40);
        for rank in [4, 0, 2] {
            rig.one(&add(rank).with(|r| r.overflow = rank == 2));
        }
        assert_eq!(rig.session.packets(), 3);
        let events = rig.offer(&Parcel::fetch(KEY, 5));
        let values = [0, 2, 4].map(|rank| (rank, signature(rank, 5))).to_vec();
        let originals =
            Event::Originals { key: KEY, cause: Cause::Fetched, overflow: true, priority: 40, values };
        assert_eq!(events, [originals, Event::Fetched(ASKER, None)]);
        // Nothing but payloads.
        assert!(rig.sink.returned[..3].iter().all(|packet| packet.bytes().len() == 8));
        assert_eq!(rig.session.packets(), 0);
        rig.close();
    }
}

#[test]
fn originals_that_nobody_takes_are_freed() {
    use pascaline_aggregator::{Evicted, Pool};
    use pascaline_buffer::combine::Kernels;
    use pascaline_buffer::{HeapBuf, HeapPool};

    let memory = HeapPool::new();
    let mut sessions = Pool::<HeapBuf>::sessions(&crate::common::config(1, 1), Kernels::scalar(), 1).unwrap();
    let by_rank = Policy { order: Order::Rank, ..policy() };
    let mut taken = Vec::new();
    let mut sink = super::copies::Taking(|_, what: Evicted<HeapBuf>| {
        let Evicted::Originals(mut originals) = what else { panic!("{what:?}") };
        taken.push(originals.next().unwrap().0);
    });
    for rank in 0..4 {
        let parcel = add(rank, 5).under(&by_rank);
        sessions[0].offer(&parcel.request, None, parcel.packet(&memory), &mut sink);
    }
    let fetch = Parcel::fetch(KEY, 5);
    sessions[0].offer(&fetch.request, None, fetch.packet(&memory), &mut sink);
    assert_eq!(taken.len(), 1);
    assert_eq!(memory.live(), 0, "the three others went with the iterator");
}

#[test]
fn a_job_without_a_server_has_nobody_to_send_a_partial_to() {
    let mut rig = Rig::new(1, 1);
    rig.one(&half(KEY, 0, &Policy::default()));
    let events = rig.offer(&Parcel::fetch(KEY, 2));
    assert_eq!(events, [Event::EvictedPartial(KEY), Event::Fetched(ASKER, None)]);
    rig.close();
}

/// The server completes what it has fetched, and returns the result, also to ranks that come late.
#[test]
fn what_was_fetched_comes_back_as_the_result() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0, 3));
    rig.offer(&Parcel::fetch(KEY, 3));
    // Retransmitted meanwhile.
    rig.one(&add(0, 3));
    let result = Parcel::install(KEY, 0, 3, &full_signature(3)).under(&policy());
    let events = rig.offer(&result);
    assert!(matches!(&events[..], [Event::EvictedPartial(_), Event::Installed { .. }]), "{events:?}");
    for rank in 0..3 {
        assert_eq!(sum_of(&rig.one(&add(rank, 3))).values, full_signature(3), "rank {rank} once");
    }
    rig.close();
}
