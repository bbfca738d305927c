//! The comparison of one cache line, in registers.

use wide::u8x16;

/// True if `there`, where `mask` has ones, is the same as `expected`, whose other bits are zero.
///
/// Written in vectors because compilers take the byte-wise form apart: the caller reads single fields of the same line,
/// and their loads get mixed up with those of the comparison.
#[inline(always)]
pub(crate) fn matches(there: &[u8; 64], mask: &[u8; 64], expected: &[u8; 64]) -> bool {
    let lane = |line: &[u8; 64], at: usize| {
        line.as_chunks::<16>().0.get(at).map_or(u8x16::ZERO, |&lane| u8x16::new(lane))
    };
    let different = |at: usize| (lane(there, at) & lane(mask, at)) ^ lane(expected, at);
    (different(0) | different(1) | different(2) | different(3)).simd_eq(u8x16::ZERO).all()
}
