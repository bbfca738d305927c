//! `f32` tensors that travel as 16-bit floats, by request: half the bytes on the link.
//!
//! Each rank rounds its elements once, the appliance adds in `f32` and rounds the sum once (and once for each
//! part that had to make way), and a worker widens it again, exactly. So with u = 2⁻¹¹ (`f16`) or 2⁻⁸
//! (`bf16`) a sum S of x₁ … x_N is off by at most u Σ|xᵢ| + u (|S| + u Σ|xᵢ|), and by what the additions
//! round in `f32`, for numbers that the type has as normal ones. `f16` makes infinities of what is 65,520 or
//! more; below 2⁻¹⁴ its error is absolute, 2⁻²⁵ for each rounding.

use core::time::Duration;
use std::time::Instant;

use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};
use half::{bf16, f16};
use pascaline_wire::DType;
use zerocopy::IntoBytes as _;

use crate::allreduce::Report;
use crate::collective::{Collective, Plan};
use crate::identity::Identity;
use crate::session::StartError;

/// A type of 16-bit floats to travel as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrow {
    /// IEEE 754 binary16: 11 bits of significand, up to 65,504.
    F16,
    /// The upper half of a binary32: 8 bits of significand, the range of `f32`.
    Bf16,
}

impl Narrow {
    /// As elements of a packet.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
        }
    }
}

/// For drivers: runs an operation on a narrowed copy of a tensor, and widens what the rank takes of it. Room
/// for the copy is kept in `room`. The time it took includes both.
///
/// # Errors
/// What `run` returns, and [`StartError`] where the operation could not begin.
pub fn through<E: From<StartError>>(
    identity: &Identity,
    collective: &Collective<'_>,
    (tensor, narrow): (&mut [f32], Narrow),
    room: &mut Vec<u16>,
    run: impl FnOnce(DType, &mut [u8]) -> Result<Report, E>,
) -> Result<Report, E> {
    let begun = Instant::now();
    let dtype = narrow.dtype();
    let place = (identity.rank, identity.ranks);
    let plan = Plan::new(collective, place, (2 * tensor.len(), dtype))?;
    room.resize(tensor.len(), 0);
    match narrow {
        Narrow::F16 => room.reinterpret_cast_mut::<f16>().convert_from_f32_slice(tensor),
        Narrow::Bf16 => room.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(tensor),
    }
    let report = run(dtype, room.as_mut_bytes())?;
    let take = plan.take.start / 2..plan.take.end / 2;
    if let (Some(wide), Some(narrowed)) = (tensor.get_mut(take.clone()), room.get(take)) {
        match narrow {
            Narrow::F16 => narrowed.reinterpret_cast::<f16>().convert_to_f32_slice(wide),
            Narrow::Bf16 => narrowed.reinterpret_cast::<bf16>().convert_to_f32_slice(wide),
        }
    }
    let elapsed: Duration = begun.elapsed();
    Ok(Report { elapsed, bytes: size_of_val(tensor), ..report })
}
