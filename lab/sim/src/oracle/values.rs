//! The values that ranks contribute, and the results that they can give.
//!
//! *Whole* numbers are so small that their sums are exact in any order. A missing, doubled or altered
//! contribution shows at once, and results are compared bit by bit. *Rough* values show the order of
//! additions: every addition rounds, so two sums differ in their last bits unless they were made in the same
//! order. A rough sum may be that of any order; a separate check demands the same bits on all ranks.

use arrayvec::ArrayVec;
use pascaline_wire::{DType, Element, Op, mx};
use pascaline_worker::{Element as _, with_element};

use super::Contributor;
use crate::random::mix;

/// The type and kind of a job's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values {
    pub(crate) element: Element,
    pub(crate) rough: bool,
}

impl Values {
    /// Appends what a rank contributes to an element.
    pub(crate) fn contribute(self, who: Contributor, operation: usize, index: usize, into: &mut Vec<u8>) {
        match self.element.dtype {
            DType::F64 if self.rough => into.extend(self.rough(who, operation, index).to_le_bytes()),
            #[expect(clippy::cast_possible_truncation, reason = "it has been rounded before")]
            _ if self.rough => into.extend((self.rough(who, operation, index) as f32).to_le_bytes()),
            _ => encode(self.element, self.whole(who, operation, index), into),
        }
    }

    /// Whether an element can be the sum of these ranks' contributions.
    pub(crate) fn fits(
        self,
        ranks: impl Iterator<Item = Contributor>,
        operation: usize,
        index: usize,
        got: &[u8],
    ) -> bool {
        if !self.rough {
            let mut expected = ArrayVec::<u8, { mx::BYTES }>::new();
            encode(self.element, self.combine(ranks, operation, index), &mut expected);
            return *expected == *got;
        }
        let (sum, rounding) = self.sum(ranks, operation, index);
        let got = match *got {
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return false,
        };
        (got - sum).abs() <= rounding
    }

    /// The sum of these ranks' contributions, in words.
    pub(crate) fn expected(
        self,
        ranks: impl Iterator<Item = Contributor>,
        operation: usize,
        index: usize,
    ) -> String {
        if self.rough {
            let (sum, rounding) = self.sum(ranks, operation, index);
            format!("{sum} ± {rounding}")
        } else {
            self.combine(ranks, operation, index).to_string()
        }
    }

    /// A whole number that differs from take to take. Never 0, so that a missing contribution shows.
    fn whole(self, who: Contributor, operation: usize, index: usize) -> i64 {
        i64::try_from(1 + hash(who, operation, index) % most(self.element)).unwrap_or(1)
    }

    /// A number that differs from take to take and uses every bit of the significand: 2¹⁰ and up to 2¹² more.
    ///
    /// The first two ranks' numbers are 2¹⁵ to 1.5 × 2¹⁵ larger, with opposite signs. An addition while one
    /// of them is inside loses bits, which shows as soon as the other has come.
    fn rough(self, who: Contributor, operation: usize, index: usize) -> f64 {
        let part = float(hash(who, operation, index)) / 2_f64.powi(52);
        let absent = Contributor { rank: u16::from(u8::MAX), take: 0, ..who };
        let large = 2_f64.powi(15) + float(hash(absent, operation, index) >> 50);
        let value = match who.rank {
            0 => large + part,
            1 => -large - part,
            _ => 2_f64.powi(10) + part,
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounded to what the type has")]
        if self.element.dtype == DType::F32 { f64::from(value as f32) } else { value }
    }

    /// The operation's result for the ranks' whole numbers; 0 for none.
    fn combine(self, ranks: impl Iterator<Item = Contributor>, operation: usize, index: usize) -> i64 {
        let values = ranks.map(|who| self.whole(who, operation, index));
        match self.element.op {
            Op::Sum | Op::Mean => values.sum(),
            Op::Min => values.min().unwrap_or(0),
            Op::Max => values.max().unwrap_or(0),
        }
    }

    /// The sum of rough values in 64 bits, and how far a sum in any order may be from it.
    ///
    /// n − 1 additions change a sum by less than n half units of rounding of the magnitudes' sum (Higham,
    /// Accuracy and Stability of Numerical Algorithms, 4.2). Twice that, since this sum may be rounded as
    /// well: less than 0.2 for eight ranks, where the smallest contribution is 2¹⁰.
    fn sum(self, ranks: impl Iterator<Item = Contributor>, operation: usize, index: usize) -> (f64, f64) {
        let unit = if self.element.dtype == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let (mut sum, mut magnitudes, mut count) = (0.0, 0.0, 0.0);
        for value in ranks.map(|who| self.rough(who, operation, index)) {
            sum += value;
            magnitudes += value.abs();
            count += 1.0;
        }
        (sum, count * unit * magnitudes)
    }
}

/// A number with all bits of the significand.
#[expect(clippy::cast_precision_loss, reason = "rounded on purpose")]
const fn float(number: u64) -> f64 {
    number as f64
}

/// A digest of a contribution that differs from those of all others.
fn hash(who: Contributor, operation: usize, index: usize) -> u64 {
    let Contributor { job, rank, take } = who;
    let who = u64::from(job) << 48 | u64::from(rank) << 40 | u64::from(take) << 32;
    mix(who ^ (operation as u64) << 24 ^ index as u64 ^ 0x9e37_79b9_7f4a_7c15)
}

/// The largest whole number: that of eight ranks must not need more bits than the type has.
fn most(element: Element) -> u64 {
    with_element!(element.dtype, T => 60_000.min((1 << (<T as pascaline_worker::Element>::DIGITS - 3)) - 1))
}

/// Appends a whole number as an element's bytes.
fn encode(element: Element, value: i64, into: &mut impl Extend<u8>) {
    let value = f64::from(i32::try_from(value).unwrap_or(i32::MAX));
    with_element!(element.dtype, T => T::nearest(value).write(into));
}

/// An element in words.
pub(crate) fn decode(element: Element, bytes: &[u8]) -> String {
    let value = with_element!(element.dtype, T => T::read(bytes).map(T::value));
    value.map_or_else(|| format!("{bytes:02x?}"), |value| value.to_string())
}
