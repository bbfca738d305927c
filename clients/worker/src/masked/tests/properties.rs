//! What holds for all tensors, and for all that may arrive.

use std::collections::HashSet;

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

/// Half of the distance from a value to the next larger one of the type, or of the smallest number.
fn rounding<T: Element>(value: f64) -> f64 {
    let least = match T::DTYPE {
        DType::F16 => f64::powi(2.0, -24),
        DType::Bf16 => f64::powi(2.0, -133),
        _ => f64::powi(2.0, -149),
    };
    (value.abs() * f64::powi(2.0, -i32::try_from(T::DIGITS).unwrap())).max(least / 2.0)
}

/// Whether sums and means are within the bound that `fixed` states.
fn assert_within<T: Element>(tensors: &[Vec<T>]) {
    let ranks = u16::try_from(tensors.len()).unwrap();
    let largest = tensors.iter().flatten().map(|value| value.value().abs()).fold(0.0, f64::max);
    let Ok(Form::Fixed { up, down, .. }) = Form::of_sums(T::DTYPE, (largest as f32).to_bits(), ranks) else {
        panic!("floats have a scale");
    };
    let count = f64::from(ranks);
    // 2ˢ is as large as it may be, so it is known beforehand, too.
    assert!(largest == 0.0 || down <= 4.1 * largest * count / f64::powi(2.0, 31), "{down} of {largest}");
    assert!(count * (largest * up).round_ties_even() < f64::powi(2.0, 31));
    let bound = count * down / 2.0;
    for (op, divisor) in [(Op::Sum, 1.0), (Op::Mean, count)] {
        for (at, got) in sums(op, tensors).into_iter().enumerate() {
            let exact: f64 = tensors.iter().map(|tensor| tensor[at].value()).sum::<f64>() / divisor;
            let got = got.value();
            let bound = bound / divisor;
            if got.is_infinite() {
                let most = T::nearest(f64::MAX / 2.0).value();
                assert!(most.is_infinite() && op == Op::Sum, "a mean is finite");
                continue;
            }
            let within = bound + rounding::<T>(exact.abs() + bound);
            assert!((got - exact).abs() <= within * 1.000_001, "{op:?} {at}: {got} {exact} {within}");
        }
    }
}

/// Numbers of every kind that can be summed: normal, small, subnormal, huge and zero.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -1.0_f32..1.0,
        1 => (0_u32..0x0080_0000).prop_map(f32::from_bits),
        1 => any::<f32>().prop_filter("a number", |value| value.is_finite()),
        1 => Just(0.0),
        1 => Just(f32::MAX),
        1 => -1e-30_f32..1e-30,
    ]
}

fn tensors(of: impl Strategy<Value = f32> + Clone) -> impl Strategy<Value = Vec<Vec<f32>>> {
    (1_usize..6, 1_usize..40).prop_flat_map(move |(ranks, elements)| {
        prop::collection::vec(prop::collection::vec(of.clone(), elements), ranks)
    })
}

fn every_kind() -> impl Strategy<Value = Vec<Vec<f32>>> {
    let small = (0_u32..0x0080_0000).prop_map(f32::from_bits).boxed();
    prop_oneof![
        tensors((-1.0_f32..1.0).boxed()),
        tensors(number().boxed()),
        tensors(small),
        tensors(Just(0.0).boxed()),
        tensors((1e38_f32..f32::MAX).boxed()),
    ]
}

/// Whether no other number of the type is nearer, or as near and even. Infinity counts as 2^`top`.
fn is_nearest(value: f64, bytes: [u8; 2], number: impl Fn(u16) -> f64, top: i32) -> bool {
    let bits = u16::from_le_bytes(bytes);
    let far = |bits: u16| {
        let number = number(bits);
        let number = if number.is_infinite() { f64::powi(2.0, top).copysign(number) } else { number };
        (number - value).abs()
    };
    let others = [bits.wrapping_sub(1), bits + 1];
    let others = others.into_iter().filter(|&other| !number(other).is_nan() && (bits ^ other) >> 15 == 0);
    let own = far(bits);
    let beyond = number(bits).is_infinite() && value.abs() > f64::powi(2.0, top);
    beyond || others.into_iter().all(|other| own < far(other) || own <= far(other) && bits & 1 == 0)
}

