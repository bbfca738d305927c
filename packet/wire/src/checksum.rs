//! The Internet checksum (RFC 1071), and UDP's over a pseudo-header.

use crate::field::udp;
use crate::frame::{Address, Frame, Net, UDP_LEN, protocol};

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

/// As [`sum`], of long pieces: adds words as the machine has them, on whose order of bytes the sum does not
/// depend (RFC 1071, section 2).
fn sum_of_many(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let halves = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        (word & u64::from(u32::MAX), word >> 32)
    };
    let (lower, upper) = words.iter().map(halves).fold((0, 0), |sum, (a, b)| (sum.0 + a, sum.1 + b));
    u64::from(u16::from_be(!finish(lower + upper))) + sum(rest)
}

/// True if a frame has a UDP datagram with a wrong checksum. 0 stands for none, which only IPv4 allows (RFC
/// 768; RFC 8200, section 8.1). False for everything else, however malformed.
#[must_use]
pub fn udp_is_wrong(frame: &[u8]) -> bool {
    let Ok(Frame { net: Net::Ip(ip), .. }) = Frame::parse(frame) else { return false };
    let Some(segment) = frame.get(ip.l4..ip.l4 + ip.l4_len) else { return false };
    let Some(header) = segment.first_chunk::<UDP_LEN>() else { return false };
    if ip.protocol != protocol::UDP {
        return false;
    }
    if header[udp::CHECKSUM] == [0, 0] {
        return ip.src.as_v4().is_none();
    }
    let len = u32::try_from(ip.l4_len).unwrap_or(u32::MAX);
    finish(pseudo_header(ip.src, ip.dst, protocol::UDP, len) + sum_of_many(segment)) != 0
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
