//! The fast path says nothing that the ordinary parsers would not say.
#![allow(clippy::unwrap_used, reason = "a test helper that cannot go on should say where")]

use pascaline_wire::frame::{Address, Frame, Mac, Net, VlanTags};
use pascaline_wire::plain::{Compared, Expected, HEADERS, Lengths, Plain, job_and_rank};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Element, Flags, Header, Kind, UdpPorts};
use proptest::prelude::*;

const PATH: Path = Path {
    dst_mac: Mac([2, 0, 0, 0, 0, 1]),
    src_mac: Mac([2, 0, 0, 0, 0, 2]),
    vlan: VlanTags::NONE,
    dst: Address::from_v4([10, 77, 0, 254]),
    src: Address::from_v4([10, 77, 0, 1]),
    dst_port: FIRST_PORT,
    src_port: 40000,
};

/// A multiple of every number of ports that there may be.
const FIRST_PORT: u16 = 16_448;

const PORT: u32 = 3;

const ONE: UdpPorts = UdpPorts::single(FIRST_PORT);

/// A plain gradient frame.
fn frame(payload: &[u8], header: &Header) -> Vec<u8> {
    let mut bytes = vec![0xa5; HEADERS + payload.len()];
    let len = Template::new(&PATH).write(&mut bytes, header, payload).unwrap();
    bytes[len..].copy_from_slice(payload);
    bytes
}

fn expected() -> Expected {
    Expected::new(&PATH, &HEADER, PORT)
}

/// What an appliance with one UDP port makes of a frame.
fn read(expected: &Expected, bytes: &[u8], port: u32, most: u16) -> Option<Plain> {
    expected.read(bytes, &Compared::of(ONE), port, most, &mut { Lengths::NONE })
}

const HEADER: Header = Header {
    kind: Kind::Gradient,
    flags: Flags::RETRANSMISSION,
    element: Element::F32_SUM,
    job: 7,
    rank: 3,
    psn: 0xdead_beef,
    fan_in: 8,
    count: 1,
    priority: 9,
    wnd_cap: 10,
    tree: 11,
    epoch: 12,
};

/// What the ordinary parsers make of a frame, if it is a plain gradient of the expected member.
fn ordinary(bytes: &[u8], ports: UdpPorts) -> Option<Plain> {
    let frame = Frame::parse(bytes).ok()?;
    let Net::Ip(ip) = frame.net else { return None };
    let udp = (ip.protocol == 17).then(|| ip.udp(bytes))?.ok()?;
    let (header, rest) = Header::parse(&bytes[udp.body..udp.body + udp.body_len]).ok()?;
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
        && trailer.is_none();
    as_expected.then(|| Plain {
        psn: header.psn,
        element: header.element.code(),
        flags: header.flags.bits(),
        noteworthy: header.flags.has(Flags::OVERFLOW) || header.flags.has(Flags::RETRANSMISSION),
        payload_len: u16::try_from(payload.len()).unwrap(),
    })
}

#[test]
fn a_gradient_is_read() {
    let bytes = frame(&[1; 1024], &HEADER);
    let plain = read(&expected(), &bytes, PORT, u16::MAX).expect("plain");
    assert_eq!((plain.psn, plain.payload_len), (HEADER.psn, 1024));
    assert_eq!(pascaline_wire::plain::priority(&bytes), HEADER.priority);
    assert_eq!(pascaline_wire::plain::flags(&bytes), HEADER.flags.bits());
    assert_eq!(Some(plain), ordinary(&bytes, ONE));
    assert_eq!(job_and_rank(&bytes), Some((HEADER.job, HEADER.rank)));
}

#[test]
fn what_senders_choose_is_not_compared() {
    let other = Header { psn: 1, priority: 0, wnd_cap: 0, tree: 0, flags: Flags::OVERFLOW, ..HEADER };
    let mut bytes = frame(&[1; 16], &Header { element: Element::I32_SUM, ..other });
    bytes[6..12].fill(0x22);
    let plain = read(&expected(), &bytes, PORT, u16::MAX).expect("plain");
    assert!(plain.flags & Flags::OVERFLOW.bits() != 0);
    assert_eq!(plain.element, Element::I32_SUM.code());
}

