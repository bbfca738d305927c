//! Every type and operation, by an oracle that knows whole numbers only.

use half::{bf16, f16};
use pascaline_aggregator::{ConflictPolicy, Order, Policy};
use pascaline_buffer::combine::Kernels;
use pascaline_wire::{DType, Element, Op};

#[path = "../../../../packet/wire/tests/it/common/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod reference;

use reference::Kind;

use super::{half as of_two, psn, served};
use crate::common::{Event, Parcel, Rig, bytes, config, sum_of, values};

/// Four blocks, so that a payload is whole words.
const ELEMENTS: usize = 128;

/// A small number that every type has.
fn number(rank: u16, at: usize) -> i32 {
    i32::try_from((usize::from(rank) * 7 + at * 5 + usize::from(rank) * at) % 16).unwrap() - 8
}

fn encode(dtype: DType, numbers: impl Iterator<Item = i32>) -> Vec<i32> {
    let kind = match dtype {
        DType::MxFp8 => Some(Kind::E4m3),
        DType::MxInt8 => Some(Kind::Int8),
        _ => None,
    };
    if let Some(kind) = kind {
        let numbers: Vec<f32> = numbers.map(|number| number as f32).collect();
        return values(&numbers.chunks(32).flat_map(|numbers| kind.encode(numbers)).collect::<Vec<u8>>());
    }
    let one = |number: i32| match dtype {
        DType::MxFp8 | DType::MxInt8 => unreachable!(),
        DType::F32 => (number as f32).to_le_bytes().to_vec(),
        // Numbers below zero wrap, as do sums of which they are part.
        DType::I32 | DType::U32 => number.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(f64::from(number)).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(f64::from(number)).to_le_bytes().to_vec(),
        DType::F64 => f64::from(number).to_le_bytes().to_vec(),
    };
    values(&numbers.flat_map(one).collect::<Vec<u8>>())
}

fn combined(Element { dtype, op }: Element, ranks: &[u16], at: usize) -> i32 {
    let numbers = ranks.iter().map(|&rank| number(rank, at));
    let place = |number: &i32| match dtype {
        DType::U32 => i64::from(number.cast_unsigned()),
        _ => i64::from(*number),
    };
    match op {
        Op::Sum | Op::Mean => numbers.sum(),
        Op::Min => numbers.min_by_key(place).unwrap(),
        Op::Max => numbers.max_by_key(place).unwrap(),
    }
}

#[test]
fn every_type_and_operation_in_either_order() {
    for Element { dtype, op } in Element::all() {
        for order in [Order::Arrival, Order::Rank] {
            let policy = Policy { order, ..Policy::default() };
            for kernels in [Kernels::scalar(), Kernels::detect()] {
                for fan_in in [1, 2, 3, 15] {
                    let ranks: Vec<u16> = (0..fan_in).collect();
                    let mut rig = Rig::<1>::with(&config(1, 1), kernels);
                    let element = Element { dtype, op };
                    let mut done = None;
                    for n in 0..fan_in {
                        let rank = fan_in - 1 - n;
                        let payload = encode(dtype, (0..ELEMENTS).map(|at| number(rank, at)));
                        done = Some(
                            rig.one(&Parcel::add(psn(0), rank, fan_in, &payload).under(&policy).of(element)),
                        );
                    }
                    let done = done.unwrap();
                    let sum = sum_of(&done);
                    assert_eq!((sum.element, sum.count, sum.overflow), (element.code(), fan_in, false));
                    let expected = encode(dtype, (0..ELEMENTS).map(|at| combined(element, &ranks, at)));
                    assert_eq!(
                        sum.values, expected,
                        "{element:?}, {order:?}, {fan_in} ranks, {}",
                        kernels.isa
                    );
                    rig.close();
                }
            }
        }
    }
}

