//! Kernels over payloads, against arithmetic by the book where values are awkward, else against the scalar
//! ones.

use fastrand::Rng;
use pascaline_buffer::combine::Kernels;
use pascaline_wire::{DType, Op};
use proptest::prelude::*;

use crate::common::{PLAIN, canonical, is_non_finite, joined, payload, skewed, special, sum_rounded_once};

const SIXTEEN: [DType; 2] = [DType::F16, DType::Bf16];

fn cases() -> impl Strategy<Value = (DType, Op)> {
    (prop::sample::select(PLAIN.to_vec()), prop::sample::select(Op::ALL.to_vec()))
}

/// Lengths at which registers are just filled are as likely as others.
fn counts() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..70, 1usize..=2300, Just(128), Just(256), Just(257), Just(2300)]
}

/// Every special value with every other, at every place in a register or behind the last full one.
#[test]
fn kernels_go_by_the_book() {
    for (of, op) in PLAIN.into_iter().flat_map(|of| Op::ALL.map(|op| (of, op))) {
        let pairs: Vec<_> = special(of)
            .into_iter()
            .flat_map(|a| special(of).into_iter().map(move |b| (a.clone(), b)))
            .collect();
        let expected: Vec<_> = pairs.iter().map(|(a, b)| joined(of, op, a, b)).collect();
        for start in 0..pairs.len().min(40) {
            let into: Vec<u8> = pairs[start..].iter().flat_map(|(a, _)| a.clone()).collect();
            let from: Vec<u8> = pairs[start..].iter().flat_map(|(_, b)| b.clone()).collect();
            let flag = expected[start..].iter().any(|(_, saturated)| *saturated);
            let expected: Vec<u8> = expected[start..].iter().flat_map(|(sum, _)| sum.clone()).collect();
            for kernels in Kernels::available() {
                let two = kernels.combine(of, op).unwrap_or_else(|| kernels.wide_sum(of).unwrap().only_two);
                let mut got = into.clone();
                assert_eq!(two(&mut got, &from), flag, "{} {of:?} {op:?}", kernels.isa);
                if op.adds() {
                    got = canonical(of, &got);
                }
                assert!(got == expected, "{} {of:?} {op:?}: {got:x?} instead of {expected:x?}", kernels.isa);
                let mut got = into.clone();
                assert_eq!(
                    kernels.in_order(of, op)(&mut got, &[&from]),
                    flag,
                    "{} {of:?} {op:?}",
                    kernels.isa
                );
                assert!(got == expected, "{} {of:?} {op:?}: {got:x?} instead of {expected:x?}", kernels.isa);
            }
        }
    }
}

#[test]
fn every_type_can_be_added_in_exactly_one_way() {
    for kernels in Kernels::available() {
        for of in PLAIN {
            assert_eq!(kernels.combine(of, Op::Sum).is_none(), SIXTEEN.contains(&of));
            assert_eq!(kernels.wide_sum(of).is_some(), SIXTEEN.contains(&of));
        }
    }
}

