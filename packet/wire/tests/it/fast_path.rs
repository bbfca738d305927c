//! The fast path says nothing that the ordinary parsers would not say.

use pascaline_wire::fast_path::{self, Expected, HEADERS, Lengths, Mask, Recognised, job_and_rank};
use pascaline_wire::frame::{Address, VlanTags};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Element, Flags, Header, Own, UdpPorts};
use proptest::prelude::*;

use crate::common::fast_path::{FIRST_PORT, HEADER, PATH, PORT, agree, expected, frame, ordinary};
use crate::common::invariants::mend;

const ONE: UdpPorts = UdpPorts::single(FIRST_PORT);

/// What an appliance with one UDP port makes of a frame.
fn read(expected: &Expected, bytes: &[u8], port: u32, most: u16) -> Option<Recognised> {
    expected.recognise(bytes, &Mask::of(ONE), port, most, &mut { Lengths::NONE })
}

#[test]
fn a_gradient_is_read() {
    let bytes = frame(&[1; 1024], &HEADER);
    let plain = read(&expected(), &bytes, PORT, u16::MAX).expect("plain");
    assert_eq!((plain.psn, plain.payload_len), (HEADER.psn, 1024));
    assert_eq!(fast_path::priority(&bytes), HEADER.own.priority());
    assert_eq!(fast_path::flags(&bytes), HEADER.flags.bits());
    assert_eq!(Some(plain), ordinary(&bytes, ONE));
    assert_eq!(job_and_rank(&bytes), Some((HEADER.job, HEADER.rank)));
}

#[test]
fn what_senders_choose_is_not_compared() {
    let other = Header { psn: 1, own: Own::NONE, flags: Flags::OVERFLOW, ..HEADER };
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
                    expected.recognise(&bytes, &Mask::of(ports), PORT, u16::MAX, &mut { Lengths::NONE });
                assert_eq!(plain.is_some(), ports.has(port), "{port} of {count}");
                assert_eq!(plain, ordinary(&bytes, ports));
            }
        }
    }
}

/// Where packets are known by their DSCP, no other one is on the fast path; where they are not, any is.
#[test]
fn the_dscp_counts_where_it_is_asked_for() {
    for dscp in 0..64 {
        let path = Path { class: dscp << 2, ..PATH };
        let mut bytes = [0; HEADERS + 8];
        let len = Template::new(&path).write(&mut bytes, &HEADER, &[1; 8]).unwrap();
        assert_eq!(len, HEADERS);
        for (asked, mask) in [(false, Mask::of(ONE)), (true, Mask::by_dscp(ONE))] {
            let expected = Expected::new(&Path { class: 46 << 2, ..PATH }, &HEADER, PORT);
            let read = expected.recognise(&bytes, &mask, PORT, u16::MAX, &mut { Lengths::NONE });
            assert_eq!(read.is_some(), !asked || dscp == 46, "{dscp}, asked: {asked}");
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

    /// Any one to three bytes of the headers changed: both paths agree on what is left, bit for bit. With the
    /// checksum mended half of the time, so that what lies behind it is reached.
    #[test]
    fn both_paths_agree(
        changes in prop::collection::vec((prop_oneof![0usize..HEADERS, 36usize..38], any::<u8>()), 0..4),
        (len, cut, count) in (0usize..20, 0usize..4, 0u32..7),
        (mended, after) in any::<(bool, bool)>(),
    ) {
        let mut bytes = frame(&vec![3; len * 4], &HEADER);
        // With what is remembered of the frame as it was, or of none.
        let mut lengths = Lengths::NONE;
        if after {
            let _ = expected().recognise(&bytes, &Mask::of(ONE), PORT, u16::MAX, &mut lengths);
        }
        for (at, value) in changes {
            bytes[at] = value;
        }
        if mended {
            mend(&mut bytes);
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        agree(&bytes, UdpPorts::new(FIRST_PORT, 1 << count).unwrap(), &mut lengths);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(plain) = read(&expected(), &bytes, PORT, u16::MAX) {
            prop_assert_eq!(Some(plain), ordinary(&bytes, ONE));
        }
    }
}