/// 127 + 2 + 1 sixty-fourths are 65 with a scale of two; rounded after each addition they would be 64.
/// Holds R7.2 of protocol.md.
#[test]
fn sums_of_blocks_are_rounded_once_whoever_comes_first() {
    let block = |scale: u8, first: u8| values(&[[scale, first].as_slice(), &[0; 31]].concat().repeat(4));
    let element = Element { dtype: DType::MxInt8, op: Op::Sum };
    for arrival in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut rig = Rig::<1>::with(&config(1, 1), Kernels::detect());
        let mut done = None;
        for rank in arrival {
            let payload = block(127, [127, 2, 1][usize::from(rank)]);
            done = Some(rig.one(&Parcel::add(psn(0), rank, 3, &payload).of(element)));
        }
        assert_eq!(sum_of(&done.unwrap()).values, block(128, 65), "{arrival:?}");
        rig.close();
    }
}

#[test]
fn every_type_and_operation_with_a_threshold() {
    for Element { dtype, op } in Element::all() {
        let mut rig = Rig::new(1, 1);
        let element = Element { dtype, op };
        let mut done = None;
        for rank in [4, 1, 2] {
            let payload = encode(dtype, (0..ELEMENTS).map(|at| number(rank, at)));
            done = Some(rig.one(&Parcel::add(psn(0), rank, 5, &payload).of(element).needing(3)));
        }
        let done = done.unwrap();
        let expected = encode(dtype, (0..ELEMENTS).map(|at| combined(element, &[1, 2, 4], at)));
        assert_eq!(
            (&sum_of(&done).values, &sum_of(&done).inside),
            (&expected, &Some(vec![1, 2, 4])),
            "{element:?}"
        );
        rig.close();
    }
}

/// A partial at the server goes on as if it had stayed: the bytes are those of the elements.
#[test]
fn a_sum_that_is_evicted_is_that_of_those_inside() {
    for Element { dtype, op } in Element::all() {
        let policy = served(ConflictPolicy::Always);
        let mut rig = Rig::new(1, 1);
        let element = Element { dtype, op };
        let payload = |rank| encode(dtype, (0..ELEMENTS).map(|at| number(rank, at)));
        for rank in [3, 1] {
            rig.one(&Parcel::add(psn(0), rank, 5, &payload(rank)).under(&policy).of(element));
        }
        match &rig.offer(&of_two(psn(1), 0, &policy))[0] {
            Event::Evicted { ranks, sum, .. } => {
                assert!(!op.adds() || !dtype.sums_wide());
                assert_eq!((ranks.as_slice(), sum.element), ([1, 3].as_slice(), element.code()));
                let expected = encode(dtype, (0..ELEMENTS).map(|at| combined(element, &[1, 3], at)));
                assert_eq!(sum.values, expected, "{element:?}");
            }
            Event::Originals { values, .. } => {
                assert!(op.adds() && dtype.sums_wide());
                assert_eq!(*values, [1, 3].map(|rank| (rank, payload(rank))));
            }
            other => panic!("{other:?}"),
        }
        rig.close();
    }
}

fn by(order: Order) -> Policy {
    Policy { order, ..served(ConflictPolicy::FirstCome) }
}

/// Adds numbers of ranks 0, 1, … of `fan_in`; gives the last event.
fn add(rig: &mut Rig, policy: &Policy, fan_in: u16, numbers: &[i32], op: Op) -> Event {
    let add = |(rank, &number)| {
        Parcel::add(psn(0), rank, fan_in, &[number, 0]).under(policy).of(Element { dtype: DType::I32, op })
    };
    (0..).zip(numbers).map(add).map(|parcel| rig.one(&parcel)).last().unwrap()
}

#[test]
fn integers_saturate_in_either_order_and_say_so() {
    for order in [Order::Arrival, Order::Rank] {
        for (numbers, sum, overflow) in [
            ([i32::MAX, 1, -1], i32::MAX - 1, true),
            ([i32::MIN, -1, 1], i32::MIN + 1, true),
            ([i32::MAX, -1, 1], i32::MAX, false),
            ([1, i32::MAX, 0], i32::MAX, true),
            ([i32::MAX, i32::MIN, 0], -1, false),
        ] {
            let mut rig = Rig::new(1, 1);
            let done = add(&mut rig, &by(order), 3, &numbers, Op::Sum);
            assert_eq!((&sum_of(&done).values[..], sum_of(&done).overflow), (&[sum, 0][..], overflow));
            rig.close();
            for op in [Op::Min, Op::Max] {
                let mut rig = Rig::new(1, 1);
                assert!(!sum_of(&add(&mut rig, &by(order), 3, &numbers, op)).overflow);
                rig.close();
            }
        }
    }
}

