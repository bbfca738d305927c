//! Sums of blocks: every instruction set's against the standard, and how far they are off.

#[path = "../../../wire/tests/it/common/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod reference;

use fastrand::Rng;
use half::{bf16, f16};
use pascaline_buffer::combine::Kernels;
use pascaline_wire::mx::BYTES;
use pascaline_wire::{DType, Op};
use proptest::prelude::*;
use reference::Kind;

const TYPES: [(DType, Kind); 2] = [(DType::MxFp8, Kind::E4m3), (DType::MxInt8, Kind::Int8)];

/// Blocks of any bytes, whose scales are near each other or not.
fn payload(blocks: usize, near: bool, random: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..blocks * BYTES).map(|_| random.u8(..)).collect();
    if near {
        bytes.chunks_mut(BYTES).for_each(|block| block[0] = 120 + block[0] % 12);
    }
    bytes
}

/// The sum by the standard, with additions in binary32 in the order given.
fn right(kind: Kind, inputs: &[&[u8]]) -> Vec<u8> {
    let block = |at: usize| {
        #[allow(clippy::cast_possible_truncation, reason = "exact, or infinite as in binary32")]
        let values = |input: &&[u8]| -> Vec<f32> {
            kind.decode(&input[at..at + BYTES]).iter().map(|&value| value as f32).collect()
        };
        let add = |sum: Vec<f32>, more: Vec<f32>| sum.iter().zip(more).map(|(a, b)| a + b).collect();
        kind.encode(&inputs.iter().map(values).reduce(add).unwrap())
    };
    (0..inputs[0].len() / BYTES).flat_map(|at| block(at * BYTES)).collect()
}

#[test]
fn blocks_are_combined_at_once_and_never_compared() {
    for kernels in Kernels::available() {
        for (of, _) in TYPES {
            assert!(kernels.wide_sum(of).is_none());
            for op in Op::ALL {
                assert!(kernels.combine(of, op).is_none());
                let (mut into, from) = ([0x40; BYTES], [0x41; BYTES]);
                assert!(!kernels.in_order(of, op)(&mut into, &[&from]));
                assert_eq!(into == [0x40; BYTES], !op.adds(), "{} {of} {op:?}", kernels.isa);
            }
        }
    }
}

proptest! {
    /// Holds R7.2 of protocol.md.
    #[test]
    fn sums_are_the_standard_s_on_every_instruction_set(
        inputs in 2usize..10, blocks in 1usize..5, ragged in 0usize..BYTES, near: bool, seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let inputs: Vec<Vec<u8>> = (0..inputs).map(|_| payload(blocks, near, random)).collect();
        let all: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        for (of, kind) in TYPES {
            let mut expected = right(kind, &all);
            expected.extend(vec![0xa5; ragged]);
            for kernels in Kernels::available() {
                let mut got = inputs[0].clone();
                got.extend(vec![0xa5; ragged]);
                prop_assert!(!kernels.in_order(of, Op::Sum)(&mut got, &all[1..]));
                prop_assert!(got == expected, "{} {of}: {got:02x?}, not {expected:02x?}", kernels.isa);
            }
        }
    }

    #[test]
    fn unequal_lengths_are_safe_and_nobody_s_alone_changes(
        lengths in prop::collection::vec(0usize..300, 1..6), seed: u64,
    ) {
        let random = &mut Rng::with_seed(seed);
        let inputs: Vec<_> = lengths.iter().map(|&len| payload(10, true, random)[..len].to_vec()).collect();
        let from: Vec<&[u8]> = inputs[1..].iter().map(Vec::as_slice).collect();
        let shortest = lengths.iter().min().unwrap() / BYTES * BYTES;
        for (of, _) in TYPES {
            let mut expected = inputs[0].clone();
            Kernels::scalar().in_order(of, Op::Mean)(&mut expected, &from);
            prop_assert_eq!(&expected[shortest..], &inputs[0][shortest..]);
            prop_assert!(!from.is_empty() || expected == inputs[0]);
            for kernels in Kernels::available() {
                let mut got = inputs[0].clone();
                kernels.in_order(of, Op::Mean)(&mut got, &from);
                prop_assert_eq!(&got, &expected, "{}", kernels.isa);
            }
        }
    }

    #[test]
    fn what_is_no_number_is_counted(blocks in 0usize..6, ragged in 0usize..BYTES, seed: u64) {
        let mut bytes = payload(blocks, false, &mut Rng::with_seed(seed));
        bytes.chunks_mut(2 * BYTES).for_each(|blocks| blocks[0] = 0xff);
        bytes.extend(vec![0xff; ragged]);
        for (of, kind) in TYPES {
            let values = bytes.as_chunks::<BYTES>().0.iter().flat_map(|block| kind.decode(block));
            #[allow(clippy::cast_possible_truncation, reason = "to binary32, where it may be infinite")]
            let expected = values.filter(|&value| !(value as f32).is_finite()).count();
            for kernels in Kernels::available() {
                prop_assert_eq!(kernels.non_finite(of)(&bytes), expected, "{}", kernels.isa);
            }
        }
    }
}