#[test]
fn on_another_port_nothing_is_plain() {
    let bytes = frame(&[1; 8], &HEADER);
    assert_eq!(read(&expected(), &bytes, PORT + 1, u16::MAX), None);
    assert_eq!(read(&Expected::NONE, &bytes, PORT, u16::MAX), None);
    assert_eq!(read(&Expected::NONE, &bytes, 0, u16::MAX), None);
    assert_eq!(read(&Expected::NONE, &[0; HEADERS + 8], 0, u16::MAX), None);
    assert_eq!(read(&Expected::NONE, &[0xff; HEADERS + 8], 0, u16::MAX), None);
}

#[test]
fn every_port_of_the_appliance_is_as_good_and_no_other() {
    for count in [1, 2, 8, 64] {
        let ports = UdpPorts::new(FIRST_PORT, count).unwrap();
        for port in FIRST_PORT - 65..FIRST_PORT + 130 {
            let mut bytes = frame(&[1; 8], &HEADER);
            bytes[36..38].copy_from_slice(&port.to_be_bytes());
            // Whichever of them the worker joined at.
            for joined in [FIRST_PORT, FIRST_PORT + count - 1] {
                let expected = Expected::new(&Path { dst_port: joined, ..PATH }, &HEADER, PORT);
                let plain =
                    expected.read(&bytes, &Compared::of(ports), PORT, u16::MAX, &mut { Lengths::NONE });
                assert_eq!(plain.is_some(), ports.has(port), "{port} of {count}");
                assert_eq!(plain, ordinary(&bytes, ports));
            }
        }
    }
}

#[test]
fn more_than_may_be_is_not_plain() {
    let bytes = frame(&[1; 64], &HEADER);
    assert!(read(&expected(), &bytes, PORT, 64).is_some());
    for most in [0, 63] {
        assert_eq!(read(&expected(), &bytes, PORT, most), None);
    }
}

#[test]
fn ethernet_padding_is_ignored() {
    let mut bytes = frame(&[1; 8], &HEADER);
    bytes.extend([0; 40]);
    assert_eq!(read(&expected(), &bytes, PORT, u16::MAX).expect("plain").payload_len, 8);
}

#[test]
fn over_ipv6_or_with_a_tag_nothing_is_plain() {
    let mut vlan = VlanTags::NONE;
    assert!(vlan.push(0x8100, 5));
    let (src, dst) = (Address::from_v6([0xfd; 16]), Address::from_v6([0xfe; 16]));
    for path in [Path { vlan, ..PATH }, Path { src, dst, ..PATH }] {
        let mut bytes = [0; 256];
        let len = Template::new(&path).write(&mut bytes, &HEADER, &[1; 8]).unwrap();
        assert_eq!(read(&Expected::new(&path, &HEADER, PORT), &bytes[..len + 8], PORT, u16::MAX), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Any one to three bytes of the headers changed: both paths agree on what is left, bit for bit. With the checksum
    /// mended half of the time, so that what lies behind it is reached.
    #[test]
    fn both_paths_agree(
        changes in prop::collection::vec((prop_oneof![0usize..HEADERS, 36usize..38], any::<u8>()), 0..4),
        len in 0usize..20, cut in 0usize..4, mend in any::<bool>(), count in 0u32..7, after in any::<bool>(),
    ) {
        let mut bytes = frame(&vec![3; len * 4], &HEADER);
        // With what is remembered of the frame as it was, or of none.
        let mut lengths = Lengths::NONE;
        if after {
            let _ = expected().read(&bytes, &Compared::of(ONE), PORT, u16::MAX, &mut lengths);
        }
        for (at, value) in changes {
            bytes[at] = value;
        }
        if mend {
            bytes[24..26].fill(0);
            let sum = pascaline_wire::checksum::finish(pascaline_wire::checksum::sum(&bytes[14..34]));
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        let ports = UdpPorts::new(FIRST_PORT, 1 << count).unwrap();
        let read = expected().read(&bytes, &Compared::of(ports), PORT, u16::MAX, &mut lengths);
        prop_assert_eq!(read, ordinary(&bytes, ports));
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(plain) = read(&expected(), &bytes, PORT, u16::MAX) {
            prop_assert_eq!(Some(plain), ordinary(&bytes, ONE));
        }
    }
}