#[test]
fn unsigned_integers_wrap_in_either_order_and_nothing_says_so() {
    let element = Element::sum(DType::U32);
    for order in [Order::Arrival, Order::Rank] {
        for (numbers, sum) in [([u32::MAX, 1, 7], 7), ([1 << 31; 3], 1 << 31), ([0, u32::MAX, 0], u32::MAX)] {
            let mut rig = Rig::new(1, 1);
            let add = |(rank, number): (u16, u32)| {
                Parcel::add(psn(0), rank, 3, &[number.cast_signed()]).under(&by(order)).of(element)
            };
            let done = (0..).zip(numbers).map(add).map(|parcel| rig.one(&parcel)).last().unwrap();
            let result = sum_of(&done);
            assert_eq!((bytes(&result.values), result.overflow), (sum.to_le_bytes().to_vec(), false));
            rig.close();
        }
    }
}

#[test]
fn floats_become_infinite_and_do_not_count_as_saturated() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
        let largest = match dtype {
            DType::F32 => f32::MAX.to_le_bytes().to_vec(),
            DType::F16 => f16::MAX.to_le_bytes().repeat(2),
            DType::Bf16 => bf16::MAX.to_le_bytes().repeat(2),
            _ => f64::MAX.to_le_bytes().to_vec(),
        };
        let infinity = match dtype {
            DType::F32 => f32::INFINITY.to_le_bytes().to_vec(),
            DType::F16 => f16::INFINITY.to_le_bytes().repeat(2),
            DType::Bf16 => bf16::INFINITY.to_le_bytes().repeat(2),
            _ => f64::INFINITY.to_le_bytes().to_vec(),
        };
        let mut rig = Rig::new(1, 1);
        let element = Element { dtype, op: Op::Sum };
        let add = |rank| Parcel::add(psn(0), rank, 2, &values(&largest)).of(element);
        rig.one(&add(0));
        let done = rig.one(&add(1));
        assert_eq!((bytes(&sum_of(&done).values), sum_of(&done).overflow), (infinity, false), "{dtype:?}");
        rig.close();
    }
}

/// On every way out of the pool a sum says that an element has saturated, here or before.
#[test]
fn the_overflow_flag_goes_where_the_values_go() {
    for order in [Order::Arrival, Order::Rank] {
        for (numbers, flagged) in [([i32::MAX, 1], None), ([1, 2], Some(1)), ([1, 2], Some(0))] {
            let begin = || {
                let mut rig = Rig::new(1, 1);
                for (rank, number) in (0..).zip(numbers) {
                    let parcel = Parcel::add(psn(0), rank, 3, &[number]).under(&by(order));
                    rig.one(&parcel.with(|r| r.overflow = flagged == Some(rank)));
                }
                rig
            };
            let mut rig = begin();
            match &rig.offer(&Parcel::fetch(psn(0), 3))[0] {
                Event::Evicted { sum, .. } => assert!(sum.overflow),
                // These have not been added, so that nothing can have saturated yet.
                Event::Originals { overflow, .. } => assert_eq!(*overflow, flagged.is_some()),
                other => panic!("{other:?}"),
            }
            rig.close();

            let mut rig = begin();
            let events = rig.offer(&Parcel::release(psn(0), 2, 3));
            assert!(sum_of(&events[0]).overflow, "{order:?} {numbers:?} {flagged:?}");
            assert!(sum_of(&rig.one(&Parcel::add(psn(0), 2, 3, &[0]))).overflow);
            rig.close();
        }
        // And nothing says so where none has.
        let mut rig = Rig::new(1, 1);
        add(&mut rig, &by(order), 3, &[1, 2], Op::Sum);
        assert!(!sum_of(&rig.offer(&Parcel::release(psn(0), 2, 3))[0]).overflow);
        rig.close();
    }
}
