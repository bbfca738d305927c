//! The comparison of one cache line, in registers.

use wide::u8x16;

/// 64 bytes as vectors, so that a comparison takes them from memory as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line([u8x16; 4]);

impl Line {
    /// These bytes.
    pub(crate) const fn new(bytes: &[u8; 64]) -> Self {
        let mut lanes = [[0; 16]; 4];
        let mut at = 0;
        while at < 64 {
            lanes[at / 16][at % 16] = bytes[at];
            at += 1;
        }
        let [a, b, c, d] = lanes;
        Self([u8x16::new(a), u8x16::new(b), u8x16::new(c), u8x16::new(d)])
    }

    /// True if `there`, where `mask` has ones, is the same as these bytes.
    ///
    /// Written in vectors because compilers split up the byte-wise form: the caller reads single fields of
    /// the same line, and their loads are merged with those of the comparison.
    #[inline(always)]
    pub(crate) fn matches(&self, there: &[u8; 64], mask: &Self) -> bool {
        let lane =
            |at: usize| there.as_chunks::<16>().0.get(at).map_or(u8x16::ZERO, |&lane| u8x16::new(lane));
        let different = |at: usize| (lane(at) ^ self.0[at]) & mask.0[at];
        (different(0) | different(1) | different(2) | different(3)).simd_eq(u8x16::ZERO).all()
    }
}
