//! The kernels in plain Rust: what the vector kernels must agree with, bit for bit.

#[inline]
fn elements<'a>(
    into: &'a mut [u8],
    from: &'a [u8],
) -> impl Iterator<Item = (&'a mut [u8; 4], &'a [u8; 4])> + use<'a> {
    into.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks::<4>().0)
}

/// `into[i] += from[i]` in binary32.
pub fn f32_sum(into: &mut [u8], from: &[u8]) -> bool {
    for (a, b) in elements(into, from) {
        *a = (f32::from_le_bytes(*a) + f32::from_le_bytes(*b)).to_le_bytes();
    }
    false
}

/// `into[i] += from[i]`, clamped to the range of `i32`; true if an element was clamped.
pub fn i32_sum(into: &mut [u8], from: &[u8]) -> bool {
    let mut saturated = false;
    for (a, b) in elements(into, from) {
        let (x, y) = (i32::from_le_bytes(*a), i32::from_le_bytes(*b));
        saturated |= x.checked_add(y).is_none();
        *a = x.saturating_add(y).to_le_bytes();
    }
    saturated
}
