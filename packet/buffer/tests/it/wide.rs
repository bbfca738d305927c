//! Conversions of 16-bit floats against the crate `half`, all of them; and their sums in a wide accumulator.

use fastrand::Rng;
use half::{bf16, f16};
use pascaline_buffer::combine::{Kernels, WideSum};
use pascaline_wire::DType;
use proptest::prelude::*;

use crate::common::{canonical, payload, rounded, skewed, sum_rounded_once};

const SIXTEEN: [DType; 2] = [DType::F16, DType::Bf16];

fn sums(of: DType) -> impl Iterator<Item = (&'static str, WideSum)> {
    Kernels::available().into_iter().filter_map(move |kernels| Some((kernels.isa, kernels.wide_sum(of)?)))
}

fn by_half(of: DType, bits: u16) -> f32 {
    if of == DType::F16 { f16::from_bits(bits).to_f32() } else { bf16::from_bits(bits).to_f32() }
}

/// Narrow elements, followed by as many bytes of room.
fn with_room(narrow: &[u8]) -> Vec<u8> {
    [narrow, &vec![0x5a; narrow.len()]].concat()
}

#[test]
fn every_value_widens_exactly_and_comes_back() {
    for of in SIXTEEN {
        let narrow: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (isa, sum) in sums(of) {
            let mut buffer = with_room(&narrow);
            (sum.widen)(&mut buffer);
            for (bits, wide) in (0..=u16::MAX).zip(buffer.chunks(4)) {
                let wide = f32::from_le_bytes(wide.try_into().unwrap());
                let expected = by_half(of, bits);
                let same = wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan();
                assert!(same, "{isa} {of:?} {bits:04x}: {wide} instead of {expected}");
            }
            (sum.narrow)(&mut buffer);
            assert_eq!(&buffer[..narrow.len()], canonical(of, &narrow), "{isa} {of:?}");
        }
    }
}

#[test]
fn rounding_is_right_at_every_value_and_halfway_to_the_next() {
    for of in SIXTEEN {
        let mut wide = Vec::new();
        for bits in 0..=u16::MAX {
            let here = by_half(of, bits).to_bits();
            // Halfway is where the cut is in binary32's fraction; among binary16's denormals only the
            // midpoint is.
            let halfway = if of == DType::F16 { 1 << 12 } else { 1 << 15 };
            let midpoint = f32::midpoint(by_half(of, bits), by_half(of, bits.wrapping_add(1))).to_bits();
            for center in [here, here.wrapping_add(halfway), midpoint] {
                wide.extend((-2..=2).map(|step| f32::from_bits(center.wrapping_add_signed(step))));
            }
        }
        let expected: Vec<u8> = wide.iter().flat_map(|value| rounded(of, *value)).collect();
        for (isa, sum) in sums(of) {
            let mut buffer: Vec<u8> = wide.iter().flat_map(|value| value.to_le_bytes()).collect();
            (sum.narrow)(&mut buffer);
            assert!(buffer[..expected.len()] == expected, "{isa} {of:?}");
        }
    }
}

/// A quarter of a minute with optimisation.
#[test]
#[ignore = "all 2^32 values, for changes of the conversions: cargo test --release -- --ignored"]
fn rounding_is_right_for_every_binary32() {
    for of in SIXTEEN {
        for high in 0..=u16::MAX {
            let wide: Vec<f32> =
                (0..=u16::MAX).map(|low| f32::from_bits(u32::from(high) << 16 | u32::from(low))).collect();
            let expected: Vec<u8> = wide
                .iter()
                .flat_map(|value| match of {
                    _ if value.is_nan() && of == DType::F16 => 0x7e00u16.to_le_bytes(),
                    _ if value.is_nan() => 0x7fc0u16.to_le_bytes(),
                    DType::F16 => f16::from_f32(*value).to_le_bytes(),
                    _ => bf16::from_f32(*value).to_le_bytes(),
                })
                .collect();
            for (isa, sum) in sums(of) {
                let mut buffer: Vec<u8> = wide.iter().flat_map(|value| value.to_le_bytes()).collect();
                (sum.narrow)(&mut buffer);
                assert!(buffer[..expected.len()] == expected, "{isa} {of:?} {high:04x}");
            }
        }
    }
}

