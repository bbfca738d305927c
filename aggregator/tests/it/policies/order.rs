//! Sums that are the same bits whatever the order of arrival.

use half::{bf16, f16};
use pascaline_aggregator::{Order, Policy, Rejection};
use pascaline_buffer::combine::Kernels;
use pascaline_wire::{DType, Element, Op};
use proptest::prelude::*;

use super::psn;
use crate::common::{Event, Parcel, Rig, Who, bytes, config, sum_of, values};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::Bf16];
/// Bytes of a payload: a whole number of elements of each type.
const LEN: usize = 48;

fn sum_of_type(dtype: DType) -> Element {
    Element::sum(dtype)
}

fn by_rank() -> Policy {
    Policy { order: Order::Rank, ..Policy::default() }
}

/// A rank's payload. It mixes large and small values of both signs, so the order of additions matters.
fn payload(dtype: DType, rank: u16, seed: u64) -> Vec<u8> {
    let elements = LEN / dtype.size();
    let element = |at: usize| {
        let bits = fastrand::Rng::with_seed(seed ^ u64::from(rank) << 32 ^ at as u64).u64(..);
        // Within 20 binary orders of magnitude.
        let value = (1.0
            + f64::from(u16::from_le_bytes([bits.to_le_bytes()[0], bits.to_le_bytes()[1]])) / 65536.0)
            * f64::from(1u32 << (bits >> 40 & 0xf))
            / 16.0;
        let value = if bits >> 63 == 0 { value } else { -value };
        match dtype {
            #[allow(clippy::cast_possible_truncation, reason = "rounded to the type under test")]
            DType::F32 => (value as f32).to_le_bytes().to_vec(),
            DType::F64 => (value * (1.0 + f64::EPSILON * 5.0)).to_le_bytes().to_vec(),
            DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            DType::I32 | DType::U32 | DType::MxFp8 | DType::MxInt8 => unreachable!("no float"),
        }
    };
    (0..elements).flat_map(element).collect()
}

/// The sum by rank, written down as it is meant: 16-bit types in binary32, rounded once.
fn expected(dtype: DType, payloads: &[Vec<u8>]) -> Vec<u8> {
    let size = dtype.size();
    let column = |at: usize| payloads.iter().map(move |payload| &payload[at..at + size]);
    let mut sum = Vec::new();
    for at in (0..LEN).step_by(size) {
        let two = |bytes: &[u8]| [bytes[0], bytes[1]];
        match dtype {
            DType::F32 => {
                let values = column(at).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
                sum.extend(values.reduce(|a, b| a + b).unwrap().to_le_bytes());
            }
            DType::F64 => {
                let values = column(at).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
                sum.extend(values.reduce(|a, b| a + b).unwrap().to_le_bytes());
            }
            DType::F16 => {
                let values = column(at).map(|bytes| f16::from_le_bytes(two(bytes)).to_f32());
                sum.extend(f16::from_f32(values.reduce(|a, b| a + b).unwrap()).to_le_bytes());
            }
            DType::Bf16 => {
                let values = column(at).map(|bytes| bf16::from_le_bytes(two(bytes)).to_f32());
                sum.extend(bf16::from_f32(values.reduce(|a, b| a + b).unwrap()).to_le_bytes());
            }
            DType::I32 | DType::U32 | DType::MxFp8 | DType::MxInt8 => unreachable!("no float"),
        }
    }
    sum
}

/// Sums payloads by rank, in some order of arrival and with duplicates. After `again` contributions the
/// partial is evicted, and everything begins anew.
fn sum<const WORDS: usize>(
    kernels: Kernels,
    policy: &Policy,
    dtype: DType,
    payloads: &[Vec<u8>],
    arrival: &[u16],
    again: usize,
) -> Vec<u8> {
    let mut rig = Rig::<WORDS>::with(&config(1, 1), kernels);
    let fan_in = u16::try_from(payloads.len()).unwrap();
    let add = |rank: u16| {
        let values = values(&payloads[usize::from(rank)]);
        Parcel::add(psn(0), rank, fan_in, &values).under(policy).of(sum_of_type(dtype))
    };
    for &rank in &arrival[..again.min(arrival.len() - 1)] {
        rig.one(&add(rank));
    }
    rig.offer(&Parcel::fetch(psn(0), fan_in));
    let (last, others) = arrival.split_last().unwrap();
    for (at, &rank) in others.iter().enumerate() {
        rig.one(&add(rank));
        let known = others[at / 2];
        let duplicate = Event::Rejected(Who { key: psn(0), rank: known }, Rejection::Duplicate);
        assert_eq!(rig.one(&add(known)), duplicate);
    }
    let done = rig.one(&add(*last));
    let sum = bytes(&sum_of(&done).values);
    rig.close();
    sum
}

fn check<const WORDS: usize>(
    fan_in: u16,
    arrivals: [&[u16]; 2],
    seed: u64,
    again: usize,
) -> Result<(), TestCaseError> {
    for dtype in FLOATS {
        let payloads: Vec<Vec<u8>> = (0..fan_in).map(|rank| payload(dtype, rank, seed)).collect();
        let expected = expected(dtype, &payloads);
        for kernels in [Kernels::scalar(), Kernels::detect()] {
            for arrival in arrivals {
                let sum = sum::<WORDS>(kernels, &by_rank(), dtype, &payloads, arrival, again);
                prop_assert_eq!(&sum, &expected, "{:?} {}", dtype, kernels.isa);
            }
        }
    }
    Ok(())
}

