//! `f32` tensors that travel as something smaller, over loopback sockets.

use pascaline_worker::{
    AllreduceError, Collective, Config, Feedback, Hints, MxFp8, MxInt8, Narrow, Op, Parts, StartError, Worker,
};

use crate::adversary::Conditions;
use crate::driver::{Appliance, RANKS, on_every_rank};

#[path = "../../../../packet/wire/tests/it/common/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod reference;

use reference::Kind;

const BLOCKS: [(Narrow, Kind); 2] = [(Narrow::MxFp8, Kind::E4m3), (Narrow::MxInt8, Kind::Int8)];
const SUM: Collective<'_> = Collective::Allreduce(Op::Sum);

/// Numbers that neither type has: within the bound that `narrow` states, and the same bits everywhere.
#[test]
fn f32_travels_in_sixteen_bits_by_request() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    let value = |rank: u16, index: u16| (f32::from(rank) + 1.0) / 3.0 + f32::from(index) * 0.1;
    let ends = on_every_rank(&appliance, |rank, mut worker| {
        let own: Vec<f32> = (0..1000).map(|index| value(rank, index)).collect();
        let mut bits = Vec::new();
        for (narrow, u) in [(Narrow::F16, f32::powi(2.0, -11)), (Narrow::Bf16, f32::powi(2.0, -8))] {
            let (mut sum, mut kept) = (own.clone(), own.clone());
            let all = Collective::Allreduce(Op::Sum);
            let report = worker.collective_narrow(&all, &mut sum, narrow, Hints::default()).unwrap();
            // 512 elements a packet.
            assert_eq!((report.packets, report.bytes), (2, 4000));
            let mut rounded = false;
            for (index, &sum) in (0..).zip(&sum) {
                let right: f32 = (0..RANKS).map(|rank| value(rank, index)).sum();
                let bound = u * right + u * (right + u * right);
                assert!((sum - right).abs() <= bound * 1.0001, "{narrow:?} {index}: {sum} {right}");
                rounded |= sum != right;
            }
            assert!(rounded);
            bits.push(sum);
            let reduce = Collective::Reduce { op: Op::Sum, root: 1 };
            worker.collective_narrow(&reduce, &mut kept, narrow, Hints::default()).unwrap();
            assert_eq!(kept == own, rank != 1, "a rank that takes nothing keeps every bit");
        }
        worker.leave();
        bits
    });
    assert!(ends.iter().all(|bits| *bits == ends[0]));
}

/// A number that no block has as it is.
fn value(rank: u16, index: usize) -> f32 {
    let magnitude = (f32::from(rank) + 1.0) / 3.0 + (index * index % 101) as f32 * 0.1;
    if index.is_multiple_of(3) { -magnitude } else { magnitude }
}

fn tensor(rank: u16, elements: usize) -> Vec<f32> {
    (0..elements).map(|index| value(rank, index)).collect()
}

/// Rounded once, block by block, as the standard has it.
#[expect(clippy::cast_possible_truncation, reason = "exact")]
fn once(kind: Kind, values: &[f32]) -> Vec<f32> {
    let block = |some: &[f32]| {
        let padded: Vec<f32> = some.iter().copied().chain(std::iter::repeat(0.0)).take(32).collect();
        let rounded = kind.decode(&kind.encode(&padded));
        rounded[..some.len()].iter().map(|&value| value as f32).collect::<Vec<f32>>()
    };
    values.chunks(32).flat_map(block).collect()
}

/// What the ranks' tensors make: each rounded once, added by rank, and the sum rounded once.
fn sum_of(kind: Kind, tensors: &[Vec<f32>]) -> Vec<f32> {
    let add = |sum: Vec<f32>, more: Vec<f32>| sum.iter().zip(more).map(|(a, b)| a + b).collect();
    once(kind, &tensors.iter().map(|tensor| once(kind, tensor)).reduce(add).unwrap())
}

fn narrow(
    worker: &mut Worker,
    call: &Collective<'_>,
    (tensor, narrow): (&mut [f32], Narrow),
) -> Result<u32, AllreduceError> {
    worker.collective_narrow(call, tensor, narrow, Hints::default()).map(|report| report.packets)
}

