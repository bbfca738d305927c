//! Each reason for refusing bytes, and the smallest change to a good packet that earns it.

use pascaline_wire::arp::Arp;
use pascaline_wire::control::Control;
use pascaline_wire::frame::protocol;
use pascaline_wire::{Address, Frame, Header, Malformed, Net, Trailer};

use crate::common::hex;

/// A gradient of two elements over IPv4. Offsets: Ethernet 0, IPv4 14, UDP 34, header 42, payload 64.
const GRADIENT: &str = "0200000000fe 020000000003 0800
    4500003a 00004000 40112519 0a4d0003 0a4d00fe
    c000 4024 0026 0000
    0301 0001 0001 0002 00000007 0004 0001 0000 0000 0001
    0000803f 000020c0";
const GRADIENT_IPV6: &str = "0200000000fe 020000000001 86dd
    60000000 0022 11 40 20010db8000000000000000000000001 20010db80000000000000000000000fe
    c000 4024 0022 0000
    0301 0001 0001 0000 00000002 0004 0001 0000 0000 0001
    0000c03f";
const ARP: &str = "0001 0800 06 04 0001 020000000001 0a4d0001 000000000000 0a4d00fe";
const JOIN: &str = "01 00 00 00 00000001 0000000000000001 0000000000000000 0400 0200 0000 00 00
    00000000 00000000 00000000 00000000 00000000 00000000 0000000000000000 0000000000000000";
const TRAILER: &str = "03 07 0001 0008 000003 08 18 0123456789abcdef 00112233445566778899aabbccddeeff 0025";

/// Down through all layers, as an appliance does for a packet to one of its own addresses.
fn verdict(bytes: &[u8]) -> Result<(), Malformed> {
    let ip = match Frame::parse(bytes)?.net {
        Net::Ip(ip) => ip,
        Net::OpaqueIp(_, why) => return Err(why),
        other => panic!("{other:?}"),
    };
    assert_eq!(ip.protocol, protocol::UDP);
    let datagram = ip.udp(bytes)?;
    let (header, body) = Header::parse(datagram.body)?;
    header.payload(body).map(drop)
}

/// The verdict on `text` with the bytes at `at` replaced.
fn changed(text: &str, at: usize, new: &[u8]) -> Result<(), Malformed> {
    let mut bytes = hex(text);
    assert_eq!(verdict(&bytes), Ok(()));
    assert_ne!(bytes[at..at + new.len()], *new, "a change");
    bytes[at..at + new.len()].copy_from_slice(new);
    verdict(&bytes)
}

fn truncated() {
    for (text, headers) in [(GRADIENT, 14 + 20), (GRADIENT_IPV6, 14 + 40)] {
        let bytes = hex(text);
        for len in 0..headers {
            assert_eq!(verdict(&bytes[..len]), Err(Malformed::Truncated), "{len} bytes");
        }
    }
    // A UDP datagram with 21 bytes of a header, and an IP packet with 7 of a UDP header.
    let header = &hex(GRADIENT)[42..64];
    assert_eq!(Header::parse(&header[..21]), Err(Malformed::Truncated));
    assert_eq!(changed(GRADIENT_IPV6, 18, &[0, 7]), Err(Malformed::Truncated));
    assert_eq!(Control::parse(&hex(JOIN)[..71]), Err(Malformed::Truncated));
    assert_eq!(Arp::parse(&hex(ARP)[..27]), Err(Malformed::Truncated));
    // A VLAN tag without its last byte.
    assert_eq!(Frame::parse(&hex("0200000000fe 020000000003 8100 000108")), Err(Malformed::Truncated));
}

fn vlan_depth() {
    let mut bytes = hex(GRADIENT);
    for (tags, expected) in [(1, Ok(())), (2, Ok(())), (3, Err(Malformed::VlanDepth))] {
        bytes.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
        assert_eq!(verdict(&bytes), expected, "{tags} tags");
    }
}

