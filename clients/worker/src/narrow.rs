//! `f32` tensors that travel as smaller elements, by request: half or a quarter of the bytes on the link.
//!
//! Each rank rounds its elements once, the appliance adds in `f32` and rounds the sum once (16-bit floats:
//! and once for each part that had to make way), and a worker widens it again, exactly. So with u = 2⁻¹¹
//! (`f16`) or 2⁻⁸ (`bf16`) the error of a sum S of x₁ … x_N is at most u Σ|xᵢ| + u (|S| + u Σ|xᵢ|), plus the
//! rounding of additions in `f32`, for numbers that are normal in the type. `f16` turns 65,520 and more into
//! infinities; below 2⁻¹⁴ its error is absolute, 2⁻²⁵ for each rounding. Of a mean, both hold for what each
//! rank has divided ([`mean`]).
//!
//! With blocks of 32 elements that share a scale ([`mx`], which has what one rounding does), the error of an
//! element depends on the largest one of its block. With mᵢ as that of rank i and M as that of the sum:
//! `mxint8` is off by at most (Σ mᵢ + M)/128, `mxfp8` by Σ max(|xᵢ|/8, 2⁻¹⁸ mᵢ) + max(|S|/8, 2⁻¹⁸ M), where S
//! and M are those of what was added. Nothing makes way rounded.
//!
//! **Feedback.** A rank's own rounding error of an element can be added to that element of its next tensor
//! ([`Feedback`]). So the sum over many tensors is off by one rounding of each rank, not one of each tensor.
//! The rounding of the sum at the appliance is not corrected.

use core::time::Duration;
use std::time::Instant;

use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};
use half::{bf16, f16};
use pascaline_wire::{DType, mx};
use zerocopy::IntoBytes as _;

use crate::allreduce::Report;
use crate::collective::{Collective, Parts, Plan};
use crate::identity::Identity;
use crate::mean;
use crate::session::StartError;

/// A type for transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrow {
    /// IEEE 754 binary16: 11 bits of significand, up to 65,504.
    F16,
    /// The upper half of a binary32: 8 bits of significand, the range of `f32`.
    Bf16,
    /// OCP MXFP8: 4 bits of significand, and a scale for 32 elements.
    MxFp8,
    /// OCP MXINT8: 7 bits and sign, and a scale for 32 elements.
    MxInt8,
}

impl Narrow {
    /// As elements of a packet.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
            Self::MxFp8 => DType::MxFp8,
            Self::MxInt8 => DType::MxInt8,
        }
    }

    /// The one that travels as elements of this type, if there is one.
    #[must_use]
    pub fn of(dtype: DType) -> Option<Self> {
        [Self::F16, Self::Bf16, Self::MxFp8, Self::MxInt8].into_iter().find(|narrow| narrow.dtype() == dtype)
    }

    /// This type, with the rounding error added to the next tensor.
    #[must_use]
    pub const fn with(self, feedback: &mut Feedback) -> Narrowing<'_> {
        Narrowing { narrow: self, feedback: Some(feedback) }
    }

    /// Bytes of this many elements.
    const fn bytes(self, elements: usize) -> usize {
        let dtype = self.dtype();
        dtype.size() * if dtype.is_block() { elements.div_ceil(mx::ELEMENTS) } else { elements }
    }

    /// Divided by `scale`, a power of two.
    fn narrow(self, tensor: &[f32], scale: f32, room: &mut [u16]) {
        match self {
            Self::F16 if scale > 1.0 => {
                let halves = room.reinterpret_cast_mut::<f16>().iter_mut();
                halves.zip(tensor).for_each(|(half, value)| *half = f16::from_f32(value / scale));
            }
            Self::F16 => room.reinterpret_cast_mut::<f16>().convert_from_f32_slice(tensor),
            Self::Bf16 => room.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(tensor),
            Self::MxFp8 => mx::pack::<mx::Fp8>(tensor, room.as_mut_bytes()),
            Self::MxInt8 => mx::pack::<mx::Int8>(tensor, room.as_mut_bytes()),
        }
    }

    /// Those elements, the first of which is this one; it is the first of its block. Multiplied by `scale`.
    fn widen(self, room: &[u16], first: usize, scale: f32, tensor: &mut [f32]) {
        let blocks = room.as_bytes().get(self.bytes(first)..).unwrap_or_default();
        let halves = room.get(first..).and_then(|room| room.get(..tensor.len()));
        match (self, halves) {
            (Self::F16, Some(halves)) => halves.reinterpret_cast::<f16>().convert_to_f32_slice(tensor),
            (Self::Bf16, Some(halves)) => halves.reinterpret_cast::<bf16>().convert_to_f32_slice(tensor),
            (Self::MxFp8, _) => mx::unpack::<mx::Fp8>(blocks, tensor),
            (Self::MxInt8, _) => mx::unpack::<mx::Int8>(blocks, tensor),
            (Self::F16 | Self::Bf16, None) => {}
        }
        if scale > 1.0 {
            tensor.iter_mut().for_each(|value| *value *= scale);
        }
    }
}