proptest! {
    #[test]
    fn sums_and_means_are_within_the_bound(tensors in every_kind()) {
        assert_within::<f32>(&tensors);
        let halves = |tensor: &Vec<f32>| tensor.iter().map(|value| {
            f16::from_f32(value.clamp(-65_504.0, 65_504.0))
        }).collect::<Vec<_>>();
        assert_within::<f16>(&tensors.iter().map(halves).collect::<Vec<_>>());
        let brains = |tensor: &Vec<f32>| tensor.iter().map(|value| {
            bf16::from_f32(value.clamp(-3e38, 3e38))
        }).collect::<Vec<_>>();
        assert_within::<bf16>(&tensors.iter().map(brains).collect::<Vec<_>>());
    }

    #[test]
    fn integers_are_exact_or_refused(
        tensors in (1_usize..5).prop_flat_map(|ranks| {
            let each = i32::MAX / i32::try_from(ranks).unwrap();
            prop::collection::vec(prop::collection::vec(-each..=each, 3), ranks)
        })
    ) {
        let got = sums(Op::Sum, &tensors);
        let right: Vec<i32> = (0..3).map(|at| tensors.iter().map(|tensor| tensor[at]).sum()).collect();
        prop_assert_eq!(&got, &right);
        let means = sums(Op::Mean, &tensors);
        let mut divided = bytes(&right);
        crate::element::divide(DType::I32, &mut divided, u32::try_from(tensors.len()).unwrap());
        prop_assert_eq!(means, values::<i32>(&divided));
    }

    /// No rank's, and no common one.
    #[test]
    fn no_keystream_is_used_twice_whatever_the_appliance_hands_out(
        ranks in 1_u16..5,
        operations in prop::collection::vec(prop::collection::vec(0_u64..4, 5), 2..6),
    ) {
        // Of each rank the appliance has kept announcements 0 to 3, and hands out any; own ones are fresh.
        let mut used = HashSet::new();
        for rank in 0..ranks {
            for (operation, handed_out) in (0_u64..).zip(&operations) {
                let fresh = 1000 + operation;
                let (mut arrived, key) = (Vec::new(), key());
                for (other, &kept) in (0..ranks).zip(handed_out) {
                    let number = if other == rank { fresh } else { kept };
                    let identity = identity(other, ranks);
                    let own = Own::new(&key, &identity, (&SUM, DType::F32), &[0; 4], salt(other, number));
                    arrived.extend(own.unwrap().entry);
                }
                let identity = identity(rank, ranks);
                let own = Own::new(&key, &identity, (&SUM, DType::F32), &[0; 4], salt(rank, fresh)).unwrap();
                let masks = own.agree(&arrived).unwrap();
                let mut streams = vec![&masks.before, &masks.after, &masks.common];
                if ranks == 1 {
                    streams.remove(0);
                }
                for stream in streams {
                    let mut words = [0_u32; 4];
                    stream.piece(0, &mut words);
                    prop_assert!(used.insert((rank, words)), "twice at rank {}", rank);
                }
            }
        }
    }

    #[test]
    fn nothing_that_arrives_makes_a_rank_panic(
        arrived in prop::collection::vec(any::<u8>(), 0..300),
        words in prop::collection::vec(any::<u32>(), 0..40),
    ) {
        let (key, identity) = (key(), identity(1, 3));
        let own = Own::new(&key, &identity, (&SUM, DType::F32), &[0; 40], salt(1, 1)).unwrap();
        prop_assert!(own.agree(&arrived).is_err());
        let alone = super::identity(0, 1);
        let own = Own::new(&key, &alone, (&SUM, DType::F32), &[0; 40], salt(0, 1)).unwrap();
        let entries = own.entries();
        let masks = own.agree(&entries).unwrap();
        let _ = received(&masks, &words, &mut [0; 40]);
    }

    /// In any steps, and taken while the rest is still being made.
    #[test]
    fn pieces_are_what_the_whole_is(
        elements in 1_usize..5000, steps in prop::collection::vec((0_usize..6000, 0_usize..6000), 0..12),
    ) {
        let tensors: Vec<_> = (0..2_i32).map(|rank| {
            bytes(&(0..elements).map(|at| rank - at as i32).collect::<Vec<_>>())
        }).collect();
        let own = |at: usize| {
            let identity = identity(at as u16, 2);
            Own::new(&key(), &identity, (&SUM, DType::I32), &tensors[at], salt(at as u16, 1)).unwrap().entry
        };
        let entries = [own(0), own(1)].concat();
        let masks = |at: usize| {
            let (key, identity) = (key(), identity(at as u16, 2));
            let own = Own::new(&key, &identity, (&SUM, DType::I32), &tensors[at], salt(at as u16, 1));
            own.unwrap().agree(&entries).unwrap()
        };
        let (first, second) = (masks(0), masks(1));
        let all = [sent(&first, &tensors[0]), sent(&second, &tensors[1])];
        let sum = sum_of(&all);
        let (mut tensor, mut travels) = (tensors[0].clone(), vec![0_u32; first.room()]);
        let mut masking = Masking::new(&first, &mut tensor);
        let (mut made, mut summed) = (0, 0);
        for (more, results) in steps.into_iter().chain([(usize::MAX, usize::MAX)]) {
            made = more.min(travels.len()).max(made);
            masking.fill(travels.as_mut_bytes(), 4 * made);
            prop_assert!(travels[summed..made] == all[0][summed..made]);
            let until = results.min(made).max(summed);
            travels[summed..until].copy_from_slice(&sum[summed..until]);
            summed = until;
            masking.take(travels.as_bytes(), 4 * summed);
            prop_assert!(travels[..summed] == sum[..summed], "others may ask for it");
        }
        prop_assert!(masking.finish(travels.as_bytes()).is_ok());
        let right: Vec<_> = (0..elements).map(|at| 1 - 2 * at as i32).collect();
        prop_assert_eq!(values::<i32>(&tensor), right);
    }

    #[test]
    fn a_falsified_block_is_found(
        at in 0_usize..2060, flips in prop::collection::vec((0_usize..2060, 1_u32..), 0..4), bit in 0_u32..32,
    ) {
        let tensors = vec![bytes(&vec![0.5_f32; 2052 - 8]); 3];
        let falsified = |sum: &mut Vec<u32>| {
            let words = sum.len();
            sum[at % words] ^= 1 << bit;
            flips.iter().filter(|(other, _)| other % words != at % words).for_each(|(other, by)| {
                sum[other % words] = sum[other % words].wrapping_add(*by);
            });
        };
        let ends = operate(&SUM, DType::F32, &tensors, &Appliance { summed: &falsified, ..HONEST });
        for (end, _) in ends {
            let found = matches!(end, Err(Fault::NotTheSum { wrong: 1.., blocks: 2 }));
            prop_assert!(found);
        }
    }

    /// Sums in 16 bits are rounded once, not to `f32` and then again.
    #[test]
    fn sixteen_bits_are_rounded_once(word in any::<u32>(), exponent in -170_i32..100, near in any::<u16>()) {
        let down = f64::powi(2.0, exponent);
        // Also words around what is halfway between two elements.
        for word in [word, u32::from(near) << 16 | 0x8000, u32::from(near) << 15 | 1, u32::from(near) << 12] {
            let value = f64::from(word.cast_signed()) * down;
            let rounded = |dtype| {
                let mut bytes = [0; 2];
                Form::Fixed { dtype, up: 1.0, down }.decode(Op::Sum, 1, &[word], &mut bytes);
                bytes
            };
            let (half, brain) = (rounded(DType::F16), rounded(DType::Bf16));
            let of_half = |bits| f16::from_bits(bits).to_f64();
            let of_brain = |bits| bf16::from_bits(bits).to_f64();
            prop_assert!(is_nearest(value, half, of_half, 16), "{value} {half:?}");
            prop_assert!(is_nearest(value, brain, of_brain, 128), "{value} {brain:?}");
        }
    }
}
