//! The fields of a frame that matter for cutting and joining it. Ethernet, IPv4 or IPv6, UDP or TCP.

/// Length of the kernel's prefix of each frame, received or sent: `struct virtio_net_hdr`.
pub(super) const PREFIX: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
/// A long TCP segment to be cut into shorter ones, over IPv4 and over IPv6; and the bit that says that CWR is
/// set in the first of them only.
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;
/// A long UDP datagram to be cut into shorter ones.
const GSO_UDP: u8 = 5;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
pub(super) const UDP: usize = 8;
/// Headers of frames that can be joined: IPv4 without options.
pub(super) const HEADERS: usize = ETHERNET + IPV4 + UDP;
/// Bytes of the UDP header's checksum, counted from the header.
const UDP_CHECKSUM: usize = 6;
/// TCP's header without options, the places in it, and the flags that only the first or the last segment may
/// have.
const TCP: usize = 20;
const TCP_SEQUENCE: usize = 4;
const TCP_LENGTH: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
/// Bytes of SCTP's, which is another sum; no other protocol's is there.
const SCTP_CHECKSUM: usize = 8;
const CWR: u8 = 0x80;
const FIN_PSH: u8 = 0x09;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// The kernel's description of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offload {
    /// An ordinary frame; with the place from which on it lacks a checksum, and the place for that.
    Plain(Option<(usize, usize)>),
    /// A long datagram or segment to be cut.
    Long(Cut),
    /// A long frame of another protocol, or one that makes no sense.
    Other,
}

/// How to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes before the payload.
    pub(super) headers: usize,
    /// Bytes of payload in each piece, but for the last one.
    pub(super) size: usize,
    /// Where the transport's header begins, and whether it is TCP's.
    transport: usize,
    tcp: bool,
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
pub(super) fn parse_prefix(prefix: [u8; PREFIX], frame: &[u8]) -> Offload {
    let [flags, kind, _, _, size @ .., start0, start1, place0, place1] = prefix;
    let number = |bytes| usize::from(u16::from_ne_bytes(bytes));
    let (size, start, place) = (number(size), number([start0, start1]), number([place0, place1]));
    match kind {
        GSO_NONE if flags & NEEDS_CHECKSUM != 0 => Offload::Plain(Some((start, start + place))),
        GSO_NONE => Offload::Plain(None),
        _ => long(kind & !GSO_ECN, size, start, frame).map_or(Offload::Other, Offload::Long),
    }
}

/// How to cut a long frame whose transport header begins at `start`; 0 if the kernel does not say, as for
/// frames that a card has joined.
fn long(kind: u8, size: usize, start: usize, frame: &[u8]) -> Option<Cut> {
    let tcp = matches!(kind, GSO_TCP4 | GSO_TCP6);
    let protocol = if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    let start = match (start, word(frame, 12)?) {
        (0, 0x0800) => ETHERNET + usize::from(frame.get(ETHERNET)? & 15) * 4,
        (0, _) => ETHERNET + IPV6,
        (start, _) => start,
    };
    let right = match word(frame, 12)? {
        0x0800 => kind != GSO_TCP6 && start >= ETHERNET + IPV4 && frame.get(23) == Some(&protocol),
        0x86dd => kind != GSO_TCP4 && start == ETHERNET + IPV6 && frame.get(20) == Some(&protocol),
        _ => false,
    };
    let length = if tcp { usize::from(frame.get(start + TCP_LENGTH)? >> 4) * 4 } else { UDP };
    let headers = start + length;
    let known = tcp && length >= TCP || kind == GSO_UDP;
    (right && known && size > 0 && frame.len() > headers).then_some(Cut {
        headers,
        size,
        transport: start,
        tcp,
    })
}