/// Holds R3.1 of protocol.md.
fn ip_header() {
    assert_eq!(changed(GRADIENT, 14, &[0x65]), Err(Malformed::IpHeader), "version 6 in IPv4");
    assert_eq!(changed(GRADIENT, 14, &[0x44]), Err(Malformed::IpHeader), "a header of 16 bytes");
    assert_eq!(changed(GRADIENT_IPV6, 14, &[0x40]), Err(Malformed::IpHeader), "version 4 in IPv6");
    let mapped = hex("00000000000000000000ffff0a4d0001");
    assert_eq!(changed(GRADIENT_IPV6, 22, &mapped), Err(Malformed::IpHeader), "from a mapped address");
    assert_eq!(changed(GRADIENT_IPV6, 38, &mapped), Err(Malformed::IpHeader), "to a mapped address");
    for (at, what) in
        [(1, "hardware"), (3, "protocol"), (4, "MAC length"), (5, "IP length"), (7, "operation")]
    {
        let mut bytes = hex(ARP);
        bytes[at] = 3;
        assert_eq!(Arp::parse(&bytes), Err(Malformed::IpHeader), "{what}");
    }
}

/// Holds R3.4 of protocol.md.
fn ip_options() {
    assert_eq!(changed(GRADIENT, 14, &[0x46]), Err(Malformed::IpOptions), "a header of 24 bytes");
    for extension in [0, 43, 51, 60, 135, 140] {
        assert_eq!(changed(GRADIENT_IPV6, 20, &[extension]), Err(Malformed::IpOptions), "{extension}");
    }
}

/// Holds R3.4 of protocol.md.
fn ip_fragment() {
    assert_eq!(changed(GRADIENT, 20, &[0x20, 0]), Err(Malformed::IpFragment), "more fragments");
    assert_eq!(changed(GRADIENT, 20, &[0, 1]), Err(Malformed::IpFragment), "the last fragment");
    assert_eq!(changed(GRADIENT, 20, &[0x10, 0]), Err(Malformed::IpFragment), "the offset's highest bit");
    assert_eq!(changed(GRADIENT_IPV6, 20, &[44]), Err(Malformed::IpFragment), "fragment header");
}

fn ip_checksum() {
    for bit in 0..16 {
        let bytes = (0x2519u16 ^ 1 << bit).to_be_bytes();
        assert_eq!(changed(GRADIENT, 24, &bytes), Err(Malformed::IpChecksum), "bit {bit}");
    }
}

/// Holds R3.2 of protocol.md.
fn length() {
    assert_eq!(changed(GRADIENT, 16, &[0, 0x3b]), Err(Malformed::Length), "IPv4 beyond the frame");
    assert_eq!(changed(GRADIENT, 16, &[0, 19]), Err(Malformed::Length), "IPv4 shorter than its header");
    assert_eq!(changed(GRADIENT_IPV6, 18, &[0, 0x23]), Err(Malformed::Length), "IPv6 beyond the frame");
    assert_eq!(changed(GRADIENT_IPV6, 18, &[0, 0x21]), Err(Malformed::Length), "IPv6 shorter than UDP");
    assert_eq!(changed(GRADIENT, 38, &[0, 0x25]), Err(Malformed::Length), "UDP shorter than IPv4");
    assert_eq!(changed(GRADIENT, 38, &[0, 0x27]), Err(Malformed::Length), "UDP longer than IPv4");
    assert_eq!(changed(GRADIENT, 38, &[0, 0]), Err(Malformed::Length), "UDP length 0");
}

fn version() {
    for version in [0, 1, 0xff] {
        assert_eq!(changed(GRADIENT, 42, &[version]), Err(Malformed::Version), "{version}");
    }
}

fn kind() {
    for kind in [0, 9, 0xff] {
        assert_eq!(changed(GRADIENT, 43, &[kind]), Err(Malformed::Kind), "{kind}");
    }
}

fn flags() {
    for flags in [0x40, 0x80] {
        assert_eq!(changed(GRADIENT, 44, &[flags]), Err(Malformed::Flags), "{flags:#x}");
    }
}

fn dtype() {
    for element in [0x00, 0x09, 0x0f, 0x41, 0xf1, 0x16, 0x26, 0x17, 0x27, 0x38] {
        assert_eq!(changed(GRADIENT, 45, &[element]), Err(Malformed::DType), "{element:#x}");
    }
}

