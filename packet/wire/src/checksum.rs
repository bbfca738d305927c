//! The Internet checksum (RFC 1071), and UDP's over a pseudo-header.

use crate::frame::Address;

/// One's-complement sum of `bytes` as big-endian 16-bit words, not yet folded; an odd last byte counts as its
/// word's upper half. Sums of even-length pieces may be added.
#[must_use]
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let mut total = 0u64;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        total += u64::from(u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    match *chunks.remainder() {
        [a] => total += u64::from(u16::from_be_bytes([a, 0])),
        [a, b] => total += u64::from(u16::from_be_bytes([a, b])),
        [a, b, c] => {
            total += u64::from(u16::from_be_bytes([a, b]));
            total += u64::from(u16::from_be_bytes([c, 0]));
        }
        _ => {}
    }
    total
}

/// Folds a sum into 16 bits and complements it: the value that goes into the header.
#[must_use]
#[inline]
pub const fn finish(total: u64) -> u16 {
    // The halves are added in both halves: a carry of the lower one arrives in the upper one, as it should.
    let total = (total.wrapping_add(total.rotate_left(32)) >> 32) as u32;
    !((total.wrapping_add(total.rotate_left(16)) >> 16) as u16)
}

/// True if `bytes`, checksum field included, sum to zero.
#[must_use]
#[inline]
pub fn holds(bytes: &[u8]) -> bool {
    finish(sum(bytes)) == 0
}

/// The sum of the pseudo-header of a UDP or ICMPv6 packet of `len` bytes.
#[must_use]
pub fn pseudo_header(src: Address, dst: Address, protocol: u8, len: u32) -> u64 {
    let addresses = match (src.as_v4(), dst.as_v4()) {
        (Some(src), Some(dst)) => sum(&src) + sum(&dst),
        _ => sum(&src.octets()) + sum(&dst.octets()),
    };
    addresses + u64::from(protocol) + u64::from(len)
}

#[cfg(test)]
mod tests;
