//! One slot's life: the first packet is the accumulator, then the result, then what is replayed.

use pascaline_aggregator::Key;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_wire::Element;

use crate::common::{Event, Parcel, Rig, Who, payload_address, sum_of};

const KEY: Key = Key::new(7, 3, 11);

fn who(rank: u16) -> Who {
    Who { key: KEY, rank }
}

#[test]
fn contributions_are_summed_and_the_last_one_completes() {
    let mut rig = Rig::new(1, 1);
    assert_eq!(rig.one(&Parcel::add(KEY, 2, 3, &[1, -2]).at(5)), Event::Opened(who(2)));
    assert_eq!(rig.one(&Parcel::add(KEY, 0, 3, &[10, 20]).at(6)), Event::Added(who(0)));
    let event = rig.one(&Parcel::add(KEY, 1, 3, &[100, 200]).at(7));
    let Event::Completed { who: last, alone: false, sum } = event else { panic!("{event:?}") };
    assert_eq!(last, who(1));
    assert_eq!(sum.values, [111, 218]);
    assert_eq!((sum.key, sum.fan_in, sum.count, sum.first), (KEY, 3, 3, 5));
    assert_eq!((sum.element, sum.overflow), (Element::I32_SUM.code(), false));
    rig.close();
}

#[test]
fn the_first_packets_memory_is_accumulator_result_and_replay() {
    let mut rig = Rig::new(1, 1);
    let first = Parcel::add(KEY, 0, 2, &[1, 2, 3]);
    let packet = first.packet(&rig.memory);
    let memory = payload_address(&packet, &first.request);
    rig.session.offer(&first.request, None, packet, &mut rig.sink);

    rig.one(&Parcel::add(KEY, 1, 2, &[1, 1, 1]));
    assert_eq!(
        rig.sink.payloads[0].bytes().as_ptr(),
        memory,
        "the result lies where the first packet arrived"
    );
    assert_eq!(rig.sink.payloads[0].bytes().len(), 12, "headers are gone");
    for _ in 0..3 {
        rig.one(&Parcel::add(KEY, 1, 2, &[1, 1, 1]));
        assert_eq!(rig.sink.payloads[0].bytes().as_ptr(), memory);
        rig.one(&Parcel::remind(KEY, 0, 2));
        assert_eq!(rig.sink.payloads[0].bytes().as_ptr(), memory);
    }
    rig.close();
}

#[test]
fn a_spent_packet_comes_back_unchanged() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(KEY, 0, 3, &[1]));
    for (rank, value) in [(1, 40), (2, 50)] {
        let parcel = Parcel::add(KEY, rank, 3, &[value]);
        let packet = parcel.packet(&rig.memory);
        let (memory, bytes) = (packet.bytes().as_ptr(), packet.bytes().to_vec());
        rig.sink.take();
        rig.session.offer(&parcel.request, None, packet, &mut rig.sink);
        assert_eq!(rig.sink.returned[0].bytes().as_ptr(), memory);
        assert_eq!(rig.sink.returned[0].bytes(), bytes);
    }
    rig.close();
}

#[test]
fn one_rank_alone_completes_with_its_own_packet() {
    let mut rig = Rig::new(1, 1);
    let parcel = Parcel::add(KEY, 0, 1, &[9]).at(4);
    let packet = parcel.packet(&rig.memory);
    let memory = payload_address(&packet, &parcel.request);
    rig.session.offer(&parcel.request, None, packet, &mut rig.sink);
    let events = std::mem::take(&mut rig.sink.events);
    let [Event::Completed { alone: true, sum, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((sum.values.as_slice(), sum.count, sum.first), ([9].as_slice(), 1, 4));
    assert_eq!(rig.sink.payloads[0].bytes().as_ptr(), memory);
    assert!(matches!(rig.one(&parcel), Event::Replayed(..)));
    rig.close();
}

#[test]
fn a_result_is_replayed_to_every_rank_until_another_psn_wants_the_slot() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(KEY, 0, 2, &[3]).at(1));
    let result = sum_of(&rig.one(&Parcel::add(KEY, 1, 2, &[4]).at(2))).clone();
    for now in 3..9 {
        for rank in [0, 1] {
            let replay = rig.one(&Parcel::add(KEY, rank, 2, &[1000]).at(now));
            assert_eq!(replay, Event::Replayed(who(rank), result.clone()), "and adds nothing");
        }
    }
    let other = Key::new(7, 3, 12);
    let events = rig.offer(&Parcel::add(other, 0, 2, &[0]).at(9));
    assert_eq!(events, [Event::EvictedResult(KEY), Event::Opened(Who { key: other, rank: 0 })]);
    rig.close();
}

