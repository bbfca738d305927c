//! What the appliance answers for its own address, against packets written out by hand.

use pascaline_wire::arp::{self, Arp};
use pascaline_wire::frame::{Ip, protocol};
use pascaline_wire::icmp::{self, Icmp};
use pascaline_wire::{Address, Frame, Mac, Malformed, Net, NoRoom, neighbour};

use crate::common::{self, hex};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 1]);

const SOLICITATION: &str = "
    3333ff0000fe 020000000001 86dd
    60000000 0020 3a ff 20010db8000000000000000000000001 ff0200000000000000000001ff0000fe
    8700 1a2f 00000000 20010db80000000000000000000000fe 0101 020000000001";

fn ip(frame: &[u8]) -> (Frame, Ip) {
    match Frame::parse(frame) {
        Ok(frame @ Frame { net: Net::Ip(ip), .. }) => (frame, ip),
        other => panic!("{other:?}"),
    }
}

fn echo(mut frame: Vec<u8>) -> Vec<u8> {
    let (layers, ip) = ip(&frame);
    assert_eq!(layers.src, PEER);
    assert_eq!(Icmp::parse(&frame, &ip), Ok(Icmp::Echo));
    assert_eq!(icmp::answer_echo_in_place(&mut frame, layers.l3, &ip, OWN), Ok(()));
    frame
}

