//! No payload is copied, whatever becomes of it: only packets are passed on.

use pascaline_aggregator::{
    Aggregate, Cause, ConflictPolicy, Contribution, Evicted, Key, Order, Policy, Rejection, Reminded,
    Request, Sink,
};
use pascaline_buffer::{HeapBuf, HeapShared, PacketBuf, SharedBuf};

use super::{half, psn, served};
use crate::common::{Event, Parcel, Rig, payload_address};

/// A sink that is interested in nothing but what is displaced.
pub(crate) struct Taking<F>(pub(crate) F);

impl<F: FnMut(Key, Evicted<HeapBuf>), const WORDS: usize> Sink<HeapBuf, WORDS> for Taking<F> {
    fn opened(&mut self, _: &Contribution) {}
    fn added(&mut self, _: &Contribution) {}
    fn completed(&mut self, _: &Contribution, _: bool, _: Aggregate<'_, HeapShared>) {}
    fn replayed(&mut self, _: &Request, _: HeapBuf, _: Aggregate<'_, HeapShared>) {}
    fn installed(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {}
    fn passed_on(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {}
    fn reminded(&mut self, _: &Request, _: HeapBuf, _: Reminded<'_, HeapShared, WORDS>) {}
    fn rejected(&mut self, _: &Request, _: HeapBuf, _: Rejection) {}
    fn handed_off(&mut self) {}
    fn recycled(&mut self, _: HeapBuf) {}
    fn released(&mut self, _: Aggregate<'_, HeapShared>) {}
    fn fetched(&mut self, _: &Request, _: HeapBuf, _: Option<Aggregate<'_, HeapShared>>) {}
    fn release_accepted(&mut self, _: &Request, _: HeapBuf) {}
    fn evicted(&mut self, key: Key, what: Evicted<HeapBuf>, _: Cause) {
        (self.0)(key, what);
    }
}

/// Offers a packet and returns the place of its payload; its outcome stays in the sink.
fn offer(rig: &mut Rig, parcel: &Parcel) -> *const u8 {
    rig.sink.take();
    let packet = parcel.packet(&rig.memory);
    let address = payload_address(&packet, &parcel.request);
    rig.session.offer(&parcel.request, None, packet, &mut rig.sink);
    address
}

fn returned(rig: &Rig) -> Vec<*const u8> {
    rig.sink.returned.iter().map(|packet| packet.bytes().as_ptr()).collect()
}

fn result(rig: &Rig) -> *const u8 {
    rig.sink.payloads[0].bytes().as_ptr()
}

#[test]
fn a_preempted_partial_leaves_in_the_packet_it_was_summed_in() {
    let policy = served(ConflictPolicy::Preempt);
    let mut rig = Rig::new(1, 1);
    let loser = offer(&mut rig, &Parcel::add(psn(0), 2, 3, &[1, 2]).under(&policy));
    let spent = offer(&mut rig, &Parcel::add(psn(0), 0, 3, &[1, 2]).under(&policy));
    assert_ne!(loser, spent);
    let winner = offer(&mut rig, &half(psn(1), 0, &policy).priority(1));
    assert!(matches!(rig.sink.events[..], [Event::Evicted { .. }, Event::Opened(_)]));
    assert_eq!(returned(&rig), [loser]);
    assert_eq!(rig.memory.live(), 2, "the loser's packet and the winner's: there is no third");
    offer(&mut rig, &half(psn(1), 1, &policy));
    assert_eq!(result(&rig), winner, "and the winner's is the accumulator");
    rig.close();
}

#[test]
fn a_newcomer_that_loses_is_given_back_untouched() {
    for policy in [served(ConflictPolicy::FirstCome), Policy { quota: 1, ..served(ConflictPolicy::Preempt) }]
    {
        let mut rig = Rig::new(1, 1);
        offer(&mut rig, &half(psn(0), 0, &policy));
        let newcomer = half(psn(1), 0, &policy);
        let packet = newcomer.packet(&rig.memory);
        let (address, bytes) = (packet.bytes().as_ptr(), packet.bytes().to_vec());
        rig.sink.take();
        rig.session.offer(&newcomer.request, None, packet, &mut rig.sink);
        assert_eq!(returned(&rig), [address], "headers and all");
        assert_eq!(rig.sink.returned[0].bytes(), bytes);
        rig.close();
    }
}

#[test]
fn what_is_fetched_leaves_in_the_packet_it_was_summed_in() {
    let policy = served(ConflictPolicy::FirstCome);
    let mut rig = Rig::new(1, 1);
    let first = offer(&mut rig, &Parcel::add(psn(0), 2, 3, &[1, 2]).under(&policy));
    offer(&mut rig, &Parcel::add(psn(0), 0, 3, &[1, 2]).under(&policy));
    offer(&mut rig, &Parcel::fetch(psn(0), 3));
    assert_eq!(returned(&rig)[0], first);
    assert_eq!(rig.memory.live(), 2, "the partial, and the packet that asked");
    // A result stays where it is.
    for rank in [1, 0] {
        offer(&mut rig, &half(psn(1), rank, &policy));
    }
    let memory = result(&rig);
    offer(&mut rig, &Parcel::fetch(psn(1), 2));
    assert_eq!(result(&rig), memory);
    assert_eq!(rig.sink.payloads[0].holders(), 2, "the slot and this sink");
    rig.close();
}

#[test]
fn a_partial_result_is_the_first_contributions_memory_too() {
    let mut rig = Rig::new(1, 1);
    let first = offer(&mut rig, &Parcel::add(psn(0), 3, 4, &[1, 2]));
    offer(&mut rig, &Parcel::add(psn(0), 1, 4, &[1, 2]));
    offer(&mut rig, &Parcel::release(psn(0), 1, 4));
    assert_eq!(result(&rig), first);
    // So it is for late ranks, however many there are.
    for rank in [0, 2, 3, 0] {
        offer(&mut rig, &Parcel::add(psn(0), rank, 4, &[1, 2]));
        assert_eq!(result(&rig), first);
    }
    rig.sink.take();
    assert_eq!(rig.memory.live(), 1);
    rig.close();
}

#[test]
fn in_the_order_of_ranks_the_lowest_ones_packet_becomes_the_result() {
    let policy = Policy { order: Order::Rank, ..served(ConflictPolicy::FirstCome) };
    let mut rig = Rig::new(1, 1);
    let mut addresses = [std::ptr::null(); 5];
    for (held, rank) in (1..).zip([3, 1, 4, 0]) {
        addresses[rank] = offer(
            &mut rig,
            &Parcel::add(psn(0), u16::try_from(rank).expect("few ranks"), 5, &[1, 2]).under(&policy),
        );
        assert_eq!(rig.memory.live(), held, "each packet is kept as it came");
        assert!(rig.sink.returned.is_empty());
    }
    addresses[2] = offer(&mut rig, &Parcel::add(psn(0), 2, 5, &[1, 2]).under(&policy));
    assert_eq!(result(&rig), addresses[0]);
    let mut others = returned(&rig);
    others.sort_unstable();
    let mut expected = addresses[1..].to_vec();
    expected.sort_unstable();
    assert_eq!(others, expected, "the others' packets are spent, each once");
    assert_eq!(rig.memory.live(), 5);
    rig.sink.take();
    assert_eq!(rig.memory.live(), 1);
    rig.close();
}

#[test]
fn originals_leave_in_their_own_packets() {
    let policy = Policy { order: Order::Rank, ..served(ConflictPolicy::Always) };
    let mut rig = Rig::new(1, 1);
    let mut addresses: Vec<_> =
        [3, 1, 4].map(|rank| offer(&mut rig, &Parcel::add(psn(0), rank, 5, &[7]).under(&policy))).to_vec();
    offer(&mut rig, &half(psn(1), 0, &policy));
    assert!(matches!(rig.sink.events[..], [Event::Originals { .. }, Event::Opened(_)]));
    let mut left = returned(&rig);
    left.sort_unstable();
    addresses.sort_unstable();
    assert_eq!(left, addresses);
    rig.sink.take();
    assert_eq!(rig.memory.live(), 1);
    rig.close();
}