#[test]
fn a_result_outlives_its_slot_in_the_hands_of_its_holder() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(KEY, 0, 1, &[5]));
    let held = rig.sink.payloads[0].clone();
    rig.offer(&Parcel::add(Key::new(7, 3, 12), 0, 1, &[6]));
    rig.sink.take();
    assert_eq!(held.holders(), 1, "the slot has let go");
    assert_eq!(held.bytes(), 5i32.to_le_bytes());
    drop(held);
    rig.close();
}

#[test]
fn payloads_may_begin_anywhere_in_their_packets() {
    // Untagged, VLAN, IPv6, IPv6 in VLAN, and an odd one.
    let offsets = [64, 68, 84, 88, 33];
    for first in 0..offsets.len() {
        let mut rig = Rig::new(1, 1);
        let mut last = None;
        for n in 0..offsets.len() {
            let rank = u16::try_from(n).unwrap();
            let mut parcel = Parcel::add(KEY, rank, 5, &[1 << n, -(1 << n), 7])
                .with(|r| r.offset = offsets[(first + n) % offsets.len()]);
            parcel.trailing = n;
            last = Some(rig.one(&parcel));
        }
        assert_eq!(sum_of(&last.unwrap()).values, [31, -31, 35], "the first at {}", offsets[first]);
        rig.close();
    }
}

#[test]
fn integers_saturate_and_the_result_says_so() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(KEY, 0, 3, &[i32::MAX, i32::MIN, 5]));
    rig.one(&Parcel::add(KEY, 1, 3, &[1, -1, 6]));
    let done = rig.one(&Parcel::add(KEY, 2, 3, &[0, 0, 7]));
    let sum = sum_of(&done);
    assert_eq!(sum.values, [i32::MAX, i32::MIN, 18]);
    assert!(sum.overflow, "although the last addition did not saturate");
    assert!(sum_of(&rig.one(&Parcel::add(KEY, 2, 3, &[0, 0, 7]))).overflow, "and so does the replay");

    // The slot's next tenant starts clean.
    let other = Key::new(7, 3, 12);
    rig.offer(&Parcel::add(other, 0, 2, &[1]));
    assert!(!sum_of(&rig.one(&Parcel::add(other, 1, 2, &[1]))).overflow);
    rig.close();
}

#[test]
fn the_overflow_flag_of_any_contribution_reaches_the_result() {
    for flagged in 0..3 {
        let mut rig = Rig::new(1, 1);
        let mut last = None;
        for rank in 0..3 {
            last = Some(rig.one(&Parcel::add(KEY, rank, 3, &[1]).with(|r| r.overflow = rank == flagged)));
        }
        assert!(sum_of(&last.unwrap()).overflow, "flag of rank {flagged}");
        rig.close();
    }
}

#[test]
fn floats_are_summed_as_floats() {
    let mut rig = Rig::new(1, 1);
    let float = |rank, x: f32| {
        Parcel::add(KEY, rank, 2, &[i32::from_le_bytes(x.to_le_bytes())])
            .with(|r| r.element = Element::F32_SUM.code())
    };
    rig.one(&float(0, 1.5));
    let done = rig.one(&float(1, 2.25));
    assert_eq!(f32::from_le_bytes(sum_of(&done).values[0].to_le_bytes()).to_bits(), 3.75f32.to_bits());
    rig.close();
}

#[test]
fn a_payload_may_be_empty() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(KEY, 0, 2, &[]));
    assert!(sum_of(&rig.one(&Parcel::add(KEY, 1, 2, &[]))).values.is_empty());
    rig.close();
}

#[test]
fn job_generation_and_psn_tell_keys_apart() {
    // One set of eight ways: all the keys meet.
    let mut rig = Rig::new(8, 8);
    let keys = [Key::new(1, 1, 1), Key::new(2, 1, 1), Key::new(1, 2, 1), Key::new(1, 1, 2)];
    for (key, value) in keys.into_iter().zip(1..) {
        assert!(matches!(rig.one(&Parcel::add(key, 0, 2, &[value])), Event::Opened(_)));
    }
    for (key, value) in keys.into_iter().zip(1..) {
        assert_eq!(sum_of(&rig.one(&Parcel::add(key, 1, 2, &[10]))).values, [value + 10]);
    }
    rig.close();
}