/// Holds R7.3 of protocol.md.
fn payload_length() {
    let packet = [&hex(GRADIENT)[42..], &[0; 8]].concat();
    let with = |kind: u8, element: u8, len: usize| {
        let mut head = packet[..22].to_vec();
        head[1] = kind;
        head[3] = element;
        Header::parse(&head)?.0.payload(&packet[..len]).map(|(payload, _)| payload.len())
    };
    for kind in 1..=4 {
        for (element, size) in [(1, 4), (2, 4), (3, 2), (4, 2), (5, 8), (6, 33), (7, 33), (8, 4)] {
            for len in (0..=16).chain(32..=34) {
                let good = len > 0 && len % size == 0;
                let expected = if good { Ok(len) } else { Err(Malformed::PayloadLength) };
                assert_eq!(with(kind, element, len), expected, "kind {kind}, element {element}, {len} bytes");
            }
        }
    }
    assert_eq!(with(5, 1, 0), Ok(0), "an acknowledgement needs no elements");
    assert_eq!(with(5, 1, 3), Err(Malformed::PayloadLength));
    for kind in [6, 7] {
        assert_eq!(with(kind, 1, 0), Ok(0));
        assert_eq!(with(kind, 1, 4), Err(Malformed::PayloadLength));
    }
    assert_eq!(with(8, 1, 3), Ok(3), "a control body is no tensor");
}

/// Holds R8.1 and R8.2 of protocol.md.
fn trailer() {
    let good = hex(TRAILER);
    assert_eq!(Trailer::split(&good).map(|(payload, _)| payload.len()), Ok(0));
    let refused = |text: &str, why: &str| {
        assert_eq!(Trailer::split(&hex(text)), Err(Malformed::Trailer), "{why}");
    };
    refused("", "no length");
    refused("00", "half a length");
    refused("0000", "shorter than its own length field");
    refused("0001", "shorter than its own length field");
    refused("0003", "longer than the bytes left");
    refused("00 0003", "half an element header");
    refused("07 00 0004", "type 7");
    refused("05 00 0004", "operations without a value");
    let operation = "0001 01 00 00000007 0000000000000400";
    refused(&format!("05 10 {operation} 0014"), "one operation");
    refused(&format!("05 20 {operation} 0001 01 01 00000007 0000000000000400 0024"), "a reserved byte");
    refused(&format!("05 20 {operation} 0001 09 00 00000007 0000000000000400 0024"), "element type 9");
    let report = |state: u8, reserved: u8| {
        format!("0001 {state:02x} {reserved:02x} 00000000 00000000 c000 0000 {}", "00".repeat(16))
    };
    refused("06 00 0004", "no report");
    refused(&format!("06 1f {} 0023", &report(1, 0)[..report(1, 0).len() - 2]), "31 bytes of a report");
    refused(&format!("06 20 {} 0024", report(0, 0)), "state 0");
    refused(&format!("06 20 {} 0024", report(9, 0)), "state 9");
    refused(&format!("06 20 {} 0024", report(1, 1)), "a reserved byte");
    refused("00 00 0004", "type 0");
    refused("04 08 0123456789abcdef 000c", "a type of version 2");
    refused("02 0c 3f800000 00000000000001 000f", "an element longer than the bytes left");
    let seal = "08 18 0123456789abcdef 00112233445566778899aabbccddeeff";
    refused(&format!("{} 0019", &seal.replace("18", "17")[..seal.len() - 2]), "a seal of 23 bytes");
    refused("03 06 0001 0008 0003 000a", "a queue state of 6 bytes");
    refused("02 0b 3f800000 00000000000001 000f", "update data of 11 bytes");
    refused("01 00 0004", "a bitmap of no words");
    refused("01 07 00000000000001 000b", "a bitmap of 7 bytes");
    refused(&format!("01 88 {} 008c", "00".repeat(136)), "a bitmap of 17 words");
    refused(&format!("{seal} {seal} 0036"), "the same type twice");
    refused(&format!("{seal} 03 07 0001 0008 000003 0025"), "descending types");
    // A flag that announces a trailer where there is none.
    assert_eq!(changed(GRADIENT, 44, &[0x20]), Err(Malformed::Trailer));
}

