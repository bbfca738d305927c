//! Every kernel against the scalar one, which is checked against arithmetic written out by hand.

use pascaline_buffer::combine::{Combine, Kernels, scalar};
use pascaline_wire::{DType, Op};
use proptest::prelude::*;

fn bytes<const N: usize>(values: [[u8; 4]; N]) -> Vec<u8> {
    values.concat()
}

fn i32_sum(set: Kernels) -> Combine {
    set.combine(DType::I32, Op::Sum).unwrap()
}

#[test]
fn scalar_f32_adds() {
    let mut into = bytes([1.5f32, -0.0, f32::INFINITY].map(f32::to_le_bytes));
    let from = bytes([2.25f32, 0.0, 1.0].map(f32::to_le_bytes));
    assert!(!scalar::f32_sum(&mut into, &from));
    assert_eq!(into, bytes([3.75f32, 0.0, f32::INFINITY].map(f32::to_le_bytes)));
}

#[test]
fn scalar_i32_saturates_both_ways_and_says_so() {
    let mut into = bytes([i32::MAX, i32::MIN, 7].map(i32::to_le_bytes));
    let from = bytes([1, -1, -9].map(i32::to_le_bytes));
    let sum = i32_sum(Kernels::scalar());
    assert!(sum(&mut into, &from));
    assert_eq!(into, bytes([i32::MAX, i32::MIN, -2].map(i32::to_le_bytes)));
    assert!(!sum(&mut bytes([1i32.to_le_bytes()]), &bytes([2i32.to_le_bytes()])));
}

/// Each of these alone, wherever it is: among others that saturate, a kernel that overlooks one would not be
/// found out.
#[test]
fn one_pair_that_saturates_is_enough() {
    for set in Kernels::available() {
        for (a, b) in [(i32::MIN, i32::MIN), (i32::MAX, i32::MAX), (i32::MIN, -1), (i32::MAX, 1)] {
            for at in 0..40 {
                let (mut into, mut from) = ([5i32; 40], [7i32; 40]);
                (into[at], from[at]) = (a, b);
                let mut sum = bytes(into.map(i32::to_le_bytes));
                assert!(
                    i32_sum(set)(&mut sum, &bytes(from.map(i32::to_le_bytes))),
                    "{set:?}: {a} + {b} at {at}"
                );
                assert_eq!(sum[4 * at..4 * at + 4], a.to_le_bytes(), "{set:?}: {a} + {b} at {at}");
            }
        }
    }
}

#[test]
fn the_widest_set_is_the_last_and_there_is_always_one() {
    let sets = Kernels::available();
    assert_eq!(sets[0].isa, "scalar");
    assert_eq!(Kernels::detect().isa, sets[sets.len() - 1].isa);
}

/// The other tests are of the sets that there are: here, there has to be this one.
#[test]
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
fn neon_is_among_the_sets() {
    assert!(Kernels::available().iter().any(|set| set.isa == "neon"));
}

/// Values near the edges of the range are as likely as others, so that saturation happens.
fn edgy_i32() -> impl Strategy<Value = i32> {
    prop_oneof![any::<i32>(), i32::MAX - 3..=i32::MAX, i32::MIN..=i32::MIN + 3, -3..=3]
}

fn is_nan_quad(quad: &[u8]) -> bool {
    f32::from_le_bytes([quad[0], quad[1], quad[2], quad[3]]).is_nan()
}

proptest! {
    #[test]
    fn i32_kernels_agree_bit_for_bit(
        values in prop::collection::vec((edgy_i32(), edgy_i32()), 0..700), skew in 0usize..8,
    ) {
        // A byte offset makes all loads unaligned.
        let mut into = vec![0u8; skew];
        let mut from = vec![0u8; (skew + 3) % 8];
        let from_at = from.len();
        for (a, b) in &values {
            into.extend(a.to_le_bytes());
            from.extend(b.to_le_bytes());
        }
        let mut expected = into.clone();
        let expected_flag = i32_sum(Kernels::scalar())(&mut expected[skew..], &from[from_at..]);
        for set in Kernels::available() {
            let mut got = into.clone();
            let flag = i32_sum(set)(&mut got[skew..], &from[from_at..]);
            prop_assert_eq!(&got, &expected, "{}", set.isa);
            prop_assert_eq!(flag, expected_flag, "{}", set.isa);
        }
    }

    #[test]
    fn f32_kernels_agree_bit_for_bit(values in prop::collection::vec((any::<f32>(), any::<f32>()), 0..700)) {
        let into: Vec<u8> = values.iter().flat_map(|(a, _)| a.to_le_bytes()).collect();
        let from: Vec<u8> = values.iter().flat_map(|(_, b)| b.to_le_bytes()).collect();
        let mut expected = into.clone();
        scalar::f32_sum(&mut expected, &from);
        for set in Kernels::available() {
            let mut got = into.clone();
            (set.f32_sum)(&mut got, &from);
            for (got, expected) in got.chunks(4).zip(expected.chunks(4)) {
                // Which of two NaNs comes out is not defined by IEEE 754.
                prop_assert!(got == expected || is_nan_quad(got) && is_nan_quad(expected), "{}", set.isa);
            }
        }
    }

    #[test]
    fn unequal_and_ragged_lengths_are_safe(a in 0usize..300, b in 0usize..300) {
        for set in Kernels::available() {
            let mut into = vec![1u8; a];
            let from = vec![1u8; b];
            i32_sum(set)(&mut into, &from);
            let whole = a.min(b) / 4 * 4;
            prop_assert!(into[..whole].iter().all(|&byte| byte == 2), "{}", set.isa);
            prop_assert!(into[whole..].iter().all(|&byte| byte == 1), "{}", set.isa);
        }
    }
}
