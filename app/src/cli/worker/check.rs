//! Whether a tensor holds what it must.

use super::AllreduceArgs;
use super::collective::Want;
use super::member::Member;
use super::sample::{self, Check, Order, Sample};

/// The first element that is not what all ranks' samples make, what it is and what it should be.
pub(super) fn first_mismatch<T: Sample>(
    args: &AllreduceArgs,
    iteration: u32,
    tensor: &[T],
    worker: &mut Member,
) -> Option<(u64, T, f64)> {
    const CHUNK: usize = 1 << 16;
    let all = args.below.all(args.who.ranks);
    let streams: Vec<u64> = (0..all).map(|rank| sample::stream(args.seed, rank, iteration)).collect();
    let order = if args.below.is_tree(args.who.ranks) { Order::Arrival } else { args.order };
    let check = Check::new::<T>(args.op, order, all);
    let wants = args.collective.wants(args.who.rank, args.who.ranks, tensor.len());
    let mut samples = vec![T::default(); streams.len()];
    let mut index = 0;
    for chunk in tensor.chunks(CHUNK) {
        // Another rank may still need a result that only this one has.
        worker.tend();
        for &got in chunk {
            let number = index as u64;
            let expected = match wants.at(index) {
                Want::Combined => {
                    for (sample, &stream) in samples.iter_mut().zip(&streams) {
                        *sample = T::sample(stream, number);
                    }
                    check.differs(got, &samples)
                }
                Want::Of(rank) => {
                    let sample = T::sample(streams[usize::from(rank)], number);
                    (got != sample).then(|| sample.value())
                }
            };
            if let Some(expected) = expected {
                return Some((number, got, expected));
            }
            index += 1;
        }
    }
    None
}
