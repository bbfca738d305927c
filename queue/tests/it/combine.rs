//! Sums and means of every element type, exact with respect to `count`.

use pascaline_buffer::PacketBuf;
use pascaline_queue::{Combine, Config, EnqueueOutcome, Update, UpdateRejection};
use pascaline_wire::{DType, Element, Op};
use proptest::prelude::*;

use crate::common::{self, Rig, update};

fn sums(dtype: DType) -> Element {
    Element { dtype, op: Op::Sum }
}

/// A number as an element's bytes; numbers are small enough to be exact in each type.
fn bytes(dtype: DType, value: f32) -> Vec<u8> {
    match dtype {
        DType::F32 => value.to_le_bytes().to_vec(),
        DType::F64 => f64::from(value).to_le_bytes().to_vec(),
        #[allow(clippy::cast_possible_truncation, reason = "small whole numbers")]
        DType::I32 | DType::U32 => (value as i32).to_le_bytes().to_vec(),
        DType::Bf16 => value.to_bits().to_be_bytes()[..2].iter().rev().copied().collect(),
        // 1, 1.5, 2, 3, … as far as tests need them: sign, exponent and fraction moved to their places.
        DType::F16 if value == 0.0 => vec![0; 2],
        DType::F16 => {
            let bits = value.to_bits();
            let half =
                ((bits >> 13) & 0x3ff) | ((((bits >> 23) & 0xff) - 112) << 10) | ((bits >> 16) & 0x8000);
            half.to_le_bytes()[..2].to_vec()
        }
        DType::MxFp8 | DType::MxInt8 => vec![0; dtype.size()],
    }
}

const TYPES: [DType; 6] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::F16, DType::Bf16];

/// Combines updates of one cluster, each {count, value}, and returns the payload that leaves.
fn combined(combine: Combine, dtype: DType, updates: &[(u16, f32)]) -> (Update, Vec<u8>) {
    let mut rig = Rig::new(Config { combine, ..Config::default() });
    for (worker, (count, value)) in (0..).zip(updates) {
        let payload = bytes(dtype, *value).repeat(5);
        let len = u16::try_from(payload.len()).unwrap();
        let update = Update { element: sums(dtype), count: *count, len, ..update(0, worker) };
        let expected = if worker == 0 { EnqueueOutcome::Appended } else { EnqueueOutcome::Aggregated };
        assert_eq!(rig.enqueue(update, &payload).outcome, expected);
    }
    let departure = rig.queue.dequeue().expect("one update");
    assert!(rig.queue.is_empty());
    let packet = departure.packet.bytes();
    assert_eq!(packet[..6], common::HEADERS, "what stands before the payload is left alone");
    assert_eq!(packet.len(), departure.update.payload().end, "what stood behind it is cut off");
    (departure.update, packet[departure.update.payload()].to_vec())
}

#[test]
fn sums_add_up_whatever_they_stand_for() {
    for dtype in TYPES {
        let (update, payload) = combined(Combine::Sum, dtype, &[(2, 3.0), (1, -1.0), (5, 8.0)]);
        assert_eq!((update.count, payload), (8, bytes(dtype, 10.0).repeat(5)), "{dtype:?}");
    }
}

/// Where they wait there is no room for 32 numbers in binary32, and rounding them again and again is no sum.
#[test]
fn blocks_are_refused() {
    for combine in [Combine::Sum, Combine::Mean] {
        for dtype in [DType::MxFp8, DType::MxInt8] {
            let mut rig = Rig::new(Config { combine, ..Config::default() });
            for (len, why) in [(66, UpdateRejection::ElementUnsupported), (64, UpdateRejection::BadLength)] {
                let update = Update { element: sums(dtype), len, ..update(0, 0) };
                let outcome = rig.enqueue(update, &vec![0; usize::from(len)]).outcome;
                assert_eq!(outcome, EnqueueOutcome::Rejected(why));
            }
        }
    }
}