/// Twelve uniform numbers: near enough to a normal one.
fn normal(random: &mut Rng) -> f32 {
    (0..12).map(|_| random.f32()).sum::<f32>() - 6.0
}

/// The relative error (L2) of the sum of eight normal tensors, as a kernel makes it.
fn error(of: DType, tensors: &[Vec<f32>], sums: &[f64]) -> f64 {
    let encode = |values: &Vec<f32>| -> Vec<u8> {
        match of {
            DType::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
            DType::Bf16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
            _ => values.chunks(32).flat_map(|values| kind_of(of).encode(values)).collect(),
        }
    };
    let inputs: Vec<Vec<u8>> = tensors.iter().map(encode).collect();
    let from: Vec<&[u8]> = inputs[1..].iter().map(Vec::as_slice).collect();
    let mut sum = inputs[0].clone();
    Kernels::detect().in_order(of, Op::Sum)(&mut sum, &from);
    let got: Vec<f64> = match of {
        DType::F16 => sum.as_chunks().0.iter().map(|&bits| f16::from_le_bytes(bits).to_f64()).collect(),
        DType::Bf16 => sum.as_chunks().0.iter().map(|&bits| bf16::from_le_bytes(bits).to_f64()).collect(),
        _ => sum.chunks(BYTES).flat_map(|block| kind_of(of).decode(block)).collect(),
    };
    relative(&got, sums)
}

fn kind_of(of: DType) -> Kind {
    TYPES.into_iter().find(|(dtype, _)| *dtype == of).unwrap().1
}

fn relative(got: &[f64], right: &[f64]) -> f64 {
    let off: f64 = got.iter().zip(right).map(|(got, right)| (got - right).powi(2)).sum();
    (off / right.iter().map(|right| right * right).sum::<f64>()).sqrt()
}

/// Adding costs no more than what rounding each input once and the exact sum once costs: within 1.2 times.
/// The four figures are those of docs/collectives.md.
#[test]
fn eight_normal_tensors_are_off_by_what_rounding_costs() {
    let random = &mut Rng::with_seed(1);
    let mut tensor = || -> Vec<f32> { (0..1 << 14).map(|_| normal(random)).collect() };
    let tensors: Vec<Vec<f32>> = (0..8).map(|_| tensor()).collect();
    let sums = |tensors: &[Vec<f64>]| -> Vec<f64> {
        (0..1 << 14).map(|at| tensors.iter().map(|tensor| tensor[at]).sum()).collect()
    };
    let wide: Vec<Vec<f64>> =
        tensors.iter().map(|tensor| tensor.iter().map(|&value| value.into()).collect()).collect();
    let exact = sums(&wide);
    for (of, figure) in [(DType::F16, 0.0003), (DType::Bf16, 0.0024)] {
        let error = error(of, &tensors, &exact);
        println!("{of}: {error:.5}");
        assert!(error < figure, "{of}: {error}");
    }
    for ((of, kind), figure) in TYPES.into_iter().zip([0.043, 0.012]) {
        let once = |values: &[f64]| -> Vec<f64> {
            #[allow(clippy::cast_possible_truncation, reason = "as a worker has them")]
            let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            narrow.chunks(32).flat_map(|values| kind.decode(&kind.encode(values))).collect()
        };
        let rounded: Vec<Vec<f64>> = wide.iter().map(|tensor| once(tensor)).collect();
        // Rounding each input once, and apart from that the exact sum once.
        let inputs = relative(&sums(&rounded), &exact);
        let output = relative(&once(&exact), &exact);
        let (error, limit) = (error(of, &tensors, &exact), 1.2 * inputs.hypot(output));
        println!("{of}: {error:.5}, at most {limit:.5}");
        assert!(error <= limit && error < figure, "{of}: {error}, at most {limit}");
    }
}
