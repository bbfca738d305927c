//! Numbers that everyone can compute, and what an allreduce has to make of them.
//!
//! Samples are whole multiples of a power of two, few enough bits wide that sums of 1,024 of them can be made
//! exactly, in integers. What a result may deviate from that is bounded by the number of roundings.

use clap::ValueEnum;
use pascaline_worker::{Element, MxFp8, MxInt8, bf16, f16};

/// What the tensors are replaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// The sum over the ranks.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum divided by the number of ranks.
    Mean,
}

impl From<Op> for pascaline_worker::Op {
    fn from(op: Op) -> Self {
        match op {
            Op::Sum => Self::Sum,
            Op::Min => Self::Min,
            Op::Max => Self::Max,
            Op::Mean => Self::Mean,
        }
    }
}

/// The order in which the appliance adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// As contributions arrive.
    Arrival,
    /// By rank.
    Rank,
}

/// A type of elements of which samples can be drawn and combinations checked.
pub(super) trait Sample: Element + Default + PartialEq + core::fmt::Debug {
    /// Samples are k × 2^−`SCALE`, with −2^`BITS` ≤ k < 2^`BITS`.
    const BITS: u32;
    /// See `BITS`.
    const SCALE: i32 = 0;
    /// Unit roundoff: how much rounding changes a number at most, relative to it. 0 where sums are exact.
    const ROUNDOFF: f64 = 0.0;
    /// The smallest positive number, where sums are not exact.
    const TINY: f64 = 0.0;
    /// Numbers in an element.
    const NUMBERS: usize = 1;
    /// The sum in the order given, as an appliance makes it.
    fn sum_in_order(addends: &[Self]) -> Self;

    /// The quotient, as a worker makes it.
    fn quotient(self, divisor: f64) -> Self {
        Self::nearest(self.value() / divisor)
    }

    /// Appends its numbers.
    #[expect(clippy::cast_possible_truncation, reason = "of 16 bits")]
    fn widen(self, into: &mut Vec<f32>) {
        into.push(self.value() as f32);
    }

    /// The element of its numbers.
    fn narrow(numbers: &[f32]) -> Self {
        Self::nearest(numbers.first().copied().unwrap_or_default().into())
    }

    /// The element of a stream at an index.
    fn sample(stream: u64, index: u64) -> Self {
        Self::nearest(number(stream, index, Self::BITS) * f64::powi(2.0, -Self::SCALE))
    }
}

/// What results are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    op: Op,
    order: Order,
    ranks: f64,
    /// How far roundings can move a sum, relative to the sum of magnitudes.
    growth: f64,
    /// 2^`SCALE`
    scale: f64,
}

impl Check {
    /// Adding N numbers takes N − 1 additions at most that round, each by a factor of at most 1 + u. (Sums of
    /// 16-bit types are made in f32, here without rounding, and rounded to 16 bits once: an evicted partial
    /// leaves as its contributions.) So a sum is off by at most ((1 + u)^(N−1) − 1) Σ|x|.
    pub(super) fn new<T: Sample>(op: Op, order: Order, ranks: u16) -> Self {
        let roundings = f64::from(ranks.saturating_sub(1));
        let growth = (roundings * T::ROUNDOFF.ln_1p()).exp_m1();
        Self { op, order, ranks: f64::from(ranks), growth, scale: f64::powi(2.0, T::SCALE) }
    }

    /// What an element should be, if it is not what the ranks' samples make.
    pub(super) fn differs<T: Sample>(&self, got: T, samples: &[T]) -> Option<f64> {
        let exactly = |expected: T| (got != expected).then(|| expected.value());
        let least = |a: T, b: &T| if b.value() < a.value() { *b } else { a };
        let most = |a: T, b: &T| if b.value() > a.value() { *b } else { a };
        let first = samples.first().copied().unwrap_or_default();
        let mean = || T::sum_in_order(samples).quotient(self.ranks);
        let in_order = self.order == Order::Rank || T::ROUNDOFF == 0.0;
        match self.op {
            Op::Min => exactly(samples.iter().fold(first, least)),
            Op::Max => exactly(samples.iter().fold(first, most)),
            Op::Sum if in_order => exactly(T::sum_in_order(samples)),
            Op::Mean if in_order => exactly(mean()),
            Op::Sum | Op::Mean => self.is_far(got, samples),
        }
    }

    /// What an element should be, if it cannot be the samples' sum, or its mean, whatever the order of
    /// additions.
    ///
    /// A mean is off by one more factor of 1 + u, or by half of the smallest number; and this reckoning in
    /// f64 by a few 2⁻⁵³, which only matters beside the u of f64.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "bounded by 2⁶²")]
    fn is_far<T: Sample>(&self, got: T, samples: &[T]) -> Option<f64> {
        let (mut sum, mut magnitude) = (0_i64, 0_i64);
        for sample in samples {
            let k = (sample.value() * self.scale) as i64;
            sum += k;
            magnitude += k.abs();
        }
        let from_sum = self.growth * magnitude as f64;
        let got = got.value() * self.scale;
        let (within, divisor) = if self.op == Op::Sum {
            // A number that is no whole multiple of the samples' unit is no sum of them.
            let whole = got.fract() == 0.0;
            (whole && (got as i64).abs_diff(sum) as f64 <= from_sum, 1.0)
        } else {
            let largest = sum.unsigned_abs() as f64 + from_sum;
            let from_quotient = T::ROUNDOFF * largest + self.ranks * self.scale * T::TINY / 2.0;
            let bound = from_sum + from_quotient + 4.0 * f64::EPSILON * largest;
            // Not `>`: a NaN is no mean of these.
            ((got * self.ranks - sum as f64).abs() <= bound, self.ranks)
        };
        (!within).then_some(sum as f64 / self.scale / divisor)
    }
}

