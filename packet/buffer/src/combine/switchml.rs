//! The content of SwitchML's packets: two signed bytes, of which the larger counts, then 32-bit integers, big
//! endian, whose sums wrap.

/// Adds a packet's content to another's. Nothing saturates.
#[inline(always)]
pub(super) fn sum(into: &mut [u8], from: &[u8]) -> bool {
    if let (Some((exponents, values)), Some((others, more))) =
        (into.split_first_chunk_mut::<2>(), from.split_first_chunk::<2>())
    {
        for (exponent, other) in exponents.iter_mut().zip(others) {
            *exponent = exponent.cast_signed().max(other.cast_signed()).cast_unsigned();
        }
        for (value, other) in values.as_chunks_mut::<4>().0.iter_mut().zip(more.as_chunks::<4>().0) {
            *value = u32::from_be_bytes(*value).wrapping_add(u32::from_be_bytes(*other)).to_be_bytes();
        }
    }
    false
}

/// The same in plain Rust, as a function of its own.
pub(super) fn scalar(into: &mut [u8], from: &[u8]) -> bool {
    sum(into, from)
}

/// All of `from` in turn.
pub(super) fn in_order(into: &mut [u8], from: &[&[u8]]) -> bool {
    from.iter().fold(false, |_, other| sum(into, other))
}
