//! The plain case in one pass: a gradient in untagged IPv4, all of whose headers fill the first 64 bytes.
//!
//! This is what nearly every packet of a job looks like, and most of it is known beforehand: who sends to whom, which
//! job, rank, fan-in and generation. So an [`Expected`] line of 64 bytes is made once per member, and a packet is checked
//! by one masked comparison instead of field by field. Whatever is not exactly as expected is left to the ordinary
//! parsers, which find out what it is.

use crate::frame::{IPV4_LEN, UDP_LEN, protocol};
use crate::header::{self, Element, Flags, Header, Kind};
use crate::template::{Path, Template};

/// Length of the headers before the payload.
pub const HEADERS: usize = 14 + IPV4_LEN + UDP_LEN + header::LEN;

/// What is compared, byte by byte: not the source MAC (it may change with the route), not the fields of IPv4 and UDP
/// that senders choose, not lengths and checksums (checked by arithmetic), and of the aggregation header not flags,
/// element, PSN, priority, `wnd_cap` and tree.
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
    mask
};

/// The first 64 bytes of a member's gradients, as far as they are known.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Expected {
    line: [u64; HEADERS / 8],
    possible: bool,
}

/// What a plain gradient says beyond what was expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Packet sequence number.
    pub psn: u32,
    /// Element type and operation, as their code; defined.
    pub element: u8,
    /// An element has saturated on the way.
    pub overflow: bool,
    /// Length of the payload, which begins at [`HEADERS`]: a whole number of elements, at least one.
    pub payload_len: u16,
}

impl Expected {
    /// What gradients on this path (from the worker to the appliance) with this job, rank, fan-in, count and epoch
    /// look like. Over IPv6 or with VLAN tags none is plain.
    #[must_use]
    pub fn new(path: &Path, header: &Header) -> Self {
        let mut bytes = [0; HEADERS];
        let possible = header.kind == Kind::Gradient
            && Template::new(path).write(&mut bytes, header, &[]) == Ok(HEADERS);
        Self { line: core::array::from_fn(|at| word(&bytes, at) & word(&COMPARED, at)), possible }
    }

    /// Reads a frame, if it is a plain gradient that is as expected: everything that
    /// [`Frame::parse`](crate::Frame::parse), [`Ip::udp`](crate::frame::Ip::udp), [`Header::parse`] and
    /// [`Header::payload`] check has been checked. `None` says nothing about the frame.
    #[must_use]
    #[inline(always)]
    pub fn read(&self, frame: &[u8]) -> Option<Plain> {
        const QUIET: u8 = Flags::RETRANSMISSION.bits() | Flags::OVERFLOW.bits() | Flags::FIN.bits();
        const QUIET_OR_ECHO: u8 = QUIET | Flags::ECN_ECHO.bits();
        let head = frame.first_chunk::<HEADERS>()?;
        let line: [u64; HEADERS / 8] = zerocopy::transmute!(*head);
        let mut different = 0;
        for ((there, mask), here) in line.iter().zip(const { &MASK }).zip(&self.line) {
            different |= (there & mask) ^ here;
        }
        let total = u32::from(be16(head, 16));
        let udp_len = u32::from(be16(head, 38));
        let (flags, element) = (head[44], head[45]);
        let payload_len = be16(head, 38).wrapping_sub(30);
        // All doubts are collected in one word: one branch that is never taken, instead of eight.
        different |= u64::from(total ^ (udp_len + 20))
            | u64::from(flags & !QUIET_OR_ECHO)
            | u64::from(payload_len & SIZE_MASK[usize::from(element & 0x0f)])
            | u64::from(element & 0xc0)
            | u64::from(element >> 4 == 3);
        let plain = self.possible
            && different == 0
            && udp_len > 30
            && total as usize <= frame.len() - 14
            && checksum_holds(head);
        plain.then(|| Plain {
            psn: u32::from_be_bytes([head[50], head[51], head[52], head[53]]),
            element,
            overflow: flags & Flags::OVERFLOW.bits() != 0,
            payload_len,
        })
    }
}

/// The job and rank that a frame would have if it were plain; `None` only if it is too short.
#[must_use]
#[inline(always)]
pub fn job_and_rank(frame: &[u8]) -> Option<(u16, u16)> {
    let head = frame.first_chunk::<HEADERS>()?;
    Some((be16(head, 46), be16(head, 48)))
}

const MASK: [u64; HEADERS / 8] = {
    let mut mask = [0; HEADERS / 8];
    let mut at = 0;
    while at < HEADERS / 8 {
        mask[at] = word(&COMPARED, at);
        at += 1;
    }
    mask
};

/// By element type: the bits of a payload length that must be zero. Undefined types let no length pass but 0.
const SIZE_MASK: [u16; 16] = {
    let mut mask = [u16::MAX; 16];
    let mut code = 0;
    while code < 16 {
        if let Some(Element { dtype, .. }) = Element::from_code(code) {
            #[expect(clippy::cast_possible_truncation, reason = "2, 4 or 8")]
            let size = dtype.size() as u16;
            mask[code as usize] = size - 1;
        }
        code += 1;
    }
    mask
};

const _: () = assert!(COMPARED[23] == 0xff && protocol::UDP == 17);

#[inline(always)]
const fn word(bytes: &[u8; HEADERS], at: usize) -> u64 {
    let b = at * 8;
    u64::from_ne_bytes([
        bytes[b],
        bytes[b + 1],
        bytes[b + 2],
        bytes[b + 3],
        bytes[b + 4],
        bytes[b + 5],
        bytes[b + 6],
        bytes[b + 7],
    ])
}

/// The IPv4 header checksum: its sum does not depend on the byte order of the words.
#[inline(always)]
fn checksum_holds(head: &[u8; HEADERS]) -> bool {
    let word =
        |at: usize| u64::from(u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let sum = word(14) + word(18) + word(22) + word(26) + word(30);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

#[inline(always)]
fn be16(head: &[u8; HEADERS], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}
