//! The plain case in one pass: a gradient in untagged IPv4, all of whose headers fill the first 64 bytes.
//!
//! This is what nearly every packet of a job looks like, and most of it is known beforehand: who sends to whom, which
//! job, rank, fan-in and generation. So an [`Expected`] line of 64 bytes is made once per member, and a packet is checked
//! by one masked comparison instead of field by field. Whatever is not exactly as expected is left to the ordinary
//! parsers, which find out what it is.

use crate::frame::{IPV4_LEN, UDP_LEN, protocol};
use crate::header::{self, Element, Flags, Header, Kind};
use crate::line::Line;
use crate::ports::UdpPorts;
use crate::template::{Path, Template};

/// Length of the headers before the payload.
pub const HEADERS: usize = 14 + IPV4_LEN + UDP_LEN + header::LEN;

/// What is compared where there is one UDP port, byte by byte: not the source MAC (it may change with the route), not the fields of IPv4 and UDP
/// that senders choose, not lengths and checksums (checked by arithmetic), and of the aggregation header not
/// element, PSN, priority, `wnd_cap` and tree. Of the flags, those that make a gradient anything but plain.
const COMPARED: [u8; HEADERS] = {
    let mut mask = [0xff; HEADERS];
    let free: [(usize, usize); 9] =
        [(6, 12), (15, 20), (22, 23), (24, 26), (38, 42), (44, 46), (50, 54), (58, 62), (62, 63)];
    let mut range = 0;
    while range < free.len() {
        let mut at = free[range].0;
        while at < free[range].1 {
            mask[at] = 0;
            at += 1;
        }
        range += 1;
    }
    // Of the fragment field, only "don't fragment" may be set or not.
    mask[20] = 0x3f;
    mask[FLAGS] =
        !(Flags::RETRANSMISSION.bits() | Flags::OVERFLOW.bits() | Flags::FIN.bits() | Flags::ECN_ECHO.bits());
    mask
};

const FLAGS: usize = 44;
/// Where the destination port lies.
const DST_PORT: usize = 36;

/// Which bytes of a plain gradient are compared: all that are known of it. Of the destination port those bits in which the
/// appliance's ports agree.
#[derive(Debug, Clone, Copy)]
pub struct Compared(Line);

impl Compared {
    /// For an appliance with these ports.
    #[must_use]
    pub const fn of(ports: UdpPorts) -> Self {
        let mut mask = COMPARED;
        [mask[DST_PORT], mask[DST_PORT + 1]] = ports.mask().to_be_bytes();
        Self(Line::new(&mask))
    }
}

/// The first 64 bytes of a member's gradients, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    line: Line,
    /// What the addresses add to the sum of the IPv4 header.
    addresses: u32,
    /// Where they come in.
    port: u32,
}

/// What a plain gradient says beyond what was expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Packet sequence number.
    pub psn: u32,
    /// Element type and operation, as their code; defined.
    pub element: u8,
    /// The bits of its [`Flags`], none of which make it anything but plain.
    pub flags: u8,
    /// True if it carries [`Flags::OVERFLOW`] or [`Flags::RETRANSMISSION`].
    pub noteworthy: bool,
    /// Length of the payload, which begins at [`HEADERS`]: a whole number of elements, at least one.
    pub payload_len: u16,
}

impl Expected {
    /// What is expected of nobody: no frame is plain, since there is no such port.
    pub const NONE: Self = Self { line: Line::new(&[0xff; HEADERS]), addresses: 0, port: u32::MAX };

    /// What gradients on this path (from the worker to the appliance) with this job, rank, fan-in, count and epoch
    /// look like, and that they come in on the port with this number. Over IPv6 or with VLAN tags none is plain.
    #[must_use]
    pub fn new(path: &Path, header: &Header, port: u32) -> Self {
        let mut bytes = [0; HEADERS];
        if header.kind != Kind::Gradient || Template::new(path).write(&mut bytes, header, &[]) != Ok(HEADERS)
        {
            return Self::NONE;
        }
        let addresses = half(&bytes, 26) % 0xffff + half(&bytes, 30) % 0xffff;
        Self { line: Line::new(&bytes), addresses, port }
    }

    /// Reads a frame from a port, if it is a plain gradient that is as expected where it is `compared`, with a payload of at most `most` bytes:
    /// everything that [`Frame::parse`](crate::Frame::parse), [`Ip::udp`](crate::frame::Ip::udp), [`Header::parse`] and
    /// [`Header::payload`] check has been checked. `None` says nothing about the frame.
    ///
    /// `lengths` are those of a frame that was read before, or [none](Lengths::NONE): what one says like the other is not checked
    /// again.
    #[must_use]
    #[inline(always)]
    pub fn read(
        &self,
        frame: &[u8],
        compared: &Compared,
        port: u32,
        most: u16,
        lengths: &mut Lengths,
    ) -> Option<Plain> {
        let head = frame.first_chunk::<HEADERS>()?;
        if !self.line.matches(head, &compared.0) {
            return None;
        }
        // Whole words: compilers would take single bytes out of vectors that are there already.
        let (ip, udp) = (word(head, 14), word_of_two(head, 38));
        let said = Lengths::said(ip, udp, most);
        if said != lengths.said {
            *lengths = Lengths::check(said)?;
        }
        let plain = lengths.end <= frame.len()
            && checksum_holds(ip, half(head, 22), self.addresses)
            && self.port == port;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "8 bits of the word, which is as it lies in memory"
        )]
        let (flags, element) = ((udp.to_le() >> 48) as u8, (udp.to_le() >> 56) as u8);
        let Lengths { payload_len, noteworthy, .. } = *lengths;
        plain.then(|| Plain { psn: half(head, 50).to_be(), element, flags, noteworthy, payload_len })
    }
}

