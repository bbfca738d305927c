//! All ranks and an appliance that adds, in memory.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small numbers")]

use half::f16;
use pascaline_wire::{DType, RankSet};
use zerocopy::IntoBytes as _;

use super::announcement::{BYTES, SALT};
use super::masking::add;
use super::*;
use crate::element::Element;

mod properties;

const SUM: Collective<'_> = Collective::Allreduce(Op::Sum);

fn key() -> Key {
    Key::new(&[7; 32]).unwrap()
}

fn identity(rank: u16, ranks: u16) -> Identity {
    Identity { job: 9, rank, ranks, payload: 1024 }
}

/// A salt of a rank that no other number has.
fn salt(rank: u16, number: u64) -> Salt {
    (u128::from(rank) << 64 | u128::from(number)).to_le_bytes()
}

/// Adds words, as an appliance does.
fn sum_of(contributions: &[Vec<u32>]) -> Vec<u32> {
    let mut sum = vec![0_u32; contributions[0].len()];
    contributions.iter().for_each(|words| add(&mut sum, words));
    sum
}

/// What a rank contributes.
fn sent(masks: &Masks, tensor: &[u8]) -> Vec<u32> {
    let (mut tensor, mut room) = (tensor.to_vec(), vec![0; masks.room()]);
    Masking::new(masks, &mut tensor).fill(room.as_mut_bytes(), 4 * masks.room());
    room
}

/// Takes a rank's part of the sum.
fn received(masks: &Masks, sum: &[u32], tensor: &mut [u8]) -> Result<(), Fault> {
    Masking::new(masks, tensor).finish(sum.as_bytes())
}

/// What an appliance may do to announcements and sums.
struct Appliance<'a> {
    announced: &'a dyn Fn(&mut Vec<u8>),
    summed: &'a dyn Fn(&mut Vec<u32>),
}

const HONEST: Appliance<'_> = Appliance { announced: &|_| {}, summed: &|_| {} };

/// A rank's tensor and outcome, and what it sent.
type End = (Result<Vec<u8>, Fault>, Vec<u32>);

fn operate(call: &Collective<'_>, dtype: DType, tensors: &[Vec<u8>], appliance: &Appliance<'_>) -> Vec<End> {
    let keys = vec![key(); tensors.len()];
    let calls = vec![(*call, dtype); tensors.len()];
    operate_as(&calls, &keys, tensors, appliance)
}

fn operate_as(
    calls: &[(Collective<'_>, DType)],
    keys: &[Key],
    tensors: &[Vec<u8>],
    appliance: &Appliance<'_>,
) -> Vec<End> {
    let ranks = u16::try_from(tensors.len()).unwrap();
    let identities: Vec<_> = (0..ranks).map(|rank| identity(rank, ranks)).collect();
    let begin = |at: usize| {
        let rank = identities[at].rank;
        let (call, dtype) = &calls[at];
        Own::new(&keys[at], &identities[at], (call, *dtype), &tensors[at], salt(rank, 1)).unwrap()
    };
    let own: Vec<_> = (0..tensors.len()).map(begin).collect();
    let mut entries = vec![0; BYTES * tensors.len()];
    for own in &own {
        entries.iter_mut().zip(own.entries()).for_each(|(sum, byte)| *sum += byte);
    }
    (appliance.announced)(&mut entries);
    let masks: Vec<_> = own.into_iter().map(|own| own.agree(&entries)).collect();
    let mut contributions = Vec::new();
    for (masks, tensor) in masks.iter().zip(tensors) {
        contributions.push(masks.as_ref().map_or(Vec::new(), |masks| sent(masks, tensor)));
    }
    let mut sum = sum_of(&contributions);
    (appliance.summed)(&mut sum);
    let ends = masks.into_iter().zip(tensors).map(|(masks, tensor)| {
        let mut tensor = tensor.clone();
        masks.and_then(|masks| received(&masks, &sum, &mut tensor)).map(|()| tensor)
    });
    ends.zip(contributions).collect()
}

fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    values.as_bytes().to_vec()
}

fn values<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks(size_of::<T>()).map(|bytes| T::read(bytes).unwrap()).collect()
}

/// Every rank's tensor afterwards, which must be the same.
fn sums<T: Element>(op: Op, tensors: &[Vec<T>]) -> Vec<T> {
    let tensors: Vec<_> = tensors.iter().map(|tensor| bytes(tensor)).collect();
    let ends = operate(&Collective::Allreduce(op), T::DTYPE, &tensors, &HONEST);
    let ends: Vec<_> = ends.into_iter().map(|(end, _)| end.unwrap()).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "every rank has the same bits");
    values(&ends[0])
}

