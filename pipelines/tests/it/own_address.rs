//! What the appliance answers in its own name, and what only passes through it.

use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{OWN_V4, OWN_V6, UDP_PORT, Worker, port_mac};
use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::checksum;
use pascaline_wire::frame::{Address, Frame, Mac, Net, protocol};

use crate::common::appliance::{Bench, Plan};

const ASKER: Mac = Mac([2, 0, 0, 0, 0, 9]);
const ASKER_V4: Address = Address::from_v4([10, 77, 0, 9]);
const OTHER_V4: Address = Address::from_v4([10, 77, 0, 77]);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x77]);
const TAG: [u8; 4] = [0x81, 0, 0xa0, 0x64];

fn asker_v6() -> Address {
    v6(9)
}

fn v6(last: u8) -> Address {
    let mut octets = OWN_V6.octets();
    octets[15] = last;
    Address::from_v6(octets)
}

fn ethernet(dst: Mac, tags: &[u8], ethertype: u16, rest: &[u8]) -> Vec<u8> {
    [&dst.0[..], &ASKER.0, tags, &ethertype.to_be_bytes(), rest].concat()
}

fn arp(dst: Mac, operation: Operation, target: Address) -> Vec<u8> {
    let mut packet = [0; 28];
    let (sender_ip, target_ip) = (ASKER_V4.as_v4().unwrap(), target.as_v4().unwrap());
    Arp { operation, sender_mac: ASKER, sender_ip, target_mac: Mac([0; 6]), target_ip }
        .emit(&mut packet)
        .unwrap();
    let mut frame = ethernet(dst, &TAG, 0x0806, &packet);
    frame.resize(64, 0);
    frame
}

fn ip(src: Address, dst: Address, proto: u8, ttl: u8, message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    let (Some(from), Some(to)) = (src.as_v4(), dst.as_v4()) else {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(&[proto, ttl]);
        return [&packet[..], &src.octets(), &dst.octets(), message].concat();
    };
    let mut header = vec![0x45, 0];
    header.extend_from_slice(&(length + 20).to_be_bytes());
    header.extend_from_slice(&[0, 1, 0, 0, ttl, proto, 0, 0]);
    header.extend_from_slice(&from);
    header.extend_from_slice(&to);
    let sum = checksum::finish(checksum::sum(&header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&header[..], message].concat()
}

/// An ICMP message of the version that fits the addresses, with its checksum.
fn icmp(src: Address, dst: Address, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0][..], rest].concat();
    let v6 = src.as_v4().is_none();
    let proto = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let length = u32::try_from(message.len()).unwrap();
    let pseudo = if v6 { checksum::pseudo_header(src, dst, proto, length) } else { 0 };
    let sum = checksum::finish(pseudo + checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(src, dst, proto, 255, &message)
}

fn echo(dst_mac: Mac, src: Address, dst: Address) -> Vec<u8> {
    let (kind, ethertype) = if src.as_v4().is_some() { (8, 0x0800) } else { (128, 0x86dd) };
    ethernet(dst_mac, &TAG, ethertype, &icmp(src, dst, kind, b"\x12\x34\0\x01what comes back"))
}

fn solicitation(target: Address) -> Vec<u8> {
    let octets = target.octets();
    let group =
        Address::from_v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, octets[13], octets[14], octets[15]]);
    let mac = Mac([0x33, 0x33, 0xff, octets[13], octets[14], octets[15]]);
    let rest = [&[0; 4][..], &octets, &[1, 1], &ASKER.0].concat();
    ethernet(mac, &TAG, 0x86dd, &icmp(asker_v6(), group, 135, &rest))
}

/// Feeds a frame to port 0 of an inline appliance: what port 0 answers, and what goes on to port 1.
fn pass(frame: &Vec<u8>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut bench = Bench::new(&Plan::inline());
    bench.feed(0, [frame]);
    let (answers, forwarded) = (bench.io().sent(0), bench.io().sent(1));
    assert_eq!(bench.appliance.get(Counter::Answered), answers.len() as u64);
    assert_eq!(bench.appliance.get(Counter::Forwarded), forwarded.len() as u64);
    bench.end();
    (answers, forwarded)
}

fn answer(frame: &Vec<u8>) -> Vec<u8> {
    let (mut answers, forwarded) = pass(frame);
    assert!(forwarded.is_empty(), "what is answered is not forwarded");
    assert_eq!(answers.len(), 1);
    let answer = answers.remove(0);
    assert_eq!((&answer[..6], &answer[6..12]), (&ASKER.0[..], &port_mac(0).0[..]));
    assert_eq!(answer[12..16], TAG, "on the VLAN that it came from");
    answer
}