/// Turns the headers of a long datagram or segment into those of the piece that begins `offset` bytes behind
/// them and has this length; `last` if none follows. Its checksum is made from the piece; for UDP over IPv4,
/// where it is optional, only to `finish` it for other hosts.
pub(super) fn rewrite_headers(
    headers: &mut [u8],
    cut: Cut,
    offset: usize,
    piece: &[u8],
    (last, finish): (bool, bool),
) {
    let (start, tcp) = (cut.transport, cut.tcp);
    let length = u16::try_from(cut.headers - start + piece.len()).unwrap_or(u16::MAX);
    let v4 = word(headers, 12) == Some(0x0800);
    if v4 {
        let header = u16::try_from(start - ETHERNET).unwrap_or(u16::MAX);
        put(headers, ETHERNET + 2, header.saturating_add(length));
        let nth = u16::try_from(offset / cut.size).unwrap_or(0);
        let number = word(headers, ETHERNET + 4).unwrap_or(0).wrapping_add(nth);
        put(headers, ETHERNET + 4, number);
        put(headers, ETHERNET + 10, 0);
        let checksum = !folded(sum(headers.get(ETHERNET..start).unwrap_or_default()));
        put(headers, ETHERNET + 10, checksum);
    } else {
        put(headers, ETHERNET + 4, length);
    }
    if tcp {
        rewrite_tcp(&mut headers[start..], offset, last);
    } else {
        put(headers, start + 4, length);
    }
    let place = start + if tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    put(headers, place, 0);
    if !v4 || tcp || finish {
        let addresses = if v4 { ETHERNET + 12..ETHERNET + IPV4 } else { ETHERNET + 8..ETHERNET + IPV6 };
        let pseudo = sum(&headers[addresses]) + u64::from(if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP });
        let total = pseudo + u64::from(length) + sum(&headers[start..]) + sum(piece);
        put(headers, place, finished(total));
    }
}

/// A piece's TCP header.
fn rewrite_tcp(header: &mut [u8], offset: usize, last: bool) {
    let Some(place) = header.get_mut(TCP_SEQUENCE..).and_then(<[u8]>::first_chunk_mut::<4>) else { return };
    let further = u32::try_from(offset).unwrap_or(0);
    *place = u32::from_be_bytes(*place).wrapping_add(further).to_be_bytes();
    if let Some(flags) = header.get_mut(TCP_FLAGS) {
        let not_here = if offset > 0 { CWR } else { 0 } | if last { 0 } else { FIN_PSH };
        *flags &= !not_here;
    }
}

/// Puts in the checksum that a frame lacks.
pub(super) fn finish(frame: &mut [u8], start: usize, place: usize) {
    if place == start + SCTP_CHECKSUM {
        if let Some(field) = frame.get_mut(place..).and_then(<[u8]>::first_chunk_mut::<4>) {
            *field = [0; 4];
            let sum = crc32c(&frame[start..]);
            frame[place..place + 4].copy_from_slice(&sum.to_le_bytes());
        }
    } else if place + 2 <= frame.len() && start < frame.len() {
        let total = sum(&frame[start..]);
        put(frame, place, finished(total));
    }
}

/// SCTP's sum (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |sum: u32, _| sum >> 1 ^ 0x82f6_3b78 & (sum & 1).wrapping_neg();
    !bytes.iter().fold(!0, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), bit))
}

/// Whether it is only a part of an IP packet, by the length in its header.
pub(super) fn is_truncated(frame: &[u8]) -> bool {
    let says = |at| word(frame, ETHERNET + at).map_or(0, usize::from);
    let length = match word(frame, 12) {
        Some(0x0800) => says(2),
        Some(0x86dd) => IPV6 + says(4),
        _ => 0,
    };
    ETHERNET + length > frame.len()
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

/// In UDP a checksum of 0 would mean that there is none; TCP's may be either.
fn finished(sum: u64) -> u16 {
    match !folded(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Whether a frame with this beginning and this many bytes behind its headers can be joined with others: a
/// UDP datagram over IPv4 without a checksum, as the appliance's own are. Cutting a joined one makes new
/// checksums, so a datagram with one, if it came damaged, would leave with one that is right.
pub(super) fn can_join(head: &[u8], payload: usize) -> bool {
    head.len() >= HEADERS
        && word(head, ETHERNET + IPV4 + 4).is_some_and(|length| usize::from(length) == UDP + payload)
        && word(head, 12) == Some(0x0800)
        && head[ETHERNET] == 0x45
        && head[ETHERNET + 9] == PROTOCOL_UDP
        && word(head, ETHERNET + IPV4 + UDP_CHECKSUM) == Some(0)
        // No fragment, and not to be fragmented: the identification, which changes, has no meaning then (RFC
        // 6864).
        && word(head, ETHERNET + 6) == Some(DO_NOT_FRAGMENT)
}

/// Whether two such datagrams agree in addresses, ports, and everything else but lengths and checksums.
pub(super) fn same_flow(a: &[u8], b: &[u8]) -> bool {
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