#[test]
fn means_are_weighted_by_what_they_stand_for() {
    for dtype in TYPES.into_iter().filter(|dtype| dtype.is_float()) {
        // (1 × 4 + 3 × 8 + 4 × −2) / 8, in each order.
        for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let updates = order.map(|at| [(1, 4.0), (3, 8.0), (4, -2.0)][at]);
            let (update, payload) = combined(Combine::Mean, dtype, &updates);
            assert_eq!((update.count, payload), (8, bytes(dtype, 2.5).repeat(5)), "{dtype:?} {order:?}");
        }
    }
}

#[test]
fn an_update_that_met_no_other_leaves_bit_for_bit_as_it_came() {
    for combine in [Combine::Sum, Combine::Mean] {
        for dtype in [DType::F32, DType::F16] {
            let signalling = if dtype == DType::F32 { &[1, 0, 0x80, 0x7f][..] } else { &[1, 0x7c][..] };
            let mut rig = Rig::new(Config { combine, ..Config::default() });
            let len = u16::try_from(signalling.len()).unwrap();
            let update = Update { element: sums(dtype), count: 3, len, ..update(0, 1) };
            let _ = rig.enqueue(update, signalling);
            let departure = rig.queue.dequeue().unwrap();
            assert_eq!(departure.packet.bytes()[6..], *signalling);
        }
    }
}

/// One unit in the last place of 2048 is 2 in binary16: added one by one, ones would vanish.
#[test]
fn sums_of_16_bit_floats_are_rounded_once() {
    let mut updates = vec![(1, 2048.0)];
    updates.extend([(1, 1.0); 8]);
    let (_, payload) = combined(Combine::Sum, DType::F16, &updates);
    assert_eq!(payload, bytes(DType::F16, 2056.0).repeat(5));
}

#[test]
fn integers_that_saturate_say_so_from_then_on() {
    let mut rig = Rig::new(Config::default());
    let integers = |worker| Update { element: Element::I32_SUM, ..update(0, worker) };
    for (worker, value) in [(1, i32::MAX), (2, 1), (3, -1)] {
        let _ = rig.enqueue(integers(worker), &value.to_le_bytes().repeat(2));
    }
    let departure = rig.queue.dequeue().unwrap();
    assert!(departure.update.overflow);
    assert_eq!(departure.packet.bytes()[6..10], (i32::MAX - 1).to_le_bytes());
}

#[test]
fn unsigned_integers_wrap_and_say_nothing_and_have_no_mean() {
    let integers = |worker| Update { element: Element::sum(DType::U32), ..update(0, worker) };
    let mut rig = Rig::new(Config::default());
    for (worker, value) in [(1, u32::MAX), (2, 1), (3, 5)] {
        let _ = rig.enqueue(integers(worker), &value.to_le_bytes().repeat(2));
    }
    let departure = rig.queue.dequeue().unwrap();
    assert!(!departure.update.overflow);
    assert_eq!(departure.packet.bytes()[6..10], 5_u32.to_le_bytes());

    let mut rig = Rig::new(Config { combine: Combine::Mean, ..Config::default() });
    let outcome = rig.enqueue(integers(1), &[0; 8]).outcome;
    assert_eq!(outcome, EnqueueOutcome::Rejected(UpdateRejection::ElementUnsupported));
}

#[test]
fn an_overflow_that_came_along_is_not_forgotten() {
    for first in [true, false] {
        let mut rig = Rig::new(Config::default());
        let _ = rig.offer(Update { overflow: first, ..update(0, 1) }, 1.0);
        let _ = rig.offer(Update { overflow: !first, ..update(0, 2) }, 1.0);
        assert!(rig.queue.head().unwrap().overflow);
    }
}

proptest! {
    /// Any means of any counts: whole numbers are exact until the division.
    #[test]
    fn a_mean_is_the_mean_of_everything_inside(
        updates in prop::collection::vec((1u16..50, -100i16..100), 2..20),
    ) {
        let updates: Vec<_> = updates.into_iter().map(|(count, value)| (count, f32::from(value))).collect();
        let sum: f32 = updates.iter().map(|(count, value)| f32::from(*count) * value).sum();
        let count: u16 = updates.iter().map(|(count, _)| count).sum();
        let (update, payload) = combined(Combine::Mean, DType::F32, &updates);
        prop_assert_eq!(update.count, count);
        prop_assert_eq!(payload, bytes(DType::F32, sum / f32::from(count)).repeat(5));
    }
}