#[test]
fn f32_travels_in_blocks_and_every_bit_is_the_standard_s() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    // 31 blocks are a packet of 1,023 bytes; the last block may be shorter.
    for elements in [1, 31, 32, 33, 992, 1000, 5000] {
        on_every_rank(&appliance, |rank, mut worker| {
            let all: Vec<_> = (0..RANKS).map(|rank| tensor(rank, elements)).collect();
            for (how, kind) in BLOCKS {
                let right = sum_of(kind, &all);
                let mut sum = all[usize::from(rank)].clone();
                let packets = narrow(&mut worker, &SUM, (&mut sum, how)).unwrap();
                assert_eq!(packets as usize, elements.div_ceil(32).div_ceil(31));
                assert_eq!(sum, right, "{how:?} {elements}");

                let mut mean = all[usize::from(rank)].clone();
                narrow(&mut worker, &Collective::Allreduce(Op::Mean), (&mut mean, how)).unwrap();
                let thirds: Vec<f32> = right.iter().map(|sum| sum / f32::from(RANKS)).collect();
                assert_eq!(mean, once(kind, &thirds));

                let mut kept = all[usize::from(rank)].clone();
                narrow(&mut worker, &Collective::Reduce { op: Op::Sum, root: 1 }, (&mut kept, how)).unwrap();
                assert_eq!(kept, if rank == 1 { right } else { all[usize::from(rank)].clone() });

                let mut sent = all[usize::from(rank)].clone();
                narrow(&mut worker, &Collective::Broadcast { root: 2 }, (&mut sent, how)).unwrap();
                assert_eq!(sent, once(kind, &all[2]), "the root's is rounded, too");
            }
            worker.leave();
        });
    }
}

/// Blocks of the user's own, and parts that end where blocks do.
#[test]
fn whole_blocks_can_be_parted() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        let elements = 32 * 6;
        let all: Vec<_> = (0..RANKS).map(|rank| tensor(rank, elements)).collect();
        let counts = [0, 32, 160];
        for (parts, part) in [
            (Parts::Even, 64 * usize::from(rank)..64 * usize::from(rank + 1)),
            (Parts::Counts(&counts), [0..0, 0..32, 32..192][usize::from(rank)].clone()),
        ] {
            for (how, kind) in BLOCKS {
                let own = all[usize::from(rank)].clone();
                let (mut mine, mut right) = (own.clone(), own.clone());
                narrow(&mut worker, &Collective::ReduceScatter { op: Op::Sum, parts }, (&mut mine, how))
                    .unwrap();
                right[part.clone()].copy_from_slice(&sum_of(kind, &all)[part.clone()]);
                assert_eq!(mine, right, "{how:?} {parts:?}");
                let mut gathered = own;
                narrow(&mut worker, &Collective::Allgather { parts }, (&mut gathered, how)).unwrap();
                let of = |index| (0..RANKS).find(|&r| parts.of(r, RANKS, elements).unwrap().contains(&index));
                let whole: Vec<Vec<f32>> = all.iter().map(|tensor| once(kind, tensor)).collect();
                let right: Vec<f32> =
                    (0..elements).map(|index| whole[usize::from(of(index).unwrap())][index]).collect();
                assert_eq!(gathered, right);
            }
        }
        let mut blocks = [MxInt8::of(&[0.5; 32]); 40];
        assert_eq!(worker.allreduce(&mut blocks).unwrap().packets, 2);
        assert_eq!(blocks, [MxInt8::of(&[1.5; 32]); 40]);
        let mut blocks = [MxFp8::of(&[-0.25; 32])];
        worker.allreduce(&mut blocks).unwrap();
        assert_eq!(blocks, [MxFp8::of(&[-0.75; 32])]);
        worker.leave();
    });
}

