//! Sums of blocks of 32 elements that share a scale ([`mx`]): plain loops, which compilers vectorise with a
//! function's instruction set. So there is one source for all of them, and no intrinsics.

use pascaline_wire::mx::{self, Format};

/// [`InOrder`](super::InOrder): each block's sum is made in binary32, on the stack, and rounded once. A clamp
/// to the largest element is rounding, too, and not reported.
#[inline(always)]
pub(super) fn sum<F: Format>(into: &mut [u8], from: &[&[u8]]) -> bool {
    let Some(shortest) = from.iter().map(|input| input.len()).min() else { return false };
    for (at, block) in into.as_chunks_mut().0.iter_mut().enumerate().take(shortest / mx::BYTES) {
        let mut sum = mx::decode::<F>(block);
        for other in from.iter().filter_map(|input| input.as_chunks().0.get(at)) {
            for (sum, value) in sum.iter_mut().zip(mx::decode::<F>(other)) {
                *sum += value;
            }
        }
        *block = mx::encode::<F>(&sum);
    }
    false
}