/// What a plain gradient says of its lengths, its element and whether there is something special about it, and what follows, once that has been found right: the same for
/// most packets that come one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    said: u64,
    /// Where the datagram ends in the frame.
    end: usize,
    payload_len: u16,
    noteworthy: bool,
    words: Words,
}

/// The element, the length and whether there is something special, where they lie in words that are put together of them: worked out once for
/// all frames that say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The element's code, in the highest byte.
    pub element: u64,
    /// The length of the payload in bytes, in the upper half.
    pub payload_len: u32,
    /// All ones; only the lower half of them where there is something special.
    pub ordinary: u32,
}

impl Words {
    /// Of these.
    #[must_use]
    pub const fn new(element: u8, payload_len: u16, noteworthy: bool) -> Self {
        Self {
            element: (element as u64) << 56,
            payload_len: (payload_len as u32) << 16,
            ordinary: if noteworthy { u16::MAX as u32 } else { u32::MAX },
        }
    }
}

/// Flags that have to be noted beside a sum.
const NOTEWORTHY: u8 = Flags::OVERFLOW.bits() | Flags::RETRANSMISSION.bits();

impl Lengths {
    /// Those of no frame.
    pub const NONE: Self =
        Self { said: 0, end: usize::MAX, payload_len: 0, noteworthy: false, words: Words::new(0, 0, false) };

    /// What was said by the frame that was read last, if it was plain.
    #[must_use]
    #[inline(always)]
    pub const fn words(&self) -> &Words {
        &self.words
    }

    /// The length of the datagram, that of the packet, flags, and the element, of two words as they lie in memory: those at 14 and 38. Between
    /// them, the longest payload that there may be. There is no frame without lengths, so that this is not 0.
    #[inline(always)]
    const fn said(ip: u64, udp: u64, most: u16) -> u64 {
        const MASK: u64 = 0xff00_0000_0000_ffff | (NOTEWORTHY as u64) << 48;
        udp.to_le() & MASK | ip.to_le() & 0xffff_0000 | (most as u64) << 32
    }

    /// Whether what is said is right, and what follows.
    #[cold]
    #[inline(never)]
    fn check(said: u64) -> Option<Self> {
        let [a, b, c, d, e, f, flags, element] = said.to_le_bytes();
        let (udp_len, total) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let most = u16::from_le_bytes([e, f]);
        let payload_len = udp_len.checked_sub(30)?;
        let right = u32::from(total) == u32::from(udp_len) + 20
            && (1..=most).contains(&payload_len)
            && payload_len & SIZE_MASK[usize::from(element)] == 0;
        let (end, noteworthy) = (usize::from(udp_len) + 34, flags != 0);
        let words = Words::new(element, payload_len, noteworthy);
        right.then_some(Self { said, end, payload_len, noteworthy, words })
    }
}

/// The job and rank that a frame would have if it were plain; `None` only if it is too short.
#[must_use]
#[inline(always)]
pub fn job_and_rank(frame: &[u8]) -> Option<(u16, u16)> {
    let both = half(frame.first_chunk()?, 46).to_be();
    #[expect(clippy::cast_possible_truncation, reason = "the upper and the lower half")]
    Some(((both >> 16) as u16, both as u16))
}

/// The flags that a frame would have if it were plain; none if it is too short.
#[must_use]
#[inline(always)]
pub fn flags(frame: &[u8]) -> u8 {
    frame.get(FLAGS).copied().unwrap_or_default()
}

/// The priority that a frame would have if it were plain; 0 if it is too short.
///
/// Apart from [`Plain`]: only a packet that opens a slot has to be asked for it.
#[must_use]
#[inline(always)]
pub fn priority(frame: &[u8]) -> u16 {
    frame.get(58..60).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// By element code: the bits of a payload length that must be zero. Undefined codes let no length pass but 0.
const SIZE_MASK: [u16; 256] = {
    let mut mask = [u16::MAX; 256];
    let mut code = 0u8;
    loop {
        if let Some(Element { dtype, .. }) = Element::from_code(code) {
            #[expect(clippy::cast_possible_truncation, reason = "2, 4 or 8")]
            let size = dtype.size() as u16;
            mask[code as usize] = size - 1;
        }
        if code == u8::MAX {
            break;
        }
        code += 1;
    }
    mask
};

const _: () = assert!(COMPARED[23] == 0xff && protocol::UDP == 17);

/// The IPv4 header checksum, where the sum of the addresses is known. Ones' complement addition is addition modulo 65,535,
/// whatever the byte order and however many 16-bit words are added at a time (RFC 1071, section 2); the header is not all
/// zeros, so that no remainder means all ones.
#[inline(always)]
fn checksum_holds(first: u64, then: u32, addresses: u32) -> bool {
    let (sum, carry) = first.overflowing_add(u64::from(then) + u64::from(addresses));
    // No second carry: what was added has 33 bits.
    (sum + u64::from(carry)).is_multiple_of(0xffff)
}

/// Eight bytes as they lie.
#[inline(always)]
fn word(head: &[u8; HEADERS], at: usize) -> u64 {
    head[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// The same, where it would be taken out of a vector that is there already: of sixteen bytes that no such vector has all of. Eight out of
/// one are four instructions, and ten steps where a shift across two registers is six (Zen 3).
#[inline(always)]
fn word_of_two(head: &[u8; HEADERS], at: usize) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the first half")]
    head[at..].first_chunk().map_or(0, |bytes| (u128::from_le_bytes(*bytes) as u64).to_le())
}

/// Four bytes as they lie.
#[inline(always)]
fn half(head: &[u8; HEADERS], at: usize) -> u32 {
    head[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}