#[test]
fn nothing_to_combine_changes_nothing() {
    for kernels in Kernels::available() {
        for (of, op) in PLAIN.into_iter().flat_map(|of| Op::ALL.map(|op| (of, op))) {
            let before: Vec<u8> = special(of).concat();
            let mut into = before.clone();
            assert!(!kernels.in_order(of, op)(&mut into, &[]));
            assert_eq!(into, before);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn combining_two(
        (of, op) in cases(), count in counts(), skews in (0usize..9, 0usize..9), awkward in 1usize..40,
        seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let into = skewed(&payload(of, count, awkward, random), skews.0);
        let from = skewed(&payload(of, count, awkward, random), skews.1);
        let kernel = |kernels: Kernels| {
            kernels.combine(of, op).unwrap_or_else(|| kernels.wide_sum(of).unwrap().only_two)
        };
        let mut expected = into.clone();
        let flag = kernel(Kernels::scalar())(&mut expected[skews.0..], &from[skews.1..]);
        for kernels in Kernels::available() {
            let mut got = into.clone();
            prop_assert_eq!(kernel(kernels)(&mut got[skews.0..], &from[skews.1..]), flag, "{}", kernels.isa);
            if op.adds() && !SIXTEEN.contains(&of) {
                // Here the one thing that is not promised is which NaN it is.
                prop_assert_eq!(
                    canonical(of, &got[skews.0..]), canonical(of, &expected[skews.0..]), "{}", kernels.isa
                );
            } else {
                prop_assert_eq!(&got, &expected, "{}", kernels.isa);
            }
        }
    }

    #[test]
    fn extremes_do_not_depend_on_the_order_of_arrival(
        of in prop::sample::select(PLAIN.to_vec()), op in prop::sample::select(vec![Op::Min, Op::Max]),
        inputs in 2usize..12, count in 1usize..100, awkward in 1usize..4, seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let mut arrivals: Vec<_> = (0..inputs).map(|_| payload(of, count, awkward, random)).collect();
        for kernels in Kernels::available() {
            let combine = kernels.combine(of, op).unwrap();
            let fold = |arrivals: &[Vec<u8>]| {
                let mut into = arrivals[0].clone();
                for from in &arrivals[1..] {
                    combine(&mut into, from);
                }
                into
            };
            let expected = fold(&arrivals);
            for index in (1..inputs).rev() {
                arrivals.swap(index, random.usize(..=index));
            }
            prop_assert_eq!(fold(&arrivals), expected, "{}", kernels.isa);
        }
    }

    #[test]
    fn in_order_is_one_by_one(
        (of, op) in cases(), (inputs, count) in prop_oneof![
            9 => (1usize..20, 1usize..2300),
            1 => (1usize..=1024, 1usize..80),
        ],
        skew in 0usize..9, awkward in prop_oneof![1usize..10, Just(5000)], seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let input = |i| skewed(&payload(of, count, awkward, random), (skew + i) % 8);
        let all: Vec<_> = (0..inputs).map(input).collect();
        let all: Vec<&[u8]> = all.iter().enumerate().map(|(i, bytes)| &bytes[(skew + i) % 8..]).collect();
        let mut expected = all[0].to_vec();
        let mut flag = false;
        if inputs == 1 {
            // Not even NaNs change.
        } else if op.adds() && SIXTEEN.contains(&of) {
            let elements = (0..2 * count).step_by(2);
            expected = elements
                .flat_map(|at| sum_rounded_once(of, all.iter().map(|input| &input[at..at + 2])))
                .collect();
        } else {
            let combine = Kernels::scalar().combine(of, op).unwrap();
            for from in &all[1..] {
                flag |= combine(&mut expected, from);
            }
            expected = canonical(of, &expected);
        }
        for kernels in Kernels::available() {
            let mut got = skewed(all[0], skew);
            prop_assert_eq!(kernels.in_order(of, op)(&mut got[skew..], &all[1..]), flag, "{}", kernels.isa);
            prop_assert_eq!(&got[skew..], &expected, "{}", kernels.isa);
        }
    }

    #[test]
    fn non_finite_values_are_counted(
        of in prop::sample::select(PLAIN.to_vec()), count in 0usize..2300,
        skew in 0usize..9, ragged in 0usize..8,
        awkward in 1usize..40, seed: u64,
    ) {
        let mut bytes = payload(of, count, awkward, &mut Rng::with_seed(seed));
        let expected = bytes.chunks(of.size()).filter(|element| is_non_finite(of, element)).count();
        bytes.extend(vec![0xff; ragged % of.size()]);
        let bytes = skewed(&bytes, skew);
        for kernels in Kernels::available() {
            prop_assert_eq!(kernels.non_finite(of)(&bytes[skew..]), expected, "{}", kernels.isa);
        }
    }

    #[test]
    fn unequal_and_ragged_lengths_are_safe(
        (of, op) in cases(), lengths in prop::collection::vec(0usize..700, 2..6), seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let input = |len: &usize| payload(of, *len, 4, random)[..*len].to_vec();
        let inputs: Vec<_> = lengths.iter().map(input).collect();
        let from: Vec<&[u8]> = inputs[1..].iter().map(Vec::as_slice).collect();
        let whole = |shortest: usize| shortest - shortest % of.size();
        for kernels in Kernels::available() {
            let two = kernels.combine(of, op).unwrap_or_else(|| kernels.wide_sum(of).unwrap().only_two);
            let mut got = inputs[0].clone();
            two(&mut got, from[0]);
            let untouched = whole(lengths[0].min(lengths[1]));
            prop_assert_eq!(&got[untouched..], &inputs[0][untouched..], "{}", kernels.isa);

            let mut got = inputs[0].clone();
            kernels.in_order(of, op)(&mut got, &from);
            let untouched = whole(*lengths.iter().min().unwrap());
            prop_assert_eq!(&got[untouched..], &inputs[0][untouched..], "{}", kernels.isa);
            let mut expected = inputs[0].clone();
            Kernels::scalar().in_order(of, op)(&mut expected, &from);
            prop_assert_eq!(got, expected, "{}", kernels.isa);
        }
    }
}

proptest! {
    /// SwitchML's packets: the larger exponents, and big-endian sums that wrap, whatever the length.
    #[test]
    fn switchml_sums_wrap_and_exponents_are_the_larger_ones(
        pairs in prop::collection::vec(any::<(u32, u32)>(), 0..300),
        exponents in any::<[(i8, i8); 2]>(), rest in 0usize..4,
    ) {
        let bytes = |exponents: [i8; 2], values: &mut dyn Iterator<Item = u32>| {
            let head = exponents.map(i8::cast_unsigned);
            let tail = vec![0x5a; rest];
            [head.to_vec(), values.flat_map(u32::to_be_bytes).collect(), tail].concat()
        };
        let into = bytes(exponents.map(|(a, _)| a), &mut pairs.iter().map(|&(a, _)| a));
        let from = bytes(exponents.map(|(_, b)| b), &mut pairs.iter().map(|&(_, b)| b));
        let larger = exponents.map(|(a, b)| a.max(b));
        let expected = bytes(larger, &mut pairs.iter().map(|&(a, b)| a.wrapping_add(b)));
        for kernels in Kernels::available() {
            let mut got = into.clone();
            prop_assert!(!(kernels.switchml)(&mut got, &from));
            prop_assert!(got == expected, "{}: {got:x?}", kernels.isa);
            let mut got = into.clone();
            prop_assert!(!(kernels.switchml_in_order)(&mut got, &[&from]));
            prop_assert_eq!(&got, &expected);
        }
    }
}