/// A whole number of at most `bits` bits, positive or negative.
#[expect(clippy::cast_precision_loss, reason = "at most 2⁵² in magnitude")]
fn number(stream: u64, index: u64, bits: u32) -> f64 {
    (mix(stream.wrapping_add(index)).cast_signed() >> (63 - bits)) as f64
}

/// Murmur3's finaliser: every bit of the input moves half the bits of the output.
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

/// The numbers of one rank in one iteration.
pub(super) const fn stream(seed: u64, rank: u16, iteration: u32) -> u64 {
    mix(mix(seed) ^ ((rank as u64) << 32) ^ iteration as u64)
}

impl Sample for i32 {
    /// The sum over 1,024 ranks does not saturate.
    const BITS: u32 = 20;

    fn sum_in_order(addends: &[Self]) -> Self {
        addends.iter().sum()
    }
}

/// Any 32 bits, so that sums wrap.
impl Sample for u32 {
    const BITS: u32 = 32;

    fn sum_in_order(addends: &[Self]) -> Self {
        addends.iter().fold(0, |sum, addend| sum.wrapping_add(*addend))
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of the bits")]
    fn sample(stream: u64, index: u64) -> Self {
        mix(stream.wrapping_add(index)) as Self
    }
}

impl Sample for f32 {
    const BITS: u32 = 24;
    const SCALE: i32 = 24;
    const ROUNDOFF: f64 = 1.0 / 16_777_216.0;
    const TINY: f64 = 1.401_298_464_324_817e-45;

    fn sum_in_order(addends: &[Self]) -> Self {
        addends.iter().sum()
    }
}

impl Sample for f64 {
    const BITS: u32 = 52;
    const SCALE: i32 = 52;
    const ROUNDOFF: f64 = Self::EPSILON / 2.0;
    const TINY: f64 = 5e-324;

    fn sum_in_order(addends: &[Self]) -> Self {
        addends.iter().sum()
    }
}

impl Sample for f16 {
    /// 1,024 times 2¹¹ is less than the 2²⁴ up to which f32 is exact.
    const BITS: u32 = 11;
    const SCALE: i32 = 11;
    const ROUNDOFF: f64 = 1.0 / 2_048.0;
    const TINY: f64 = 1.0 / 16_777_216.0;

    fn sum_in_order(addends: &[Self]) -> Self {
        Self::from_f32(addends.iter().map(|addend| addend.to_f32()).sum())
    }
}

impl Sample for bf16 {
    const BITS: u32 = 8;
    const SCALE: i32 = 8;
    const ROUNDOFF: f64 = 1.0 / 256.0;
    /// 2⁻¹³³
    const TINY: f64 = 9.183_549_615_799_121e-41;

    fn sum_in_order(addends: &[Self]) -> Self {
        Self::from_f32(addends.iter().map(|addend| addend.to_f32()).sum())
    }
}

/// Blocks are always added in the order of ranks, so every bit of a sum is known.
macro_rules! blocks {
    ($($block:ty: $bits:literal;)+) => {$(
        impl Sample for $block {
            const BITS: u32 = $bits;
            const SCALE: i32 = $bits;
            const NUMBERS: usize = 32;

            fn sum_in_order(addends: &[Self]) -> Self {
                let mut sum = [0.0; Self::NUMBERS];
                for addend in addends {
                    sum.iter_mut().zip(addend.values()).for_each(|(sum, value)| *sum += value);
                }
                Self::of(&sum)
            }

            #[expect(clippy::cast_possible_truncation, reason = "at most 1,024")]
            fn quotient(self, divisor: f64) -> Self {
                Self::of(&self.values().map(|value| value / divisor as f32))
            }

            fn widen(self, into: &mut Vec<f32>) {
                into.extend(self.values());
            }

            fn narrow(numbers: &[f32]) -> Self {
                numbers.try_into().map_or_else(|_| Self::default(), Self::of)
            }

            #[expect(clippy::cast_possible_truncation, reason = "a few bits")]
            fn sample(stream: u64, index: u64) -> Self {
                let scale = f32::powi(2.0, -Self::SCALE);
                let mut next = index * Self::NUMBERS as u64..;
                Self::of(&[(); Self::NUMBERS].map(|()| {
                    number(stream, next.next().unwrap_or_default(), Self::BITS) as f32 * scale
                }))
            }
        }
    )+};
}

blocks! {
    MxFp8: 3;
    MxInt8: 6;
}