/// The change that is the hardest to find, and changes that others would undo in sums modulo 2³².
#[test]
fn highest_bits_that_change_in_pairs_are_found() {
    let tensors = vec![bytes(&vec![1_i32; 1024]); 2];
    for other in 1..1024 {
        let falsified = |sum: &mut Vec<u32>| {
            sum[0] ^= 1 << 31;
            sum[other] ^= 1 << 31;
        };
        let ends = operate(&SUM, DType::I32, &tensors, &Appliance { summed: &falsified, ..HONEST });
        assert!(ends.iter().all(|(end, _)| matches!(end, Err(Fault::NotTheSum { .. }))), "{other}");
    }
}

#[test]
fn what_another_operation_had_is_no_sum_of_this_one() {
    let tensors = vec![bytes(&[1_i32; 10]); 2];
    let earlier: Vec<_> = operate(&SUM, DType::I32, &tensors, &HONEST).into_iter().map(|end| end.1).collect();
    let (key, ids) = (key(), [identity(0, 2), identity(1, 2)]);
    let own = |at: usize| {
        Own::new(&key, &ids[at], (&SUM, DType::I32), &tensors[at], salt(ids[at].rank, 2)).unwrap()
    };
    let entries: Vec<u8> = own(0).entries().iter().zip(own(1).entries()).map(|(a, b)| a + b).collect();
    let masks = own(0).agree(&entries).unwrap();
    let replayed = sum_of(&[sent(&masks, &tensors[0]), earlier[1].clone()]);
    let ended = received(&masks, &replayed, &mut tensors[0].clone());
    assert_eq!(ended, Err(Fault::NotTheSum { wrong: 1, blocks: 1 }));
}