/// A number of ranks, and two orders of arrival.
fn arrivals(fan_ins: core::ops::RangeInclusive<u16>) -> impl Strategy<Value = (Vec<u16>, Vec<u16>)> {
    fan_ins.prop_flat_map(|fan_in| {
        let ranks: Vec<u16> = (0..fan_in).collect();
        (Just(ranks.clone()).prop_shuffle(), Just(ranks).prop_shuffle())
    })
}

fn ranks(arrival: &[u16]) -> u16 {
    u16::try_from(arrival.len()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn up_to_64_ranks_give_the_same_bits_whatever_the_order(
        (one, other) in arrivals(1..=64), seed in any::<u64>(), again in 0usize..70,
    ) {
        check::<1>(ranks(&one), [&one, &other], seed, again)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_than_64_ranks_give_the_same_bits_whatever_the_order(
        (one, other) in arrivals(65..=260), seed in any::<u64>(), again in 0usize..300,
    ) {
        check::<16>(ranks(&one), [&one, &other], seed, again)?;
    }
}

#[test]
fn a_thousand_ranks_give_the_same_bits() {
    let up: Vec<u16> = (0..1024).collect();
    let mixed: Vec<u16> = (0..1024u32).map(|n| (n * 387 % 1024) as u16).collect();
    check::<16>(1024, [&up, &mixed], 1, 500).unwrap();
}

/// Were it not so, the tests above would prove nothing.
#[test]
fn in_the_order_of_arrival_the_same_values_give_different_bits() {
    for dtype in [DType::F32, DType::F64] {
        let payloads: Vec<Vec<u8>> = (0..32).map(|rank| payload(dtype, rank, 7)).collect();
        let up: Vec<u16> = (0..32).collect();
        let down: Vec<u16> = (0..32).rev().collect();
        let sum = |arrival| sum::<1>(Kernels::scalar(), &Policy::default(), dtype, &payloads, arrival, 0);
        assert_ne!(sum(&up), sum(&down), "{dtype:?}");
    }
}

/// Not once for each addition, which would lose bits.
#[test]
fn sums_of_16_bit_floats_are_rounded_once_in_either_order() {
    for (dtype, exact) in [(DType::F16, 1u32 << 11), (DType::Bf16, 1 << 8)] {
        // From here on the type has no odd numbers: each 1 alone would be rounded away.
        let large = f64::from(exact);
        let encode = |value: f64| match dtype {
            DType::F16 => f16::from_f64(value).to_le_bytes(),
            _ => bf16::from_f64(value).to_le_bytes(),
        };
        for ones in [1u16, 2, 3, 5, 40] {
            let payloads: Vec<Vec<u8>> =
                (0..=ones).map(|rank| encode(if rank == 0 { large } else { 1.0 }).repeat(LEN / 2)).collect();
            // Exact in binary64 and in binary32, so that only the last step rounds.
            let expected = encode(large + f64::from(ones)).repeat(LEN / 2);
            let up: Vec<u16> = (0..=ones).collect();
            let down: Vec<u16> = (0..=ones).rev().collect();
            for kernels in [Kernels::scalar(), Kernels::detect()] {
                for policy in [Policy::default(), by_rank()] {
                    for arrival in [&up, &down] {
                        let sum = sum::<1>(kernels, &policy, dtype, &payloads, arrival, 2);
                        assert_eq!(sum, expected, "{dtype:?}: {large} and {ones} times 1");
                    }
                }
            }
        }
    }
}

/// Also where the sum is not exact, and in arrival order: they are kept, and added by rank in the end.
#[test]
fn sums_of_16_bit_floats_are_those_of_the_kernel_in_either_order() {
    for dtype in [DType::F16, DType::Bf16] {
        for fan_in in [2u16, 3, 17, 64] {
            let payloads: Vec<Vec<u8>> = (0..fan_in).map(|rank| payload(dtype, rank, 99)).collect();
            let mut by_kernel = payloads[0].clone();
            let others: Vec<&[u8]> = payloads[1..].iter().map(Vec::as_slice).collect();
            assert!(!Kernels::scalar().in_order(dtype, Op::Sum)(&mut by_kernel, &others));
            let down: Vec<u16> = (0..fan_in).rev().collect();
            for policy in [Policy::default(), by_rank()] {
                let sum = sum::<1>(Kernels::detect(), &policy, dtype, &payloads, &down, 1);
                assert_eq!(sum, by_kernel, "{dtype:?}, {fan_in} ranks");
                assert_eq!(sum, expected(dtype, &payloads));
            }
        }
    }
}

#[test]
fn a_nan_is_the_canonical_one_whoever_brings_it() {
    let nans = [0x7fc0_0001u32, 0xffc0_1234, 0x7f80_0001, 0x7fff_ffff];
    let payloads: Vec<Vec<u8>> = nans.iter().map(|nan| nan.to_le_bytes().repeat(LEN / 4)).collect();
    for arrival in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        let sum = sum::<1>(Kernels::detect(), &by_rank(), DType::F32, &payloads, &arrival, 0);
        assert_eq!(sum, 0x7fc0_0000u32.to_le_bytes().repeat(LEN / 4));
    }
}
