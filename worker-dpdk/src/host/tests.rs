use pascaline_wire::{Element, Flags, Kind};

use super::*;

const ENDS: Ends = Ends {
    mac: Mac([2, 0, 0, 0, 0, 1]),
    address: [10, 0, 0, 1],
    port: 50_000,
    appliance: [10, 0, 0, 254],
    appliance_ports: UdpPorts::single(16_420),
    next_hop: [10, 0, 0, 253],
};
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
    priority: 0,
    wnd_cap: 0,
    tree: 0,
    epoch: 5,
};

fn reachable() -> Host {
    let mut host = Host::new(ENDS);
    let mut reply = host.question();
    let question = Arp::parse(&reply[ETHERNET..]).unwrap();
    arp::answer_in_place(&mut reply, ETHERNET, &question, HOP).unwrap();
    assert_eq!(host.hear(&mut reply), Heard::Nothing);
    assert!(host.is_reachable());
    host
}

#[test]
fn the_next_hop_is_asked_for_and_learned() {
    let host = Host::new(ENDS);
    let question = host.question();
    assert_eq!(Frame::parse(&question).unwrap().dst, Mac::BROADCAST);
    let asked = Arp::parse(&question[ETHERNET..]).unwrap();
    assert_eq!((asked.sender_ip, asked.target_ip), (ENDS.address, ENDS.next_hop));
    reachable();
}

#[test]
fn a_stranger_is_answered_and_not_taken_for_the_next_hop() {
    let stranger = Ends { mac: HOP, address: [10, 0, 0, 7], next_hop: ENDS.address, ..ENDS };
    let mut frame = Host::new(stranger).question();
    let mut host = Host::new(ENDS);
    assert_eq!(host.hear(&mut frame), Heard::Answer);
    assert!(!host.is_reachable());
    let answer = Arp::parse(&frame[ETHERNET..]).unwrap();
    assert_eq!((answer.sender_mac, answer.target_mac), (ENDS.mac, HOP));
    assert_eq!(Frame::parse(&frame).unwrap().dst, HOP);
    // Nor is somebody who claims to be the next hop towards somebody else.
    let mut other =
        Host::new(Ends { mac: HOP, address: ENDS.next_hop, next_hop: [10, 0, 0, 8], ..ENDS }).question();
    assert_eq!(host.hear(&mut other), Heard::Nothing);
    assert!(!host.is_reachable());
}

#[test]
fn frames_go_to_the_appliance_by_the_next_hop() {
    let host = reachable();
    let mut frame = vec![0xa5; HEADERS + 12];
    host.address(&mut frame, &HEADER.to_bytes(), Some(HEADER.psn)).unwrap();
    let parsed = Frame::parse(&frame).unwrap();
    assert_eq!((parsed.dst, parsed.src), (HOP, ENDS.mac));
    let Net::Ip(ip) = parsed.net else { panic!("{parsed:?}") };
    assert_eq!((ip.src, ip.dst), (Address::from_v4(ENDS.address), Address::from_v4(ENDS.appliance)));
    let udp = ip.udp(&frame).unwrap();
    assert_eq!((udp.src_port, udp.dst_port), (ENDS.port, ENDS.appliance_ports.first()));
    let (header, payload) = Header::parse(&frame[udp.body..]).unwrap();
    assert_eq!((header, payload), (HEADER, &[0xa5; 12][..]));
    assert_eq!(
        Host::new(ENDS).address(&mut frame, &HEADER.to_bytes(), None),
        Err(NoRoom),
        "nobody to send it to"
    );
}

#[test]
fn each_psn_goes_to_its_port_and_what_is_about_none_to_the_first() {
    let ports = UdpPorts::new(16_420, 4).unwrap();
    let mut host = Host::new(Ends { appliance_ports: ports, ..ENDS });
    let mut reply = host.question();
    let question = Arp::parse(&reply[ETHERNET..]).unwrap();
    arp::answer_in_place(&mut reply, ETHERNET, &question, HOP).unwrap();
    assert_eq!(host.hear(&mut reply), Heard::Nothing);
    for (psn, port) in [(None, 16_420), (Some(0), 16_420), (Some(7), 16_423), (Some(u32::MAX - 1), 16_422)] {
        let mut frame = vec![0xa5; HEADERS + 8];
        host.address(&mut frame, &HEADER.to_bytes(), psn).unwrap();
        let Net::Ip(ip) = Frame::parse(&frame).unwrap().net else { panic!("not IP") };
        assert_eq!(ip.udp(&frame).unwrap().dst_port, port, "{psn:?}");
    }
}

#[test]
fn datagrams_are_taken_from_the_appliance_only() {
    let (worker, appliance) = (reachable(), {
        let ends = Ends {
            mac: HOP,
            address: ENDS.appliance,
            port: ENDS.appliance_ports.first(),
            appliance: ENDS.address,
            appliance_ports: UdpPorts::single(ENDS.port),
            next_hop: ENDS.address,
        };
        let mut host = Host::new(ends);
        let mut question = Host::new(Ends { next_hop: ENDS.appliance, ..ENDS }).question();
        assert_eq!(host.hear(&mut question), Heard::Answer);
        host
    });
    let mut frame = vec![1; HEADERS + 8];
    appliance.address(&mut frame, &HEADER.to_bytes(), None).unwrap();
    // Short frames are padded on the wire.
    let padded = [&frame[..], &[0; 20]].concat();
    for bytes in [&frame, &padded] {
        let heard = worker.clone().hear(&mut bytes.clone());
        assert_eq!(heard, Heard::Datagram(42..42 + header::LEN + 8));
    }
    // The destination MAC, both addresses (whose change breaks the checksum too), both ports.
    for at in [0, 26, 30, 34, 36] {
        let mut wrong = frame.clone();
        wrong[at] ^= 0x10;
        assert_eq!(worker.clone().hear(&mut wrong), Heard::Nothing, "byte {at}");
    }
    for length in 0..frame.len() {
        assert_eq!(worker.clone().hear(&mut frame[..length].to_vec()), Heard::Nothing, "{length} bytes");
    }
}