/// A tensor's rounding error so far: keep one for each tensor of a model, from call to call.
#[derive(Debug, Clone, Default)]
pub struct Feedback {
    kept: Vec<f32>,
    /// The error once the operation in flight has succeeded.
    next: Vec<f32>,
}

impl Feedback {
    /// By element; empty before the first call.
    #[must_use]
    pub fn kept(&self) -> &[f32] {
        &self.kept
    }

    /// The tensor plus the errors of earlier ones.
    fn add(&mut self, tensor: &[f32]) -> Result<&mut [f32], StartError> {
        let (kept, elements) = (self.kept.len(), tensor.len());
        if kept == 0 {
            self.kept.resize(elements, 0.0);
        } else if kept != elements {
            return Err(StartError::FeedbackLength { kept, elements });
        }
        self.next.clear();
        self.next.extend(tensor.iter().zip(&self.kept).map(|(value, kept)| value + kept));
        Ok(&mut self.next)
    }
}

/// How a tensor is narrowed: a [`Narrow`], or one [with feedback](Narrow::with).
#[derive(Debug)]
pub struct Narrowing<'a> {
    narrow: Narrow,
    feedback: Option<&'a mut Feedback>,
}

impl From<Narrow> for Narrowing<'_> {
    fn from(narrow: Narrow) -> Self {
        Self { narrow, feedback: None }
    }
}

/// For drivers: runs an operation on a narrowed copy of a tensor, and widens the rank's results. Room for the
/// copy is kept in `room`. The time it took includes both.
///
/// # Errors
/// What `run` returns, and [`StartError`] where the operation could not begin.
pub fn through<E: From<StartError>>(
    identity: &Identity,
    collective: &Collective<'_>,
    (tensor, narrowing): (&mut [f32], Narrowing<'_>),
    room: &mut Vec<u16>,
    run: impl FnOnce(&Collective<'_>, DType, &mut [u8]) -> Result<Report, E>,
) -> Result<Report, E> {
    let begun = Instant::now();
    let Narrowing { narrow, mut feedback } = narrowing;
    let dtype = narrow.dtype();
    let plan = Plan::new(collective, (identity.rank, identity.ranks), (size_of_val(tensor), DType::F32))?;
    let mut counts = Vec::new();
    let collective = if dtype.is_block() {
        let parted = StartError::Blocks { what: "parted", dtype };
        in_blocks(collective, (identity.ranks, tensor.len()), &mut counts).ok_or(parted)?
    } else {
        *collective
    };
    let bytes = narrow.bytes(tensor.len());
    room.resize(bytes.div_ceil(2), 0);
    let scale = mean::scale(dtype, plan.element.op, identity.ranks);
    if let Some(feedback) = &mut feedback {
        if plan.call.collective.copies() || !plan.element.op.adds() {
            return Err(StartError::Feedback.into());
        }
        let sum = feedback.add(tensor)?;
        narrow.narrow(sum, scale, room);
        leave((narrow, scale), room, sum);
    } else {
        narrow.narrow(tensor, scale, room);
    }
    let report = run(&collective, dtype, room.as_mut_bytes().get_mut(..bytes).unwrap_or_default())?;
    if let Some(feedback) = feedback {
        core::mem::swap(&mut feedback.kept, &mut feedback.next);
    }
    let take = plan.take.start / 4..plan.take.end / 4;
    if let Some(wide) = tensor.get_mut(take.clone()) {
        narrow.widen(room, take.start, scale, wide);
    }
    let elapsed: Duration = begun.elapsed();
    Ok(Report { elapsed, bytes: size_of_val(tensor), ..report })
}

/// Leaves the rounding error of each value; 0 for values that are not numbers.
fn leave((narrow, scale): (Narrow, f32), room: &[u16], values: &mut [f32]) {
    let mut some = [0.0; 8 * mx::ELEMENTS];
    for (at, values) in values.chunks_mut(some.len()).enumerate() {
        let first = at * some.len();
        let some = &mut some[..values.len()];
        narrow.widen(room, first, scale, some);
        for (value, rounded) in values.iter_mut().zip(some) {
            let rest = *value - *rounded;
            *value = if rest.is_finite() { rest } else { 0.0 };
        }
    }
}

/// The same for blocks; `None` where a rank's part would end inside one.
fn in_blocks<'a>(
    collective: &Collective<'a>,
    (ranks, elements): (u16, usize),
    room: &'a mut Vec<usize>,
) -> Option<Collective<'a>> {
    let blocks = |parts: Parts<'_>| {
        let whole = match parts {
            Parts::Even => elements.is_multiple_of(mx::ELEMENTS * usize::from(ranks.max(1))),
            Parts::Counts(counts) => counts.iter().all(|count| count.is_multiple_of(mx::ELEMENTS)),
        };
        let Parts::Counts(counts) = parts else { return whole.then_some(Parts::Even) };
        let room = room;
        room.extend(counts.iter().map(|count| count / mx::ELEMENTS));
        whole.then_some(Parts::Counts(room))
    };
    Some(match *collective {
        Collective::ReduceScatter { op, parts } => Collective::ReduceScatter { op, parts: blocks(parts)? },
        Collective::Allgather { parts } => Collective::Allgather { parts: blocks(parts)? },
        other => other,
    })
}
