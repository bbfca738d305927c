use pascaline_wire::{Element, Flags, Kind, Own};

use super::*;

const ENDS: Ends = Ends {
    mac: Mac([2, 0, 0, 0, 0, 1]),
    address: Address::from_v4([10, 0, 0, 1]),
    port: 50_000,
    appliance: Address::from_v4([10, 0, 0, 254]),
    appliance_ports: UdpPorts::single(16_420),
    dscp: 0,
    next_hop: Address::from_v4([10, 0, 0, 253]),
};
const ENDS_V6: Ends = Ends {
    address: in_prefix(1),
    appliance: in_prefix(0x254),
    dscp: 0,
    next_hop: in_prefix(0x00ab_cdef_0253),
    ..ENDS
};

const NOW: Duration = Duration::from_secs(5);
const HOP: Mac = Mac([2, 0, 0, 0, 0, 9]);
const HEADER: Header = Header {
    kind: Kind::Gradient,
    flags: Flags::NONE,
    element: Element::F32_SUM,
    job: 1,
    rank: 2,
    psn: 3,
    fan_in: 4,
    count: 1,
    own: Own::NONE,
    epoch: 5,
};

const fn in_prefix(host: u64) -> Address {
    let mut octets = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let low = host.to_be_bytes();
    let mut at = 0;
    while at < low.len() {
        octets[8 + at] = low[at];
        at += 1;
    }
    Address::from_v6(octets)
}

/// A host that has been answered.
fn reachable_from(ends: Ends) -> Host {
    let mut host = Host::new(ends);
    let neighbour = Ends { mac: HOP, address: ends.next_hop, next_hop: ends.address, ..ends };
    let Received::Answer(answer) = Host::new(neighbour).handle_frame(NOW, &host.question(), false) else {
        panic!("no answer")
    };
    assert_eq!(host.handle_frame(NOW, &answer, false), Received::Nothing);
    assert!(host.is_reachable());
    host
}

fn reachable() -> Host {
    reachable_from(ENDS)
}

#[test]
fn the_next_hop_is_asked_for_and_learned() {
    let question = Host::new(ENDS).question();
    assert_eq!(Frame::parse(&question).unwrap().dst, Mac::BROADCAST);
    let asked = Arp::parse(&question[ETHERNET..]).unwrap();
    assert_eq!(
        (Address::from_v4(asked.sender_ip), Address::from_v4(asked.target_ip)),
        (ENDS.address, ENDS.next_hop)
    );
    reachable();
}