#[test]
fn arp_requests_for_the_own_address_are_answered_with_the_ports_mac() {
    for dst in [Mac::BROADCAST, port_mac(0)] {
        let request = arp(dst, Operation::Request, OWN_V4);
        let answer = answer(&request);
        assert_eq!(answer.len(), request.len());
        let reply = Arp::parse(&answer[18..]).unwrap();
        let expected = Arp {
            operation: Operation::Reply,
            sender_mac: port_mac(0),
            sender_ip: OWN_V4.as_v4().unwrap(),
            target_mac: ASKER,
            target_ip: ASKER_V4.as_v4().unwrap(),
        };
        assert_eq!(reply, expected);
    }
}

#[test]
fn echo_requests_are_answered_with_what_they_carried() {
    for (src, dst) in [(ASKER_V4, OWN_V4), (asker_v6(), OWN_V6)] {
        let request = echo(port_mac(0), src, dst);
        let answer = answer(&request);
        let Net::Ip(ip) = Frame::parse(&answer).unwrap().net else { panic!("not IP") };
        assert_eq!((ip.src, ip.dst), (dst, src));
        let message = &answer[ip.l4..];
        let v6 = src.as_v4().is_none();
        assert_eq!(message[0], if v6 { 129 } else { 0 });
        assert_eq!(message[4..], request[ip.l4 + 4..]);
        let length = u32::try_from(message.len()).unwrap();
        let pseudo = if v6 { checksum::pseudo_header(dst, src, protocol::ICMPV6, length) } else { 0 };
        assert_eq!(checksum::finish(pseudo + checksum::sum(message)), 0);
    }
}

#[test]
fn solicitations_of_the_own_address_are_answered_with_an_advertisement() {
    let answer = answer(&solicitation(OWN_V6));
    let Net::Ip(ip) = Frame::parse(&answer).unwrap().net else { panic!("not IP") };
    assert_eq!((ip.src, ip.dst, ip.protocol), (OWN_V6, asker_v6(), protocol::ICMPV6));
    let message = &answer[ip.l4..];
    assert_eq!(message.len(), 32);
    assert_eq!((message[0], message[4]), (136, 0x60), "solicited, override");
    assert_eq!(message[8..24], OWN_V6.octets());
    assert_eq!((&message[24..26], &message[26..32]), (&[2, 1][..], &port_mac(0).0[..]));
    let pseudo = checksum::pseudo_header(OWN_V6, asker_v6(), protocol::ICMPV6, 32);
    assert_eq!(checksum::finish(pseudo + checksum::sum(message)), 0);
}

/// Frames that are not for the appliance, each by its name.
fn passing() -> Vec<(&'static str, Vec<u8>)> {
    let to_other = |proto, message: &[u8]| ip(ASKER_V4, OTHER_V4, proto, 64, message);
    let change = |mut packet: Vec<u8>, at: usize, value: u8| {
        packet[at] = value;
        packet
    };
    let v4 = |packet: &[u8]| ethernet(OTHER_MAC, &[], 0x0800, packet);
    let udp = [&UDP_PORT.to_be_bytes()[..], &UDP_PORT.to_be_bytes(), &[0, 12, 0, 0], b"data"].concat();
    vec![
        ("UDP to the protocol's port of another host", v4(&to_other(protocol::UDP, &udp))),
        ("TCP", v4(&to_other(6, &[7; 20]))),
        ("a fragment", v4(&change(to_other(protocol::UDP, &udp), 7, 9))),
        ("IPv4 options", v4(&change(to_other(protocol::UDP, &udp), 0, 0x46))),
        ("a wrong IPv4 checksum", v4(&change(to_other(6, &udp), 10, 0x77))),
        ("an impossible IP header", v4(&change(to_other(6, &udp), 0, 0x41))),
        ("an IP length beyond the frame", v4(&change(to_other(6, &udp), 2, 0x7f))),
        ("a cut IP header", v4(&to_other(6, &udp)[..15])),
        ("three VLAN tags", ethernet(OTHER_MAC, &TAG.repeat(3), 0x0800, &to_other(6, &udp))),
        ("QinQ", ethernet(OTHER_MAC, &TAG.repeat(2), 0x0800, &to_other(6, &udp))),
        ("LLDP", ethernet(Mac([1, 0x80, 0xc2, 0, 0, 0xe]), &[], 0x88cc, &[2; 50])),
        ("802.3", ethernet(Mac([1, 0x80, 0xc2, 0, 0, 0]), &[], 38, &[0x42; 38])),
        ("an ARP request for another address", arp(Mac::BROADCAST, Operation::Request, OTHER_V4)),
        ("an ARP request for the own address, asked of another", arp(OTHER_MAC, Operation::Request, OWN_V4)),
        ("an ARP reply to the own address", arp(port_mac(0), Operation::Reply, OWN_V4)),
        ("an ARP of another kind", ethernet(Mac::BROADCAST, &[], 0x0806, &[0; 28])),
        ("a broadcast datagram", {
            let all = Address::from_v4([255; 4]);
            ethernet(Mac::BROADCAST, &[], 0x0800, &ip(ASKER_V4, all, protocol::UDP, 64, &udp))
        }),
        ("a multicast datagram", {
            let group = Address::from_v4([224, 0, 0, 251]);
            ethernet(Mac([1, 0, 0x5e, 0, 0, 251]), &[], 0x0800, &ip(ASKER_V4, group, protocol::UDP, 1, &udp))
        }),
        ("an echo request to another address", echo(OTHER_MAC, ASKER_V4, OTHER_V4)),
        ("an echo request to another address by way of the own MAC", echo(port_mac(0), ASKER_V4, OTHER_V4)),
        ("an echo request to the own address at another MAC", echo(OTHER_MAC, ASKER_V4, OWN_V4)),
        ("the same over IPv6", echo(OTHER_MAC, asker_v6(), OWN_V6)),
        ("a solicitation of another address", solicitation(v6(0x77))),
        ("a solicitation with a wrong checksum", change(solicitation(OWN_V6), 60, 0xee)),
        ("a router advertisement", {
            let group = Address::from_v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            let packet = icmp(asker_v6(), group, 134, &[0; 12]);
            ethernet(Mac([0x33, 0x33, 0, 0, 0, 1]), &[], 0x86dd, &packet)
        }),
        ("IPv6 from an IPv4-mapped address", {
            let mapped = [&[0; 10][..], &[0xff; 2], &[10, 77, 0, 9]].concat();
            let mut packet = ip(asker_v6(), v6(0x77), protocol::UDP, 64, &udp);
            packet[8..24].copy_from_slice(&mapped);
            ethernet(OTHER_MAC, &[], 0x86dd, &packet)
        }),
        ("IPv6 with a hop-by-hop header", {
            let packet = ip(asker_v6(), v6(0x77), 0, 64, &[58, 0, 5, 2, 0, 0, 1, 0]);
            ethernet(OTHER_MAC, &[], 0x86dd, &packet)
        }),
    ]
}

