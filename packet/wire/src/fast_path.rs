//! The fast path: a gradient in untagged IPv4, recognised by one masked compare of its first 64 bytes.
//!
//! Nearly every packet of a job looks like this, and most of it is known beforehand: sender, receiver, job,
//! rank, fan-in and generation. So [`Expected`] is made once per member, and a frame is compared with it as a
//! whole. All other frames are left to the ordinary parsers.

use crate::congestion::ecn;
use crate::element::Element;
use crate::field::plain;
use crate::frame::protocol;
use crate::header::{self, Flags, Header, Kind};
use crate::line::Line;
use crate::ports::UdpPorts;
use crate::template::{Path, Template};

/// Length of the headers before the payload: one cache line.
pub const HEADERS: usize = plain::HEAD + header::LEN;

/// Flags that have to be noted beside a sum.
const NOTEWORTHY: u8 = Flags::OVERFLOW.bits() | Flags::RETRANSMISSION.bits();

/// The bits that are compared where there is one UDP port.
///
/// Not compared: the source MAC (it may change with the route), the fields of IPv4 and UDP that senders
/// choose, lengths and checksums (checked by arithmetic), and element, PSN, priority and `wnd_cap`. Of the
/// flags, only those are compared that send a gradient down the slow path; of the ECN bits, the one that a
/// mark of congestion sets in a packet that may be marked (and that the other code for such packets has set
/// anyway). The DSCP is compared where the appliance tells its packets by it ([`Mask::by_dscp`]).
const COMPARED: [u8; HEADERS] = {
    let mut mask = [0xff; HEADERS];
    let free = [
        crate::field::eth::SRC,
        plain::TOS..plain::ID.end,
        plain::TTL..plain::TTL + 1,
        plain::IP_CHECKSUM,
        plain::UDP_LEN.start..plain::UDP_CHECKSUM.end,
        plain::FLAGS..plain::ELEMENT + 1,
        plain::PSN,
        plain::OWN,
    ];
    let mut range = 0;
    while range < free.len() {
        let mut at = free[range].start;
        while at < free[range].end {
            mask[at] = 0;
            at += 1;
        }
        range += 1;
    }
    // Of the fragment field, only "don't fragment" may be set or not.
    mask[plain::FRAGMENT.start] = 0x3f;
    mask[plain::TOS] = ecn::MARKED ^ ecn::CAPABLE;
    mask[plain::FLAGS] = !(NOTEWORTHY | Flags::FIN.bits());
    mask
};

const _: () = assert!(COMPARED[plain::PROTOCOL] == 0xff && protocol::UDP == 17);

/// Which bits of a frame are compared: of the destination port, those in which the appliance's ports agree.
#[derive(Debug, Clone, Copy)]
pub struct Mask(Line);

impl Mask {
    /// For an appliance with these ports.
    #[must_use]
    pub const fn of(ports: UdpPorts) -> Self {
        Self(Line::new(&Self::bytes(ports)))
    }

    /// The same, for an appliance that recognises its packets by their DSCP, too.
    #[must_use]
    pub const fn by_dscp(ports: UdpPorts) -> Self {
        let mut mask = Self::bytes(ports);
        mask[plain::TOS] |= !ecn::MARKED;
        Self(Line::new(&mask))
    }

    const fn bytes(ports: UdpPorts) -> [u8; HEADERS] {
        let mut mask = COMPARED;
        [mask[plain::DST_PORT.start], mask[plain::DST_PORT.start + 1]] = ports.mask().to_be_bytes();
        mask
    }
}

/// The first 64 bytes of a member's gradients, as far as they are known.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Expected {
    line: Line,
    /// The addresses' part of the sum of the IPv4 header.
    addresses: u32,
    /// Number of the port that they come in on.
    port: u32,
}

/// A fast-path gradient's fields beyond those expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognised {
    /// Packet sequence number.
    pub psn: u32,
    /// The code of a defined [`Element`].
    pub element: u8,
    /// The bits of its [`Flags`].
    pub flags: u8,
    /// True if it carries [`Flags::OVERFLOW`] or [`Flags::RETRANSMISSION`].
    pub noteworthy: bool,
    /// Length of the payload, which begins at [`HEADERS`]: a whole number of elements, at least one.
    pub payload_len: u16,
}

