//! Means of half-precision tensors: each rank divides before it rounds, so that no sum overflows.
//!
//! An `f16` ends at 65,504, and the appliance rounds a sum to the type that travels. Where all ranks hold
//! 30,000, the sum of four is infinite although the mean is not. Contributions are therefore divided by the
//! least power of two that is at least the number of ranks, and the mean of those is multiplied by it. Both
//! keep every bit of a normal number that remains one; a number below 2⁻¹⁴ times that power loses some.

use half::f16;
use pascaline_wire::DType;

use crate::Op;
use crate::allreduce::Report;
use crate::collective::{Collective, Plan};
use crate::identity::Identity;
use crate::session::StartError;

/// What contributions are divided by; 1 where they travel as they are.
pub(crate) fn scale(dtype: DType, op: Op, ranks: u16) -> f32 {
    if dtype == DType::F16 && op == Op::Mean { f32::from(ranks).log2().ceil().exp2() } else { 1.0 }
}

/// For drivers: runs an operation on a tensor as it lies in memory, or on a scaled copy of it where the mean
/// of half-precision numbers is asked for. Room for the copy is kept in `room`.
///
/// # Errors
/// What `run` returns, and [`StartError`] where the operation could not begin.
pub fn guarded<E: From<StartError>>(
    identity: &Identity,
    (collective, dtype): (&Collective<'_>, DType),
    tensor: &mut [u8],
    room: &mut Vec<u16>,
    run: impl FnOnce(&mut [u8]) -> Result<Report, E>,
) -> Result<Report, E> {
    let plan = match dtype {
        DType::F16 => Plan::new(collective, (identity.rank, identity.ranks), (tensor.len(), dtype))?,
        _ => return run(tensor),
    };
    let scale = scale(dtype, plan.element.op, identity.ranks);
    if scale <= 1.0 {
        return run(tensor);
    }
    room.clear();
    room.extend(
        tensor.chunks_exact(2).map(|half| times([half[0], half[1]], scale.recip()).to_bits().to_le()),
    );
    let report = run(zerocopy::IntoBytes::as_mut_bytes(room.as_mut_slice()))?;
    let means = room.iter().map(|half| times(half.to_ne_bytes(), scale));
    let taken = plan.take.start / 2..plan.take.end / 2;
    for (place, mean) in tensor.chunks_exact_mut(2).zip(means).take(taken.end).skip(taken.start) {
        place.copy_from_slice(&mean.to_le_bytes());
    }
    Ok(report)
}

fn times(half: [u8; 2], factor: f32) -> f16 {
    f16::from_f32(f16::from_le_bytes(half).to_f32() * factor)
}