/// χ² of the 256 values of bytes: 255 on average, with a deviation of 22.6.
fn chi_square(words: &[u32]) -> f64 {
    let mut counts = [0_u32; 256];
    words.as_bytes().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let expected = f64::from(u32::try_from(words.as_bytes().len()).unwrap()) / 256.0;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

#[test]
fn what_a_rank_sends_for_a_constant_tensor_passes_as_noise_and_differs_from_rank_to_rank() {
    for ranks in [1, 2, 3] {
        let tensors = vec![bytes(&vec![1.0_f32; 100_000]); ranks];
        let ends = operate(&SUM, DType::F32, &tensors, &HONEST);
        let mut sent: Vec<_> = ends.into_iter().map(|(_, words)| words).collect();
        // What the appliance sums up is as little to be read.
        sent.push(sum_of(&sent));
        for words in &sent {
            let found = chi_square(words);
            assert!((150.0..360.0).contains(&found), "{found}");
        }
        for (at, words) in sent.iter().enumerate() {
            // With one rank the sum is what it sent.
            assert!(ranks == 1 || sent[..at].iter().all(|other| other[..8] != words[..8]));
        }
    }
}

#[test]
fn the_same_tensor_twice_goes_out_as_different_words() {
    let (key, identity, tensor) = (key(), identity(0, 1), bytes(&[1.0_f32; 8]));
    let operation = |number| {
        let own = Own::new(&key, &identity, (&SUM, DType::F32), &tensor, salt(0, number)).unwrap();
        let entries = own.entries();
        let words = sent(&own.agree(&entries).unwrap(), &tensor);
        (entries, words)
    };
    let (first, second) = (operation(1), operation(2));
    assert!(first.1.iter().zip(&second.1).all(|(one, other)| one != other));
    assert!(first.0[SALT..].chunks(4).zip(second.0[SALT..].chunks(4)).all(|(one, other)| one != other));
}

#[test]
fn whole_multiples_of_a_power_of_two_are_summed_exactly() {
    let of = |rank: i32| (0..1000).map(|at| f64::from(rank * 4096 - at * 31) as f32 / 16_777_216.0).collect();
    let tensors: Vec<Vec<f32>> = (0..4).map(of).collect();
    let right: Vec<f32> = (0..1000).map(|at| tensors.iter().map(|tensor| tensor[at]).sum()).collect();
    assert_eq!(sums(Op::Sum, &tensors), right);
}

#[test]
fn other_collectives_move_their_parts_and_leave_the_rest() {
    let own = |rank: u8, len: usize| -> Vec<u8> { (0..len).map(|at| rank * 50 + at as u8 % 50).collect() };
    // 16-bit elements of odd number: parts and the tensor end within a word.
    for len in [2, 6, 10, 2046, 4098, 8192] {
        let tensors: Vec<_> = (0..3).map(|rank| own(rank, len)).collect();
        let broadcast = Collective::Broadcast { root: 1 };
        for (end, _) in operate(&broadcast, DType::Bf16, &tensors, &HONEST) {
            assert_eq!(end.unwrap(), tensors[1]);
        }
        let mut gathered = Vec::new();
        for rank in 0..3_u16 {
            let part = Parts::Even.of(rank, 3, len / 2).unwrap();
            gathered.extend(&tensors[usize::from(rank)][2 * part.start..2 * part.end]);
        }
        for (end, _) in operate(&Collective::Allgather { parts: Parts::Even }, DType::Bf16, &tensors, &HONEST)
        {
            assert_eq!(end.unwrap(), gathered);
        }
    }
    let tensors: Vec<_> = (0..3).map(|rank| bytes(&vec![rank + 1; 3001])).collect::<Vec<Vec<u8>>>();
    let parts = Parts::Counts(&[1500, 1, 1500]);
    let scatter = Collective::ReduceScatter { op: Op::Sum, parts };
    for (rank, (end, _)) in operate(&scatter, DType::I32, &tensors, &HONEST).into_iter().enumerate() {
        let (end, part) = (values::<i32>(&end.unwrap()), parts.of(rank as u16, 3, 3001).unwrap());
        for (at, value) in end.into_iter().enumerate() {
            assert_eq!(value, if part.contains(&at) { 6 } else { rank as i32 + 1 }, "{rank} {at}");
        }
    }
    let reduce = Collective::Reduce { op: Op::Mean, root: 2 };
    for (rank, (end, _)) in operate(&reduce, DType::I32, &tensors, &HONEST).into_iter().enumerate() {
        assert!(values::<i32>(&end.unwrap()).iter().all(|&value| value == [1, 2, 2][rank]));
    }
}

#[test]
fn every_rank_learns_whose_numbers_are_none() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut tensors = vec![bytes(&[1.0_f32; 10]); 4];
        tensors[2][36..].copy_from_slice(&bad.to_le_bytes());
        for (end, sent) in operate(&SUM, DType::F32, &tensors, &HONEST) {
            assert!(matches!(end, Err(Fault::NotFinite { ranks }) if ranks.iter().eq([2])));
            assert!(sent.is_empty());
        }
    }
    let mut tensors = vec![bytes(&[f16::ONE; 3]); 2];
    tensors[0] = bytes(&[f16::INFINITY; 3]);
    let ends = operate(&SUM, DType::F16, &tensors, &HONEST);
    assert!(ends.iter().all(|(end, _)| matches!(end, Err(Fault::NotFinite { .. }))));
}

#[test]
fn integers_beyond_the_range_are_refused_by_all() {
    let tensors = vec![bytes(&[i32::MIN]), bytes(&[0])];
    for (end, _) in operate(&SUM, DType::I32, &tensors, &HONEST) {
        assert_eq!(end, Err(Fault::Range { largest: 1 << 31, ranks: 2, most: (1 << 30) - 1 }));
    }
}

#[test]
fn ranks_that_call_different_things_learn_it() {
    let tensors = vec![bytes(&[1.0_f32; 10]); 3];
    let mean = Collective::Allreduce(Op::Mean);
    let calls = [(SUM, DType::F32), (mean, DType::F32), (SUM, DType::F32)];
    let ends = operate_as(&calls, &vec![key(); 3], &tensors, &HONEST);
    let told: Vec<_> = ends.into_iter().map(|(end, _)| end.unwrap_err().to_string()).collect();
    let [sum, mean] = ["allreduce of 40 bytes of f32, sum", "allreduce of 40 bytes of f32, mean"];
    assert_eq!(told[0], format!("rank 1 calls {mean}, and this one {sum}"));
    assert_eq!(told[1], format!("rank 0 calls {sum}, and this one {mean}"));
    assert_eq!(told[0], told[2]);
}

