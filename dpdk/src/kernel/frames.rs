//! What the bytes of a frame say about cutting and joining it. Ethernet, IPv4 or IPv6, UDP.

/// What the kernel puts before each frame, and takes before each: `struct virtio_net_hdr`.
pub(super) const PREFIX: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
/// A long UDP datagram to be cut into shorter ones.
const GSO_UDP: u8 = 5;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
pub(super) const UDP: usize = 8;
/// Headers of what can be joined: IPv4 without options.
pub(super) const HEADERS: usize = ETHERNET + IPV4 + UDP;
/// Bytes of the UDP header's checksum, counted from the header.
const UDP_CHECKSUM: usize = 6;

/// What the kernel says of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// An ordinary frame; with the place from which on it lacks a checksum, and the place for that.
    Plain(Option<(usize, usize)>),
    /// A long datagram to be cut.
    Long(Cut),
    /// A long frame of another protocol, or one that makes no sense.
    Other,
}

/// How to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes before the payload.
    pub(super) headers: usize,
    /// Bytes of payload in each datagram, but for the last one.
    pub(super) size: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Reads the prefix of a received frame. Its numbers are in the machine's order of bytes.
pub(super) fn said(prefix: [u8; PREFIX], frame: &[u8]) -> Said {
    let [flags, kind, _, _, size @ .., start0, start1, place0, place1] = prefix;
    let number = |bytes| usize::from(u16::from_ne_bytes(bytes));
    let (size, start, place) = (number(size), number([start0, start1]), number([place0, place1]));
    match kind {
        GSO_NONE if flags & NEEDS_CHECKSUM != 0 => Said::Plain(Some((start, start + place))),
        GSO_NONE => Said::Plain(None),
        GSO_UDP => {
            let right = match word(frame, 12) {
                Some(0x0800) => start >= ETHERNET + IPV4 && frame.get(23) == Some(&17),
                Some(0x86dd) => start == ETHERNET + IPV6 && frame.get(20) == Some(&17),
                _ => false,
            };
            let headers = start + UDP;
            if right && size > 0 && frame.len() > headers {
                Said::Long(Cut { headers, size })
            } else {
                Said::Other
            }
        }
        _ => Said::Other,
    }
}

/// Makes the headers of a long datagram those of the one that begins `offset` bytes behind them, and is so
/// long. Without a UDP checksum over IPv4, where there need not be one; over IPv6 it is finished from the
/// payload.
pub(super) fn retell(headers: &mut [u8], cut: Cut, offset: usize, payload: &[u8]) {
    let udp = cut.headers - UDP;
    let length = u16::try_from(UDP + payload.len()).unwrap_or(u16::MAX);
    let before = word(headers, udp + 4).unwrap_or(0);
    put(headers, udp + 4, length);
    if word(headers, 12) == Some(0x0800) {
        let header = u16::try_from(udp - ETHERNET).unwrap_or(u16::MAX);
        put(headers, ETHERNET + 2, header.saturating_add(length));
        let nth = u16::try_from(offset / cut.size).unwrap_or(0);
        let number = word(headers, ETHERNET + 4).unwrap_or(0).wrapping_add(nth);
        put(headers, ETHERNET + 4, number);
        put(headers, ETHERNET + 10, 0);
        let checksum = !folded(sum(headers.get(ETHERNET..udp).unwrap_or_default()));
        put(headers, ETHERNET + 10, checksum);
        put(headers, udp + UDP_CHECKSUM, 0);
    } else {
        put(headers, ETHERNET + 4, length);
        // What is there is the sum of the pseudo header with the long datagram's length.
        let pseudo = u64::from(word(headers, udp + UDP_CHECKSUM).unwrap_or(0));
        put(headers, udp + UDP_CHECKSUM, 0);
        let total = pseudo + u64::from(!before) + u64::from(length) + sum(&headers[udp..]) + sum(payload);
        put(headers, udp + UDP_CHECKSUM, finished(total));
    }
}

/// Puts in the checksum that a frame lacks.
pub(super) fn finish(frame: &mut [u8], start: usize, place: usize) {
    if place + 2 <= frame.len() && start < frame.len() {
        let total = sum(&frame[start..]);
        put(frame, place, finished(total));
    }
}

/// Ones' complement sum of big endian words.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|two| u64::from(u16::from_be_bytes([two[0], two[1]]))).sum::<u64>() + last
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(0)
}

/// A checksum of 0 would mean that there is none.
fn finished(sum: u64) -> u16 {
    match !folded(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Whether a frame that begins so, with so much behind its headers, is a UDP datagram over IPv4 that can be
/// joined with others.
pub(super) fn can_join(head: &[u8], payload: usize) -> bool {
    head.len() >= HEADERS
        && word(head, ETHERNET + IPV4 + 4).is_some_and(|length| usize::from(length) == UDP + payload)
        && word(head, 12) == Some(0x0800)
        && head[ETHERNET] == 0x45
        && head[ETHERNET + 9] == 17
        // No fragment.
        && word(head, ETHERNET + 6).is_some_and(|flags| flags & 0x3fff == 0)
}

/// Whether two such datagrams have the same way: addresses, ports, and everything else but lengths and
/// checksums.
pub(super) fn same_way(a: &[u8], b: &[u8]) -> bool {
    let same = |range: core::ops::Range<usize>| a.get(range.clone()) == b.get(range);
    same(26..38) && same(0..16) && same(20..24)
}

/// The beginning of a long datagram: the prefix, then headers like those of the first of `count` datagrams
/// that are joined, with `payload` bytes in all, `size` in each but the last one.
pub(super) fn joined(first: &[u8], payload: usize, size: usize) -> Option<[u8; PREFIX + HEADERS]> {
    let mut bytes = [0; PREFIX + HEADERS];
    let (prefix, headers) = bytes.split_at_mut(PREFIX);
    headers.copy_from_slice(first.get(..HEADERS)?);
    let udp = ETHERNET + IPV4;
    let length = u16::try_from(UDP + payload).ok()?;
    put(headers, ETHERNET + 2, length.checked_add(20)?);
    put(headers, ETHERNET + 10, 0);
    let checksum = !folded(sum(&headers[ETHERNET..udp]));
    put(headers, ETHERNET + 10, checksum);
    put(headers, udp + 4, length);
    // The kernel, or the card, adds the payload to the pseudo header's sum.
    let pseudo = sum(&headers[ETHERNET + 12..udp]) + 17 + u64::from(length);
    put(headers, udp + UDP_CHECKSUM, folded(pseudo));
    prefix[0] = NEEDS_CHECKSUM;
    prefix[1] = GSO_UDP;
    for (at, number) in [(2, HEADERS), (4, size), (6, udp), (8, UDP_CHECKSUM)] {
        prefix[at..at + 2].copy_from_slice(&u16::try_from(number).ok()?.to_ne_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