// A cache line is compared with the first one of this.
const _: () = assert!(core::mem::offset_of!(Expected, line) == 0 && size_of::<Line>() == 64);

impl Expected {
    /// Matches no frame: there is no such port.
    pub const NONE: Self = Self { line: Line::new(&[0xff; HEADERS]), addresses: 0, port: u32::MAX };

    /// Gradients on this path (from the worker to the appliance) with the header's job, rank, fan-in, count
    /// and epoch, which come in on the port with this number. Paths over IPv6 or with VLAN tags match no
    /// frame.
    #[must_use]
    pub fn new(path: &Path, header: &Header, port: u32) -> Self {
        let mut bytes = [0; HEADERS];
        if header.kind != Kind::Gradient || Template::new(path).write(&mut bytes, header, &[]) != Ok(HEADERS)
        {
            return Self::NONE;
        }
        let addresses = half(&bytes, plain::SRC.start) % 0xffff + half(&bytes, plain::DST.start) % 0xffff;
        Self { line: Line::new(&bytes), addresses, port }
    }

    /// Reads a frame from a port if it is as expected under the mask, with a payload of at most `most` bytes.
    ///
    /// Then everything is checked that [`Frame::parse`](crate::Frame::parse),
    /// [`Ip::udp`](crate::frame::Ip::udp), [`Header::parse`] and [`Header::payload`] check. `None` only means
    /// that the frame is another one.
    ///
    /// `lengths` are those of the frame that was read before, or [none](Lengths::NONE): fields that are the
    /// same in both are not checked again.
    #[must_use]
    #[inline(always)]
    pub fn recognise(
        &self,
        frame: &[u8],
        mask: &Mask,
        port: u32,
        most: u16,
        lengths: &mut Lengths,
    ) -> Option<Recognised> {
        let head = frame.first_chunk::<HEADERS>()?;
        if !self.line.matches(head, &mask.0) {
            return None;
        }
        // Whole words: compilers would take single bytes out of vectors that are there already.
        let (ip, udp) = (word(head, plain::IP), word_of_two(head, plain::UDP_LEN.start));
        let said = Lengths::of_words(ip, udp, most);
        if said != lengths.said {
            *lengths = Lengths::check(said)?;
        }
        let expected = lengths.end <= frame.len()
            && checksum_holds(ip, half(head, plain::TTL), self.addresses)
            && self.port == port;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "8 bits of the word, which is as it lies in memory"
        )]
        let (flags, element) = ((udp.to_le() >> 48) as u8, (udp.to_le() >> 56) as u8);
        let Lengths { payload_len, noteworthy, .. } = *lengths;
        let psn = half(head, plain::PSN.start).to_be();
        expected.then_some(Recognised { psn, element, flags, noteworthy, payload_len })
    }
}

/// A gradient's lengths, element and flags, once they were checked: the same for most packets that come one
/// after the other.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    said: u64,
    /// Where the datagram ends in the frame.
    end: usize,
    payload_len: u16,
    noteworthy: bool,
    words: Words,
}

/// Parts of the words that the pool compares, computed once for all frames with the same lengths and element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The element's code, with [`Element::LAST`] where it applies, in the highest byte.
    pub element: u64,
    /// The length of the payload in bytes, in the upper half.
    pub payload_len: u32,
    /// All ones; only the lower half of them for a noteworthy gradient.
    pub ordinary: u32,
}

impl Words {
    /// The words for these values.
    #[must_use]
    pub const fn new(element: u8, payload_len: u16, noteworthy: bool) -> Self {
        Self {
            element: (element as u64) << 56,
            payload_len: (payload_len as u32) << 16,
            ordinary: if noteworthy { u16::MAX as u32 } else { u32::MAX },
        }
    }
}

impl Lengths {
    /// Those of no frame.
    pub const NONE: Self =
        Self { said: 0, end: usize::MAX, payload_len: 0, noteworthy: false, words: Words::new(0, 0, false) };