/// Holds R7.3 of protocol.md.
fn control() {
    let good = hex(JOIN);
    assert_eq!(Control::parse(&good).map(|control| control.to_bytes().to_vec()), Ok(good.clone()));
    let with = |changes: &[(usize, u8)]| {
        let mut bytes = good.clone();
        changes.iter().for_each(|&(at, value)| bytes[at] = value);
        Control::parse(&bytes).map(drop)
    };
    let refused = Err(Malformed::Control);
    // Zeros make a Join as long as a full packet, and the Ack to it.
    let longer = |behind: &[u8]| Control::parse(&[good.as_slice(), behind].concat());
    assert_eq!(longer(&[0; 1000]), Control::parse(&good));
    assert_eq!(longer(&[0, 0, 1]).map(drop), refused, "a one behind zeros");
    let leave = [&[2], &good[1..], &[0]].concat();
    assert_eq!(Control::parse(&leave).map(drop), refused, "73 bytes of a Leave");
    let answer = |to: u8| Control::parse(&[&[8, 0, to], &good[3..], &[0]].concat()).map(drop);
    assert_eq!((answer(1), answer(2)), (Ok(()), refused), "of an Ack to a Join, and to a Leave");
    assert_eq!(with(&[(0, 0)]), refused, "action 0");
    assert_eq!(with(&[(0, 11)]), refused, "action 11");
    assert_eq!(with(&[(3, 9)]), refused, "element type 9");
    assert_eq!(with(&[(3, 0x16)]), refused, "the least of blocks");
    assert_eq!(with(&[(3, 0x38)]), refused, "a mean of integers that wrap");
    assert_eq!(with(&[(1, 1)]), refused, "a request with a status");
    assert_eq!(with(&[(2, 1)]), refused, "a request that answers");
    assert_eq!(with(&[(0, 8), (1, 22), (2, 10)]), Ok(()));
    assert_eq!(with(&[(0, 8), (1, 33)]), Ok(()));
    assert_eq!(with(&[(0, 8), (1, 35)]), refused, "status 35");
    assert_eq!(with(&[(0, 8), (2, 8)]), refused, "an answer to an answer");
    assert_eq!(with(&[(0, 8), (2, 11)]), refused, "an answer to action 11");
    assert_eq!(with(&[(30, 2)]), Ok(()), "it hears");
    assert_eq!(with(&[(30, 3)]), refused, "hearing 3");
    assert_eq!(with(&[(31, 4)]), Ok(()), "the last congestion control");
    assert_eq!(with(&[(31, 5)]), refused, "congestion control 5");
    assert_eq!(with(&[(68, 239)]), Ok(()), "the group 239.0.0.0");
    assert_eq!(with(&[(68, 10)]), refused, "10.0.0.0 is no group");
    assert_eq!(with(&[(65, 1), (68, 239)]), refused, "a group of more than 48 bits");
}

/// One test per reason, and the compiler's word that none is missing: the match has no wildcard.
macro_rules! one_test_per_reason {
    ($($test:ident: $reason:ident,)*) => {
        mod smallest_change {
            $(#[test] fn $test() { super::$test(); })*
        }

        #[test]
        fn every_reason_has_a_test_of_its_name() {
            let name = |reason| match reason { $(Malformed::$reason => stringify!($test),)* };
            for (position, reason) in Malformed::ALL.into_iter().enumerate() {
                assert_eq!(reason.name(), name(reason));
                assert_eq!(reason.to_string(), reason.name());
                assert_eq!(reason as usize, position, "the order of the discriminants");
            }
            assert_eq!(Malformed::ALL.len(), [$(Malformed::$reason),*].len());
        }
    };
}

one_test_per_reason! {
    truncated: Truncated,
    vlan_depth: VlanDepth,
    ip_header: IpHeader,
    ip_options: IpOptions,
    ip_fragment: IpFragment,
    ip_checksum: IpChecksum,
    length: Length,
    version: Version,
    kind: Kind,
    flags: Flags,
    dtype: DType,
    payload_length: PayloadLength,
    trailer: Trailer,
    control: Control,
}

/// Packets that look odd and are legal.
#[test]
fn accepted() {
    assert_eq!(
        changed(GRADIENT, 42 + 6, &[0xff, 0xff]),
        Ok(()),
        "a rank beyond the fan-in: the pool's to refuse"
    );
    assert_eq!(changed(GRADIENT, 40, &[0xde, 0xad]), Ok(()), "a wrong UDP checksum: the NIC's to refuse");
    assert_eq!(Trailer::split(&hex("0002")), Ok((&[][..], Trailer::default())), "a trailer of no elements");
    let opaque = {
        let mut bytes = hex(GRADIENT);
        bytes[14] = 0x46;
        Frame::parse(&bytes).map(|frame| frame.net)
    };
    let own = Address::from_v4([10, 77, 0, 254]);
    assert_eq!(opaque, Ok(Net::OpaqueIp(own, Malformed::IpOptions)), "forwarded, if it is for another host");
}