/// With feedback a rank's roundings do not add up over the tensors of a training.
#[test]
fn what_rounding_leaves_comes_with_the_next_tensor() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        let (elements, rounds) = (100, 20);
        let all: Vec<_> = (0..RANKS).map(|rank| tensor(rank, elements)).collect();
        for (how, kind) in BLOCKS {
            let mut feedback = Feedback::default();
            let mut kept = vec![vec![0.0; elements]; usize::from(RANKS)];
            for _ in 0..rounds {
                let given: Vec<Vec<f32>> = all
                    .iter()
                    .zip(&kept)
                    .map(|(tensor, kept)| tensor.iter().zip(kept).map(|(x, kept)| x + kept).collect())
                    .collect();
                let mut sum = all[usize::from(rank)].clone();
                let narrowing = how.with(&mut feedback);
                worker.collective_narrow(&SUM, &mut sum, narrowing, Hints::default()).unwrap();
                assert_eq!(sum, sum_of(kind, &given), "{how:?}");
                for (kept, given) in kept.iter_mut().zip(&given) {
                    *kept = given.iter().zip(once(kind, given)).map(|(x, rounded)| x - rounded).collect();
                }
                assert_eq!(feedback.kept(), kept[usize::from(rank)]);
            }
            // So what has been sent in all is off by what is kept, and that is one rounding.
            let most = all[usize::from(rank)].iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            assert!(feedback.kept().iter().all(|kept| kept.abs() <= most / 4.0));
        }
        worker.leave();
    });
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        let mut refused = |call: &Collective<'_>, feedback: Option<&mut Feedback>| {
            let mut own = tensor(rank, 100);
            let narrowing = match feedback {
                Some(feedback) => Narrow::MxInt8.with(feedback),
                None => Narrow::MxInt8.into(),
            };
            let outcome = worker.collective_narrow(call, &mut own, narrowing, Hints::default());
            assert_eq!(own, tensor(rank, 100));
            match outcome {
                Err(AllreduceError::Start(error)) => error.to_string(),
                other => panic!("{other:?}"),
            }
        };
        let min = Collective::Allreduce(Op::Min);
        let compared = "mxint8 comes in blocks of 32 elements, which can only be added, not compared";
        assert_eq!(refused(&min, None), compared);
        let uneven = [Parts::Even, Parts::Counts(&[32, 32, 36])];
        for call in uneven.map(|parts| Collective::Allgather { parts }) {
            assert_eq!(refused(&call, None), compared.replace("compared", "parted"));
        }
        let sums = "error feedback works with sums and means only";
        let mut feedback = Feedback::default();
        for call in [Collective::Allreduce(Op::Max), Collective::Broadcast { root: 0 }] {
            assert_eq!(refused(&call, Some(&mut feedback)), sums);
        }
        assert!(feedback.kept().is_empty());
        let mut first = [1.0; 7];
        worker
            .collective_narrow(&SUM, &mut first, Narrow::F16.with(&mut feedback), Hints::default())
            .unwrap();
        let mut refused = |tensor: &mut [f32]| {
            worker
                .collective_narrow(&SUM, tensor, Narrow::Bf16.with(&mut feedback), Hints::default())
                .unwrap_err()
        };
        let error = refused(&mut [1.0; 8]);
        let text = "the feedback belongs to a tensor of 7 elements, and this one has 8";
        assert!(error.to_string().ends_with(text), "{error}");
        let ragged = worker.collective(&SUM, pascaline_wire::DType::MxFp8, &mut [0; 40], Hints::default());
        let size = StartError::Ragged { bytes: 40, size: 33 };
        assert!(matches!(ragged, Err(AllreduceError::Start(error)) if error == size));
        worker.leave();
    });
}

#[test]
fn a_packet_must_have_room_for_a_block() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let config = Config { payload: 32, ..appliance.config(rank) };
            scope.spawn(|| {
                let mut worker = Worker::join(config).unwrap();
                let error = narrow(&mut worker, &SUM, (&mut [1.0; 4], Narrow::MxFp8)).unwrap_err();
                let text = "a payload of 32 bytes holds no block of mxfp8, which takes 33";
                assert!(error.to_string().ends_with(text), "{error}");
                worker.leave();
            });
        }
    });
}