    /// The words of the gradient that was recognised last.
    #[must_use]
    #[inline(always)]
    pub const fn words(&self) -> &Words {
        &self.words
    }

    /// Both lengths, the flags that matter and the element, of the words at `IP` and `UDP_LEN` as they lie in
    /// memory; between them, the longest payload that there may be. Never 0: each frame has lengths.
    #[inline(always)]
    const fn of_words(ip: u64, udp: u64, most: u16) -> u64 {
        const MASK: u64 = 0xff00_0000_0000_ffff | ((NOTEWORTHY | Flags::FIN.bits()) as u64) << 48;
        udp.to_le() & MASK | ip.to_le() & 0xffff_0000 | (most as u64) << 32
    }

    /// Checks the lengths and the element.
    #[cold]
    #[inline(never)]
    fn check(said: u64) -> Option<Self> {
        let [a, b, c, d, e, f, flags, element] = said.to_le_bytes();
        let (udp_len, total) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let most = u16::from_le_bytes([e, f]);
        let payload_len = usize::from(udp_len).checked_sub(HEADERS - plain::UDP)?;
        let payload_len = u16::try_from(payload_len).ok()?;
        let right = usize::from(total) == usize::from(udp_len) + plain::UDP - plain::IP
            && (1..=most).contains(&payload_len)
            && payload_len & SIZE_MASK[usize::from(element)] == 0;
        let (end, noteworthy) = (usize::from(udp_len) + plain::UDP, flags & NOTEWORTHY != 0);
        let last = if flags & Flags::FIN.bits() != 0 { Element::LAST } else { 0 };
        let words = Words::new(element | last, payload_len, noteworthy);
        right.then_some(Self { said, end, payload_len, noteworthy, words })
    }
}

/// The job and rank that a fast-path gradient would have; `None` only if the frame is too short.
#[must_use]
#[inline(always)]
pub fn job_and_rank(frame: &[u8]) -> Option<(u16, u16)> {
    let both = half(frame.first_chunk()?, plain::JOB.start).to_be();
    #[expect(clippy::cast_possible_truncation, reason = "the upper and the lower half")]
    Some(((both >> 16) as u16, both as u16))
}

/// The flags of a fast-path gradient; none if the frame is too short.
#[must_use]
#[inline(always)]
pub fn flags(frame: &[u8]) -> u8 {
    frame.get(plain::FLAGS).copied().unwrap_or_default()
}

/// The priority of a fast-path gradient; 0 if the frame is too short.
///
/// Apart from [`Recognised`]: only a packet that opens a slot needs it.
#[must_use]
#[inline(always)]
pub fn priority(frame: &[u8]) -> u16 {
    frame.get(plain::PRIORITY).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// By element code: the bits of a payload length that must be zero. Undefined codes let no length pass but 0,
/// and so do those of blocks, whose size is no power of two: their packets are parsed as a whole.
const SIZE_MASK: [u16; 256] = {
    let mut mask = [u16::MAX; 256];
    let mut code = 0u8;
    loop {
        if let Some(Element { dtype, .. }) = Element::from_code(code)
            && !dtype.is_block()
        {
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

/// The IPv4 header checksum, where the sum of the addresses is known.
///
/// Ones' complement addition is addition modulo 65,535, in any byte order and with any number of 16-bit words
/// at a time (RFC 1071, section 2). The header is not all zeros, so no remainder means all ones.
#[inline(always)]
fn checksum_holds(first: u64, then: u32, addresses: u32) -> bool {
    let (sum, carry) = first.overflowing_add(u64::from(then) + u64::from(addresses));
    // No second carry: the sum has 33 bits.
    (sum + u64::from(carry)).is_multiple_of(0xffff)
}

/// Eight bytes as they lie.
#[inline(always)]
fn word(head: &[u8; HEADERS], at: usize) -> u64 {
    head[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// The same as the first half of sixteen bytes, which straddle the vectors of the compare: eight bytes out of
/// one such vector are four instructions and ten steps, where a shift across two registers is six steps (Zen
/// 3).
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
