//! What the tests share: packets whose sums tell what is inside, and a sink that writes everything down.

mod parcel;
mod recorder;
mod rig;
pub(crate) mod trace;

pub(crate) use parcel::*;
pub(crate) use recorder::*;
pub(crate) use rig::*;

/// Where a payload begins, where nothing else is said.
pub(crate) const OFFSET: u16 = 64;

/// What the pool's times are multiples of, as far as it matters.
pub(crate) const TICK: u64 = 1024;

/// The values of a payload.
pub(crate) fn values(payload: &[u8]) -> Vec<i32> {
    let (values, rest) = payload.as_chunks::<4>();
    assert!(rest.is_empty(), "a payload is whole elements");
    values.iter().map(|value| i32::from_le_bytes(*value)).collect()
}

/// The payload that these values make.
pub(crate) fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Ranks that share one value of a signature.
pub(crate) const RANKS_PER_VALUE: u16 = 3;

/// A payload whose sum says how often each of `fan_in` ranks is inside, up to 255 times: eight bits per rank.
pub(crate) fn signature(rank: u16, fan_in: u16) -> Vec<i32> {
    let mut values = vec![0; usize::from(fan_in.div_ceil(RANKS_PER_VALUE))];
    values[usize::from(rank / RANKS_PER_VALUE)] = 1 << (8 * (rank % RANKS_PER_VALUE));
    values
}

/// How often each rank is inside a sum of signatures.
pub(crate) fn counts(sum: &[i32]) -> impl Iterator<Item = i32> {
    sum.iter().flat_map(|value| (0..RANKS_PER_VALUE).map(move |n| value >> (8 * n) & 0xff))
}

/// The sum of the signatures of all ranks.
pub(crate) fn full_signature(fan_in: u16) -> Vec<i32> {
    sum_of_ranks(&(0..fan_in).collect::<Vec<_>>(), fan_in)
}

/// The sum of the signatures of some ranks.
pub(crate) fn sum_of_ranks(ranks: &[u16], fan_in: u16) -> Vec<i32> {
    ranks.iter().fold(vec![0; usize::from(fan_in.div_ceil(RANKS_PER_VALUE))], |mut sum, &rank| {
        for (a, b) in sum.iter_mut().zip(signature(rank, fan_in)) {
            *a += b;
        }
        sum
    })
}
