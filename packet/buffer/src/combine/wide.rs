//! Sums of 16-bit floats: accumulated in binary32, rounded once.

use super::{Combine, Reshape};

/// The kernels that make a sum of 16-bit floats in one buffer, rounding only at its end.
///
/// The buffer begins with n values of 16 bits and has room for n of 32. `second` widens them to binary32,
/// `next` adds to that, `last` adds and rounds back to n values of 16 bits:
///
/// ```text
///                      bytes 0..2n     bytes 2n..4n    then
/// first contribution   n × 16 bits     unused          second, or only_two
/// accumulator          n × binary32                    next, or last, or narrow
/// result               n × 16 bits     left over
/// ```
///
/// Rounding is to nearest even. A sum too large for the type becomes an infinity, as IEEE 754 has it; none of
/// these kernels reports saturation. A NaN in the result is the type's canonical one; in the accumulator it
/// can be any.
///
/// No length is an error: both slices have room for n, and bytes behind the first 4n (`only_two`: 2n) of the
/// buffer stay as they are.
#[derive(Debug, Clone, Copy)]
pub struct WideSum {
    /// Adds n 16-bit values to n 16-bit values; the sum stays wide. n is the smaller of `into.len() / 4` and
    /// `from.len() / 2`, so `into` has to include the room for the accumulator.
    pub second: Combine,
    /// Adds n 16-bit values to an accumulator of `into.len() / 4` values; the sum stays wide.
    pub next: Combine,
    /// Adds n 16-bit values to an accumulator and rounds: the result is in the first 2n bytes.
    pub last: Combine,
    /// Adds n 16-bit values to n 16-bit values and rounds, in place: with the result of `second` and
    /// `narrow`. Needs no room; n is half the number of bytes of the shorter slice.
    pub only_two: Combine,
    /// Widens `buffer.len() / 4` values of 16 bits to binary32. Exact, except that a signalling NaN may
    /// become quiet.
    pub widen: Reshape,
    /// Rounds an accumulator of `buffer.len() / 4` values; the result is in the first half of it.
    pub narrow: Reshape,
}
