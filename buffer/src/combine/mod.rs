//! Combining two payloads element by element, in place.
//!
//! Payloads are byte slices in little endian, as on the wire. Each kernel exists once in plain Rust ([`scalar`], the
//! oracle of the tests and the fallback) and once per instruction set; [`Kernels::detect`] picks the widest that the
//! processor has, once, at start-up.

pub mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Combines `from` into `into` and tells whether an element saturated.
///
/// Elements beyond the shorter of the two slices, and bytes that do not fill an element, are left alone: callers
/// check lengths beforehand, a kernel only has to be safe.
pub type Combine = fn(into: &mut [u8], from: &[u8]) -> bool;

/// One kernel per element type and operation.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// Sums of binary32. Never reports saturation.
    pub f32_sum: Combine,
    /// Saturating sums of 32-bit integers.
    pub i32_sum: Combine,
    /// The instruction set in use, for messages and metrics.
    pub isa: &'static str,
}

impl Kernels {
    /// The plain-Rust kernels.
    #[must_use]
    pub const fn scalar() -> Self {
        Self { f32_sum: scalar::f32_sum, i32_sum: scalar::i32_sum, isa: "scalar" }
    }

    /// The widest kernels that this processor runs.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or_else(Self::scalar)
    }

    /// Every set of kernels that this processor runs, narrowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "other architectures have the scalar kernels only")]
        let mut sets = vec![Self::scalar()];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(x86::avx2());
            sets.extend(x86::avx512());
        }
        sets
    }
}
