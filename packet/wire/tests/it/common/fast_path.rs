//! Frames of one member, and what the ordinary parsers make of them: the fast path must say the same.
//!
//! Shared by the property tests and a fuzz target.

use pascaline_wire::fast_path::{Expected, HEADERS, Lengths, Mask, Recognised, Words};
use pascaline_wire::frame::{Address, Frame, Mac, Net, VlanTags};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Element, Flags, Header, Kind, Own, UdpPorts};

pub(crate) const PATH: Path = Path {
    dst_mac: Mac([2, 0, 0, 0, 0, 1]),
    src_mac: Mac([2, 0, 0, 0, 0, 2]),
    vlan: VlanTags::NONE,
    dst: Address::from_v4([10, 77, 0, 254]),
    src: Address::from_v4([10, 77, 0, 1]),
    dst_port: FIRST_PORT,
    src_port: 40000,
    class: 0,
};

/// A multiple of every number of ports that there may be.
pub(crate) const FIRST_PORT: u16 = 16_448;

pub(crate) const PORT: u32 = 3;

/// A fast-path gradient.
pub(crate) fn frame(payload: &[u8], header: &Header) -> Vec<u8> {
    let mut bytes = vec![0xa5; HEADERS + payload.len()];
    let len = Template::new(&PATH).write(&mut bytes, header, payload).unwrap();
    bytes[len..].copy_from_slice(payload);
    bytes
}

pub(crate) fn expected() -> Expected {
    Expected::new(&PATH, &HEADER, PORT)
}

pub(crate) const HEADER: Header = Header {
    kind: Kind::Gradient,
    flags: Flags::RETRANSMISSION,
    element: Element::F32_SUM,
    job: 7,
    rank: 3,
    psn: 0xdead_beef,
    fan_in: 8,
    count: 1,
    own: Own::sum(9, 10),
    epoch: 12,
};

/// What the ordinary parsers make of a frame, if the fast path takes it from the expected member.
pub(crate) fn ordinary(bytes: &[u8], ports: UdpPorts) -> Option<Recognised> {
    let frame = Frame::parse(bytes).ok()?;
    let Net::Ip(ip) = frame.net else { return None };
    let udp = (ip.protocol == 17).then(|| ip.udp(bytes))?.ok()?;
    let (header, rest) = Header::parse(udp.body).ok()?;
    let (payload, trailer) = header.payload(rest).ok()?;
    let as_expected = frame.vlan == VlanTags::NONE
        && frame.dst == PATH.dst_mac
        && (ip.src, ip.dst) == (PATH.src, PATH.dst)
        && udp.src_port == PATH.src_port
        && ports.has(udp.dst_port)
        && header.kind == Kind::Gradient
        && (header.job, header.rank, header.epoch) == (HEADER.job, HEADER.rank, HEADER.epoch)
        && (header.fan_in, header.count) == (HEADER.fan_in, HEADER.count)
        && !header.flags.has(Flags::BYPASS)
        // Marked packets, and those that differ from them by one bit, are noted elsewhere.
        && ip.ecn & 1 == 0
        && !header.flags.has(Flags::ECN_ECHO)
        && trailer.is_none();
    as_expected.then(|| Recognised {
        psn: header.psn,
        element: header.element.code(),
        flags: header.flags.bits(),
        noteworthy: header.flags.has(Flags::OVERFLOW) || header.flags.has(Flags::RETRANSMISSION),
        payload_len: u16::try_from(payload.len()).unwrap(),
    })
}

/// Both paths agree on a frame, whatever is remembered of those before it.
///
/// # Panics
/// If they do not.
pub(crate) fn agree(bytes: &[u8], ports: UdpPorts, lengths: &mut Lengths) {
    let read = expected().recognise(bytes, &Mask::of(ports), PORT, u16::MAX, lengths);
    assert_eq!(read, ordinary(bytes, ports));
    if let Some(said) = read {
        let last = if said.flags & Flags::FIN.bits() != 0 { Element::LAST } else { 0 };
        assert_eq!(*lengths.words(), Words::new(said.element | last, said.payload_len, said.noteworthy));
    }
}
