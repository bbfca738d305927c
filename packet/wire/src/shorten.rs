//! Datagrams that end earlier than they did, where they lie in a frame.

use crate::checksum;
use crate::field::{at, ipv4, ipv6, udp};
use crate::frame::{IPV4_LEN, IPV6_LEN, Ip, UDP_LEN};

/// Shortens the payload of a UDP datagram to `len` bytes, in a frame in which
/// [`Frame::parse`](crate::frame::Frame::parse) has found `ip`: lengths and the IP header's checksum are
/// adapted, and UDP's is 0, none. Returns the frame's length; `None`, and nothing is changed, if the payload
/// is shorter than that.
#[must_use]
pub fn shorten(frame: &mut [u8], ip: &Ip, len: usize) -> Option<usize> {
    let l4_len = UDP_LEN.checked_add(len).filter(|&wanted| wanted <= ip.l4_len)?;
    let v4 = ip.dst.as_v4().is_some();
    let header = if v4 { IPV4_LEN } else { IPV6_LEN };
    let l3 = ip.l4.checked_sub(header)?;
    let (udp_len, total) = (u16::try_from(l4_len).ok()?, u16::try_from(l4_len + header).ok()?);
    let end = ip.l4 + l4_len;
    frame.get(..end)?;
    frame[at(ip.l4, udp::LEN)].copy_from_slice(&udp_len.to_be_bytes());
    frame[at(ip.l4, udp::CHECKSUM)].copy_from_slice(&[0, 0]);
    if v4 {
        frame[at(l3, ipv4::TOTAL_LEN)].copy_from_slice(&total.to_be_bytes());
        frame[at(l3, ipv4::CHECKSUM)].copy_from_slice(&[0, 0]);
        let checksum = checksum::finish(checksum::sum(&frame[l3..l3 + IPV4_LEN]));
        frame[at(l3, ipv4::CHECKSUM)].copy_from_slice(&checksum.to_be_bytes());
    } else {
        frame[at(l3, ipv6::PAYLOAD_LEN)].copy_from_slice(&udp_len.to_be_bytes());
    }
    Some(end)
}

#[cfg(test)]
mod tests;