#[test]
fn over_ipv6_the_group_of_the_next_hop_is_asked() {
    let question = Host::new(ENDS_V6).question();
    let frame = Frame::parse(&question).unwrap();
    // RFC 4291, section 2.7.1, and RFC 2464, section 7, on the last 24 bits: cd:ef02:53 ends in ef:02:53.
    assert_eq!((frame.dst, frame.src), (Mac([0x33, 0x33, 0xff, 0xef, 0x02, 0x53]), ENDS.mac));
    let Net::Ip(ip) = frame.net else { panic!("{frame:?}") };
    assert_eq!(Icmp::parse(&question, &ip), Ok(Icmp::Solicitation(ENDS_V6.next_hop)));
    assert_eq!(ip.dst.octets()[..13], [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
    reachable_from(ENDS_V6);
}

#[test]
fn a_stranger_is_answered_and_not_taken_for_the_next_hop() {
    for (ends, else_where) in [
        (ENDS, [Address::from_v4([10, 0, 0, 7]), Address::from_v4([10, 0, 0, 8])]),
        (ENDS_V6, [in_prefix(7), in_prefix(8)]),
    ] {
        let stranger = Ends { mac: HOP, address: else_where[0], next_hop: ends.address, ..ends };
        let mut host = Host::new(ends);
        let Received::Answer(answer) = host.handle_frame(NOW, &Host::new(stranger).question(), false) else {
            panic!("no answer")
        };
        assert!(!host.is_reachable());
        assert_eq!(Frame::parse(&answer).unwrap().dst, HOP);
        let mut asker = Host::new(stranger);
        assert_eq!(asker.handle_frame(NOW, &answer, false), Received::Nothing);
        assert!(asker.is_reachable());
        // Nor is a host that claims to be the next hop towards another one.
        let other = Ends { mac: HOP, address: ends.next_hop, next_hop: else_where[1], ..ends };
        assert_eq!(host.handle_frame(NOW, &Host::new(other).question(), false), Received::Nothing);
        assert!(!host.is_reachable());
    }
}

/// The appliance may have another Ethernet address after a restart.
#[test]
fn the_next_hop_is_asked_for_again_when_nothing_comes() {
    let at = |ms| NOW + Duration::from_millis(ms);
    for ends in [ENDS, ENDS_V6] {
        let mut host = Host::new(ends);
        let asks = |host: &mut Host, ms| host.question_by(at(ms)).is_some();
        assert_eq!([0, 99, 100].map(|ms| asks(&mut host, ms)), [true, false, true], "unknown");
        host = reachable_from(ends);
        let mut datagram = vec![0; host.headers()];
        let appliance = Ends { address: ends.appliance, port: 16_420, appliance: ends.address, ..ends };
        let appliance = Ends { appliance_ports: UdpPorts::single(ends.port), ..appliance };
        reachable_from(appliance).address(&mut datagram, &HEADER.to_bytes(), None).unwrap();
        datagram[..6].copy_from_slice(&ends.mac.0);
        assert!(matches!(host.handle_frame(at(200), &datagram, false), Received::Datagram(_)));
        assert_eq!([1199, 1200, 1299].map(|ms| asks(&mut host, ms)), [false, true, false]);
        let moved = Mac([2, 0, 0, 0, 0, 10]);
        let neighbour = Ends { mac: moved, address: ends.next_hop, next_hop: ends.address, ..ends };
        let question = host.question_by(at(1300)).unwrap();
        let Received::Answer(answer) = Host::new(neighbour).handle_frame(NOW, &question, false) else {
            panic!()
        };
        host.handle_frame(at(1301), &answer, false);
        assert_eq!(destination(&host), moved);
        assert!(matches!(host.handle_frame(at(1302), &datagram, false), Received::Datagram(_)));
        assert!(!asks(&mut host, 2301), "it is there");
        assert!(matches!(host.handle_frame(at(11_000), &datagram, false), Received::Datagram(_)));
        assert_eq!([11_299, 11_300, 11_400].map(|ms| asks(&mut host, ms)), [false, true, false], "still");
    }
}

/// The destination of its frames.
fn destination(host: &Host) -> Mac {
    let mut frame = vec![0; host.headers()];
    host.address(&mut frame, &HEADER.to_bytes(), None).unwrap();
    Frame::parse(&frame).unwrap().dst
}

#[test]
fn a_next_hop_that_announces_itself_is_learned() {
    let mut host = reachable();
    let next_hop = ENDS.next_hop.as_v4().unwrap();
    let (moved, none) = (Mac([2, 0, 0, 0, 0, 10]), Mac::default());
    for operation in [Operation::Reply, Operation::Request] {
        let mut arp =
            Arp { operation, sender_mac: moved, sender_ip: next_hop, target_mac: none, target_ip: next_hop };
        let mut frame = [0; arp::FRAME_LEN];
        arp.write_frame(&mut frame, Mac::BROADCAST).unwrap();
        assert_eq!(host.handle_frame(NOW, &frame, false), Received::Nothing);
        assert_eq!(destination(&host), moved);
        (arp.sender_mac, arp.sender_ip, arp.target_ip) = (HOP, [10, 0, 0, 8], [10, 0, 0, 8]);
        arp.write_frame(&mut frame, Mac::BROADCAST).unwrap();
        assert_eq!(
            (host.handle_frame(NOW, &frame, false), destination(&host)),
            (Received::Nothing, moved),
            "another's"
        );
        host = reachable();
    }
}

#[test]
fn frames_go_to_the_appliance_by_the_next_hop() {
    let mut frame = Vec::new();
    for ends in [ENDS, ENDS_V6] {
        let host = reachable_from(ends);
        frame = vec![0xa5; host.headers() + 12];
        host.address(&mut frame, &HEADER.to_bytes(), Some(HEADER.psn)).unwrap();
        let parsed = Frame::parse(&frame).unwrap();
        assert_eq!((parsed.dst, parsed.src), (HOP, ENDS.mac));
        let Net::Ip(ip) = parsed.net else { panic!("{parsed:?}") };
        assert_eq!((ip.src, ip.dst), (ends.address, ends.appliance));
        let udp = ip.udp(&frame).unwrap();
        assert_eq!((udp.src_port, udp.dst_port), (ENDS.port, ENDS.appliance_ports.first()));
        let (header, payload) = Header::parse(udp.body).unwrap();
        assert_eq!((header, payload), (HEADER, &[0xa5; 12][..]));
    }
    assert_eq!(
        Host::new(ENDS).address(&mut frame, &HEADER.to_bytes(), None),
        Err(NoRoom),
        "no host to send it to"
    );
}

#[test]
fn each_psn_goes_to_its_port_and_what_is_about_none_to_the_first() {
    let ports = UdpPorts::new(16_420, 4).unwrap();
    let host = reachable_from(Ends { appliance_ports: ports, ..ENDS });
    for (psn, port) in [(None, 16_420), (Some(0), 16_420), (Some(7), 16_423), (Some(u32::MAX - 1), 16_422)] {
        let mut frame = vec![0xa5; host.headers() + 8];
        host.address(&mut frame, &HEADER.to_bytes(), psn).unwrap();
        let Net::Ip(ip) = Frame::parse(&frame).unwrap().net else { panic!("not IP") };
        assert_eq!(ip.udp(&frame).unwrap().dst_port, port, "{psn:?}");
    }
}

#[test]
fn datagrams_are_taken_from_the_appliance_only() {
    // The destination MAC, a byte of both addresses (whose change breaks the checksum too), both ports.
    for (ends, body, places) in [(ENDS, 42, [0, 26, 30, 34, 36]), (ENDS_V6, 62, [0, 22, 38, 54, 56])] {
        from_the_appliance_only(ends, body, &places);
    }
}

fn from_the_appliance_only(ends: Ends, body: usize, places: &[usize]) {
    let mut worker = reachable_from(ends);
    let appliance = reachable_from(Ends {
        mac: HOP,
        address: ends.appliance,
        port: ends.appliance_ports.first(),
        appliance: ends.address,
        appliance_ports: UdpPorts::single(ends.port),
        dscp: 0,
        next_hop: ends.address,
    });
    let mut frame = vec![1; appliance.headers() + 8];
    appliance.address(&mut frame, &HEADER.to_bytes(), None).unwrap();
    // The neighbour's MAC in these frames is the appliance's own.
    frame[..6].copy_from_slice(&ends.mac.0);
    // Short frames are padded on the wire.
    let padded = [&frame[..], &[0; 20]].concat();
    for bytes in [&frame, &padded] {
        assert_eq!(worker.handle_frame(NOW, bytes, false), Received::Datagram(body..body + header::LEN + 8));
        assert_eq!(worker.handle_frame(NOW, bytes, true), Received::Nothing, "the port has found it damaged");
    }
    for &at in places {
        let mut wrong = frame.clone();
        wrong[at] ^= 0x10;
        assert_eq!(worker.handle_frame(NOW, &wrong, false), Received::Nothing, "byte {at}");
    }
    for length in 0..frame.len() {
        assert_eq!(worker.handle_frame(NOW, &frame[..length], false), Received::Nothing, "{length} bytes");
    }
}