#[test]
fn another_key_a_changed_entry_and_a_missing_one_are_named() {
    let tensors = vec![bytes(&[1.0_f32; 10]); 3];
    let mut keys = vec![key(); 3];
    keys[1] = Key::new(&[8; 40]).unwrap();
    let ends = operate_as(&[(SUM, DType::F32); 3], &keys, &tensors, &HONEST);
    assert!(matches!(ends[0].0, Err(Fault::Foreign { ranks }) if ranks.iter().eq([1])));
    assert!(matches!(ends[1].0, Err(Fault::Foreign { ranks }) if ranks.iter().eq([0, 2])));
    for byte in 0..BYTES {
        let changed = |entries: &mut Vec<u8>| entries[2 * BYTES + byte] ^= 1;
        for (end, _) in operate(&SUM, DType::F32, &tensors, &Appliance { announced: &changed, ..HONEST }) {
            assert!(matches!(end, Err(Fault::Foreign { ranks }) if ranks.iter().eq([2])));
        }
    }
    let left_out = |entries: &mut Vec<u8>| entries[BYTES..2 * BYTES].fill(0);
    for (end, _) in operate(&SUM, DType::F32, &tensors, &Appliance { announced: &left_out, ..HONEST }) {
        assert!(matches!(end, Err(Fault::Absent { ranks }) if ranks.iter().eq([1])));
    }
    let exchanged = |entries: &mut Vec<u8>| entries.rotate_left(BYTES);
    for (end, _) in operate(&SUM, DType::F32, &tensors, &Appliance { announced: &exchanged, ..HONEST }) {
        assert!(matches!(end, Err(Fault::Foreign { .. })));
    }
}

#[test]
fn what_cannot_be_masked_is_refused_by_name() {
    let refused = |call: &Collective<'_>, dtype| check(call, dtype).unwrap_err().to_string();
    let told = refused(&SUM, DType::F64);
    assert!(told.starts_with("sum of f64 cannot be masked\n  remedy: send f32"), "{told}");
    let told = refused(&Collective::Reduce { op: Op::Max, root: 0 }, DType::I32);
    assert!(told.starts_with("max of i32 cannot be masked\n  remedy: sum or mean"), "{told}");
    assert!(check(&SUM, DType::MxInt8).is_err() && check(&SUM, DType::U32).is_err());
    assert!(check(&Collective::Broadcast { root: 0 }, DType::F64).is_ok());
}

/// Results without a rank would be noise: found before anything is taken, at either operation.
#[test]
fn results_that_lack_ranks_are_refused() {
    let (key, identity) = (key(), identity(0, 1));
    for lacking in 0..3 {
        let (mut tensor, mut operations) = (bytes(&[1.0_f32; 10]), 0);
        let run = |_: &Collective<'_>, _, travels: &mut [u8], pieces: Option<&mut dyn Pieces>| {
            pieces.into_iter().for_each(|pieces| pieces.fill(travels, travels.len()));
            operations += 1;
            let missing = RankSet::of_word(1 << 3);
            let partial = crate::Partial { results: 1, least_count: 1, missing };
            let partial = (operations == lacking).then_some(partial);
            Ok::<_, crate::AllreduceError>(Report { packets: 2, partial, ..Report::default() })
        };
        let how = (&SUM, DType::F32);
        match through((&key, &identity), how, &mut tensor, &mut Vec::new(), run) {
            Ok(report) => assert_eq!((lacking, report.packets, report.bytes), (0, 4, 40)),
            Err(crate::AllreduceError::Masked(Fault::Lacking { ranks })) => assert!(ranks.contains(3)),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(tensor, bytes(&[1.0_f32; 10]));
    }
}

/// The words that docs/protocol.md has, so that no other program reads another format than this one writes.
#[test]
fn the_protocol_has_what_travels() {
    let page = include_str!("../../../../docs/protocol.md");
    let key = Key::new(&core::array::from_fn::<u8, 32, _>(|at| at as u8)).unwrap();
    let ids = [identity(0, 2), identity(1, 2)];
    let tensors = [bytes(&[1_i32, -2]), bytes(&[3_i32, 4])];
    let own = |at: usize| {
        let salt = [u8::try_from(at).unwrap() + 0xa0; SALT];
        Own::new(&key, &ids[at], (&SUM, DType::I32), &tensors[at], salt).unwrap()
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let entries: Vec<u8> = own(0).entries().iter().zip(own(1).entries()).map(|(a, b)| a + b).collect();
    let mut told = vec![hex(&entries[..BYTES]), hex(&entries[BYTES..])];
    let mut all = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let words = sent(&own(at).agree(&entries).unwrap(), tensor);
        told.push(hex(words.as_bytes()));
        all.push(words);
    }
    told.push(hex(sum_of(&all).as_bytes()));
    for line in &told {
        assert!(page.contains(line.as_str()), "docs/protocol.md, section 14, does not have {told:#?}");
    }
}