#[test]
fn too_large_a_sum_is_an_infinity_and_no_error() {
    for (isa, sum) in sums(DType::F16) {
        let largest = f16::MAX.to_le_bytes();
        let mut into = largest.to_vec();
        assert!(!(sum.only_two)(&mut into, &largest), "{isa}");
        assert_eq!(into, f16::INFINITY.to_le_bytes(), "{isa}");
        // Rounded once: what is too large for a moment need not be so in the end.
        let mut buffer = with_room(&largest);
        (sum.second)(&mut buffer, &largest);
        (sum.last)(&mut buffer, &f16::MIN.to_le_bytes());
        assert_eq!(buffer[..2], largest, "{isa}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_sum_is_rounded_once(
        of in prop::sample::select(SIXTEEN.to_vec()), inputs in 2usize..7,
        count in prop_oneof![1usize..70, 1usize..=2300], skew in 0usize..9, awkward in 1usize..40,
        early: bool, seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let all: Vec<_> = (0..inputs).map(|_| payload(of, count, awkward, random)).collect();
        let elements = (0..2 * count).step_by(2);
        let expected: Vec<u8> = elements
            .flat_map(|at| sum_rounded_once(of, all.iter().map(|input| &input[at..at + 2])))
            .collect();
        for (isa, sum) in sums(of) {
            // With something behind the room that is to stay as it is.
            let mut memory = skewed(&[with_room(&all[0]), vec![0xc3; 100]].concat(), skew);
            let buffer = &mut memory[skew..skew + 4 * count];
            let last = if early { &[][..] } else { &all[inputs - 1..] };
            let middle = &all[2..inputs - last.len().min(inputs - 2)];
            if inputs == 2 && !early {
                (sum.only_two)(buffer, &all[1]);
            } else {
                (sum.second)(buffer, &all[1]);
                for from in middle {
                    (sum.next)(buffer, from);
                }
                match last {
                    [from] => { (sum.last)(buffer, from); }
                    _ => (sum.narrow)(buffer),
                }
            }
            prop_assert_eq!(&memory[skew..skew + 2 * count], &expected, "{}", isa);
            prop_assert!(memory[skew + 4 * count..].iter().all(|byte| *byte == 0xc3), "{}", isa);
            prop_assert!(memory[..skew].iter().all(|byte| *byte == 0xa5), "{}", isa);
        }
    }

    #[test]
    fn every_step_agrees_with_the_scalar_one_at_any_length(
        of in prop::sample::select(SIXTEEN.to_vec()), room in 0usize..3000, len in 0usize..1500,
        awkward in 1usize..40,
        seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let before = payload(of, room, awkward, random)[..room].to_vec();
        let from = payload(of, len, awkward, random)[..len].to_vec();
        let oracle = Kernels::scalar().wide_sum(of).unwrap();
        // As an accumulator, any NaN is as good as another.
        let wide = |bytes: &[u8]| {
            let whole = bytes.len() - bytes.len() % 4;
            [canonical(DType::F32, &bytes[..whole]), bytes[whole..].to_vec()].concat()
        };
        for (isa, sum) in sums(of) {
            for (step, oracle) in [(sum.second, oracle.second), (sum.next, oracle.next)] {
                let (mut got, mut expected) = (before.clone(), before.clone());
                prop_assert!(!step(&mut got, &from) && !oracle(&mut expected, &from));
                prop_assert_eq!(wide(&got), wide(&expected), "{}", isa);
                let used = 4 * (room / 4).min(len / 2);
                prop_assert_eq!(&got[used..], &before[used..], "{}", isa);
            }
            for (step, oracle) in [(sum.last, oracle.last), (sum.only_two, oracle.only_two)] {
                let (mut got, mut expected) = (before.clone(), before.clone());
                prop_assert!(!step(&mut got, &from) && !oracle(&mut expected, &from));
                prop_assert_eq!(got, expected, "{}", isa);
            }
            let (mut got, mut expected) = (before.clone(), before.clone());
            (sum.narrow)(&mut got);
            (oracle.narrow)(&mut expected);
            prop_assert_eq!(got, expected, "{}", isa);
            let (mut got, mut expected) = (before.clone(), before.clone());
            (sum.widen)(&mut got);
            (oracle.widen)(&mut expected);
            prop_assert_eq!(wide(&got), wide(&expected), "{}", isa);
        }
    }
}