/// Holds R2.1 and R12.2 of protocol.md.
#[test]
fn in_line_everything_else_goes_on_unchanged() {
    for (what, frame) in passing() {
        let (answers, forwarded) = pass(&frame);
        assert!(answers.is_empty(), "{what}");
        assert_eq!(forwarded, [frame], "{what}");
    }
}

#[test]
fn in_line_a_checksum_that_the_nic_found_wrong_is_the_receivers_to_judge() {
    let mut bench = Bench::new(&Plan::inline());
    let (_, frame) = passing().remove(0);
    let packet = bench.pool.alloc(&frame, 128).with_bad_checksum();
    bench.feed_packet(0, packet);
    assert_eq!(bench.io().sent(1), [frame]);
}

#[test]
fn one_armed_everything_else_is_dropped_as_not_for_us() {
    for (what, frame) in passing() {
        let mut bench = Bench::new(&Plan::one_armed());
        bench.feed(0, [&frame]);
        assert_eq!(bench.appliance.dropped(DropReason::NotForUs), 1, "{what}");
        assert!(bench.io().sent(0).is_empty(), "{what}");
        bench.end();
    }
}

/// Holds R2.1 of protocol.md.
#[test]
fn for_the_own_address_but_nothing_that_it_answers() {
    let other =
        |proto, message: &[u8]| ethernet(port_mac(0), &[], 0x0800, &ip(ASKER_V4, OWN_V4, proto, 64, message));
    let cases = [
        (DropReason::NoService, other(6, &[7; 20])),
        (DropReason::NoService, ethernet(port_mac(0), &[], 0x0800, &icmp(ASKER_V4, OWN_V4, 3, &[0; 32]))),
        (DropReason::Checksum, other(protocol::ICMP, &[8, 0, 1, 1, 0, 0, 0, 0])),
        (DropReason::Truncated, other(protocol::ICMP, &[8])),
        (DropReason::Truncated, other(protocol::UDP, &[0; 7])),
    ];
    for (reason, frame) in cases {
        let mut bench = Bench::new(&Plan::inline());
        bench.feed(0, [&frame]);
        assert_eq!(bench.appliance.dropped(reason), 1, "{reason:?}");
        assert!(bench.io().sent(0).is_empty() && bench.io().sent(1).is_empty());
        bench.end();
    }
}

#[test]
fn gradients_by_broadcast_are_those_of_a_sender_that_has_not_resolved_the_mac() {
    let mut bench = Bench::new(&Plan::inline());
    let mut frame = Worker::new(0, 4).gradient(1, &[1]);
    frame[..6].fill(0xff);
    bench.feed(0, [&frame]);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 1);
    assert!(bench.io().sent(1).is_empty());
    bench.end();
}