/// With its checksums.
fn sealed(mut frame: Vec<u8>, v6: bool) -> Vec<u8> {
    let l4 = if v6 { 54 } else { 34 };
    let sum = if v6 {
        common::slow_checksum_v6(&frame[14..54], protocol::ICMPV6, &frame[l4..])
    } else {
        let sum = common::slow_checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        common::slow_checksum(&[&frame[l4..]])
    };
    frame[l4 + 2..l4 + 4].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A host says that no program has a port, and quotes the packet that was for it.
#[test]
fn port_unreachable_quotes_a_udp_packet() {
    let v4 = hex("0200000000fe 020000000001 0800
        4500 003c 0000 0000 40 01 0000 0a4d0001 0a4d00fe 0303 0000 00000000
        4500 0020 0000 4000 3f 11 0000 0a4d00fe 0a4d0001 4024 0fa0 000c 0000 a1b2c3d4");
    let v6 = hex("0200000000fe 020000000001 86dd
        60000000 003c 3a 40 20010db8000000000000000000000001 20010db80000000000000000000000fe
        0104 0000 00000000
        60000000 000c 11 3f 20010db80000000000000000000000fe 20010db8000000000000000000000001
        4024 0fa0 000c 0000 a1b2c3d4");
    for (is_v6, frame) in [(false, v4), (true, v6)] {
        let parsed = |frame: Vec<u8>| {
            let frame = sealed(frame, is_v6);
            Icmp::parse(&frame, &ip(&frame).1)
        };
        let (l4, code, protocol) = if is_v6 { (54, 4, 6) } else { (34, 3, 9) };
        let (_, by) = ip(&sealed(frame.clone(), is_v6));
        let Ok(Icmp::PortUnreachable(quoted)) = parsed(frame.clone()) else { panic!("{:?}", parsed(frame)) };
        assert_eq!((quoted.src, quoted.dst, quoted.dst_port), (by.dst, by.src, 4000));
        assert_eq!(frame[quoted.payload..], [0xa1, 0xb2, 0xc3, 0xd4]);
        // Another code, another protocol, and for IPv4 options in the quoted packet.
        for (at, value) in [(l4 + 1, code - 1), (l4 + 8 + protocol, 6), (l4 + 8, 0x46)] {
            let mut other = frame.clone();
            other[at] = value;
            let expected = is_v6 && at == l4 + 8;
            assert_eq!(parsed(other) != Ok(Icmp::Other), expected, "byte {at}");
        }
    }
}

#[test]
fn arp_request_becomes_its_reply_and_padding_stays() {
    let mut frame = hex("ffffffffffff 020000000001 0806
        0001 0800 06 04 0001 020000000001 0a4d0001 000000000000 0a4d00fe a5a5a5a5");
    let reply = hex("020000000001 0200000000fe 0806
        0001 0800 06 04 0002 0200000000fe 0a4d00fe 020000000001 0a4d0001 a5a5a5a5");
    let Ok(Frame { l3, net: Net::Arp, .. }) = Frame::parse(&frame) else { panic!("not ARP") };
    let request = Arp::parse(&frame[l3..]).unwrap();
    assert_eq!(arp::answer_in_place(&mut frame, l3, &request, OWN), Ok(()));
    assert_eq!(frame, reply);
    for len in [0, 11, 41] {
        assert_eq!(arp::answer_in_place(&mut frame[..len], l3, &request, OWN), Err(NoRoom));
    }
}

#[test]
fn arp_request_in_a_vlan_is_answered_in_it() {
    let mut frame = hex("ffffffffffff 020000000001 8100 0064 0806
        0001 0800 06 04 0001 020000000001 0a4d0001 000000000000 0a4d00fe");
    let reply = hex("020000000001 0200000000fe 8100 0064 0806
        0001 0800 06 04 0002 0200000000fe 0a4d00fe 020000000001 0a4d0001");
    let request = Arp::parse(&frame[18..]).unwrap();
    assert_eq!(arp::answer_in_place(&mut frame, 18, &request, OWN), Ok(()));
    assert_eq!(frame, reply);
}

/// An odd length, a TTL of 63 that becomes 64, an identification that stays.
#[test]
fn echo_over_ipv4() {
    let request = hex("0200000000fe 020000000001 0800
        4500 0025 1234 4000 3f01 140c 0a4d0001 0a4d00fe
        0800 7768 1c46 0001 101112131415161718 a5a5");
    let reply = hex("020000000001 0200000000fe 0800
        4500 0025 1234 4000 4001 130c 0a4d00fe 0a4d0001
        0000 7f68 1c46 0001 101112131415161718 a5a5");
    assert_eq!(echo(request), reply);
}

#[test]
fn echo_over_ipv6_in_a_vlan() {
    let request = hex("0200000000fe 020000000001 8100 0064 86dd
        60000000 0010 3a 3d 20010db8000000000000000000000001 20010db80000000000000000000000fe
        8000 baac 1c46 0001 1011121314151617");
    let reply = hex("020000000001 0200000000fe 8100 0064 86dd
        60000000 0010 3a 40 20010db80000000000000000000000fe 20010db8000000000000000000000001
        8100 b9ac 1c46 0001 1011121314151617");
    assert_eq!(echo(request), reply);
}

/// The one message whose sum is zero in both senses: an incremental checksum update gets it wrong.
#[test]
fn echo_of_zeros() {
    let request = hex("0200000000fe 020000000001 0800
        4500 0025 1234 4000 3f01 140c 0a4d0001 0a4d00fe
        0800 f7ff 0000 0000 000000000000000000");
    assert_eq!(echo(request)[34..38], [0, 0, 0xff, 0xff]);
}

#[test]
fn echo_with_a_wrong_checksum_is_refused() {
    let mut frame = hex("0200000000fe 020000000001 0800
        4500 001c 1234 4000 3f01 1415 0a4d0001 0a4d00fe
        0800 f7ff 0000 0000");
    let (_, ip) = ip(&frame);
    assert_eq!(Icmp::parse(&frame, &ip), Ok(Icmp::Echo));
    for at in 34..42 {
        frame[at] ^= 4;
        assert_eq!(Icmp::parse(&frame, &ip), Err(Malformed::IpChecksum), "byte {at}");
        frame[at] ^= 4;
    }
}

/// ICMPv6 behind IPv4 and ICMP behind IPv6 mean nothing: answering would write one version's addresses into
/// the other's header.
#[test]
fn icmp_of_the_other_version_is_not_answered() {
    let v4 = hex("0200000000fe 020000000001 0800
        4500 001c 1234 4000 3f3a 13dc 0a4d0001 0a4d00fe
        8000 0000 0000 0000");
    let v6 = hex("0200000000fe 020000000001 86dd
        60000000 0008 01 3d 20010db8000000000000000000000001 20010db80000000000000000000000fe
        0800 f7ff 0000 0000");
    for frame in [v4, v6] {
        let (_, ip) = ip(&frame);
        assert_eq!(Icmp::parse(&frame, &ip), Ok(Icmp::Other));
    }
}

#[test]
fn solicitation_names_its_target() {
    let frame = hex(SOLICITATION);
    let (_, ip) = ip(&frame);
    let target = Address::from_v6(frame[62..78].try_into().unwrap());
    assert_eq!(target.to_string(), "2001:db8::fe");
    assert_eq!(Icmp::parse(&frame, &ip), Ok(Icmp::Solicitation(target)));
}

/// The hop limit is not part of the checksum, so this is all that tells.
#[test]
fn solicitation_through_a_router_is_not_answered() {
    let mut frame = hex(SOLICITATION);
    frame[14 + 7] = 254;
    let (_, ip) = ip(&frame);
    assert_eq!(Icmp::parse(&frame, &ip), Ok(Icmp::Other));
}

/// Who asks is asked back in the same way: what is written is what is read.
#[test]
fn solicitation_is_written_as_it_is_read() {
    let expected = hex(SOLICITATION);
    let (frame, ip) = ip(&expected);
    let target = Address::from_v6(expected[62..78].try_into().unwrap());
    let mut out = vec![0xa5; neighbour::LEN];
    assert_eq!(neighbour::ask(&mut out, frame.src, ip.src, target), Ok(out.len()));
    assert_eq!(out, expected[..out.len()]);
    assert_eq!(neighbour::ask(&mut out[..85], frame.src, ip.src, target), Err(NoRoom));
}

#[test]
fn arp_request_is_written_as_it_is_read() {
    let expected = hex("ffffffffffff 020000000001 0806
        0001 0800 06 04 0001 020000000001 0a4d0001 000000000000 0a4d00fe");
    let [asker, target] = [[10, 77, 0, 1], [10, 77, 0, 254]].map(Address::from_v4);
    let mut out = vec![0xa5; arp::FRAME_LEN];
    assert_eq!(neighbour::ask(&mut out, PEER, asker, target), Ok(expected.len()));
    assert_eq!(out, expected);
    assert_eq!(neighbour::ask(&mut out[..41], PEER, asker, target), Err(NoRoom));
}

#[test]
fn advertisement() {
    let [own, asker, unspecified] = ["2001:db8::fe", "2001:db8::1", "::"]
        .map(|text| Address::from(text.parse::<std::net::IpAddr>().unwrap()));
    let solicited = hex("60000000 0020 3a ff
        20010db80000000000000000000000fe 20010db8000000000000000000000001
        8800 877d 60000000 20010db80000000000000000000000fe 0201 0200000000fe a5");
    // To a host that is still checking whether its address is free, hence has none: all nodes.
    let to_all = hex("60000000 0020 3a ff
        20010db80000000000000000000000fe ff020000000000000000000000000001
        8800 f633 20000000 20010db80000000000000000000000fe 0201 0200000000fe a5");
    for (asker, expected) in [(asker, solicited), (unspecified, to_all)] {
        let mut out = [0xa5; icmp::ADVERTISEMENT_PACKET_LEN + 1];
        assert_eq!(icmp::write_advertisement(&mut out, own, OWN, asker), Ok(()));
        assert_eq!(out, *expected);
        assert_eq!(common::slow_checksum_v6(&out[..40], protocol::ICMPV6, &out[40..72]), 0);
        let framed = [&hex("0200000000010200000000fe86dd")[..], &out[..72]].concat();
        let read = |frame: &[u8]| Icmp::parse(frame, &ip(frame).1);
        assert_eq!(read(&framed), Ok(Icmp::Advertisement(own, OWN)));
        // By a router, which the checksum does not see; and without a target's address.
        for (at, value, checksum) in [(14 + 7, 254, 0), (14 + 64, 1, 1)] {
            let mut other = framed.clone();
            other[at] = value;
            other[14 + 42] += checksum;
            assert_eq!(read(&other), Ok(Icmp::Other), "byte {at}");
        }
        let short = &mut out[..icmp::ADVERTISEMENT_PACKET_LEN - 1];
        assert_eq!(icmp::write_advertisement(short, own, OWN, asker), Err(NoRoom));
    }
}

/// The checksum is that of the advertisement to all nodes above.
#[test]
fn own_addresses_are_announced_to_all() {
    let mut out = vec![0xa5; neighbour::LEN];
    let v4 = Address::from_v4([10, 77, 0, 254]);
    let expected = hex("ffffffffffff 0200000000fe 0806
        0001 0800 06 04 0001 0200000000fe 0a4d00fe 000000000000 0a4d00fe");
    assert_eq!(neighbour::announce(&mut out, OWN, v4), Ok(expected.len()));
    assert_eq!(out[..expected.len()], expected);
    let v6 = Address::from("2001:db8::fe".parse::<std::net::IpAddr>().unwrap());
    let expected = hex("333300000001 0200000000fe 86dd 60000000 0020 3a ff
        20010db80000000000000000000000fe ff020000000000000000000000000001
        8800 f633 20000000 20010db80000000000000000000000fe 0201 0200000000fe");
    assert_eq!(neighbour::announce(&mut out, OWN, v6), Ok(neighbour::LEN));
    assert_eq!(out, expected);
    for short in [0, 13, neighbour::LEN - 1] {
        assert_eq!(neighbour::announce(&mut out[..short], OWN, v6), Err(NoRoom));
    }
    assert_eq!(neighbour::announce(&mut out[..arp::FRAME_LEN - 1], OWN, v4), Err(NoRoom));
}
