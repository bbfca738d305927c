use std::net::UdpSocket;

use pascaline_wire::{Element, Header, Kind};

use super::*;
use crate::identity::{Identity, Membership};

const PORTS: u16 = 4;
const PAYLOAD: u16 = 1024;
const PACKETS: u32 = 101;

/// An appliance's UDP ports, at an address that no other test uses.
fn appliance() -> (Vec<UdpSocket>, UdpPorts) {
    let ports = UdpPorts::new(16_420, PORTS).unwrap();
    let sockets = (ports.first()..).take(usize::from(PORTS));
    (sockets.map(|port| UdpSocket::bind(("127.83.17.1", port)).unwrap()).collect(), ports)
}

#[test]
fn each_psn_goes_to_its_port_and_answers_come_from_the_first() {
    let (receivers, ports) = appliance();
    let peer = receivers[0].local_addr().unwrap();
    let socket = Socket::open_to(None, peer, ports).unwrap();
    socket.make_room(1 << 22);
    let identity = Identity { job: 1, rank: 0, ranks: 2, payload: PAYLOAD };
    let membership = Membership {
        identity,
        flexible: false,
        session: 1,
        requests: 0,
        epoch: 1,
        spread: 256,
        base: 0,
        cookie: 0,
        congestion: None,
        group: None,
        workers: 0,
    };
    let mut session = Session::new(membership, 256);
    // The last packet of the tensor is a short one.
    let bytes = usize::from(PAYLOAD) * (PACKETS as usize - 1) + 8;
    session.start(Duration::ZERO, bytes, Element::I32_SUM, Duration::from_secs(9)).unwrap();
    let mut tensor: Vec<u8> = (0..=250).cycle().take(bytes).collect();
    let (origin, mut cutting, mut buffer) = (Instant::now(), Cutting::new(PAYLOAD), vec![0; PLACE * PLACES]);
    let mut transfer = Transfer::new(&socket, ports, &origin, (&mut cutting, None), &mut buffer);
    transfer.flush(&mut session, &mut tensor, None).unwrap();

    let mut all = Vec::new();
    let mut datagram = [0; 2048];
    for (receiver, port) in receivers.iter().zip(ports.first()..) {
        receiver.set_nonblocking(true).unwrap();
        while let Ok((length, from)) = receiver.recv_from(&mut datagram) {
            let (header, payload) = Header::parse(&datagram[..length]).unwrap();
            assert_eq!((header.kind, ports.of(header.psn)), (Kind::Gradient, port));
            let at = header.psn as usize * usize::from(PAYLOAD);
            assert!(payload == &tensor[at..bytes.min(at + usize::from(PAYLOAD))], "PSN {}", header.psn);
            assert_eq!(from, socket.local_addr().unwrap(), "the rank has one address and port");
            all.push(header.psn);
        }
    }
    all.sort_unstable();
    assert_eq!(all, (0..PACKETS).collect::<Vec<_>>());
    assert_eq!(session.counters().not_sent, 0);

    let worker = socket.local_addr().unwrap();
    for receiver in &receivers {
        receiver.send_to(&receiver.local_addr().unwrap().port().to_be_bytes(), worker).unwrap();
    }
    assert!(socket.wait(PollFlags::POLLIN, Duration::from_secs(5)).unwrap());
    assert_eq!(transfer.receive().unwrap(), 1, "from the first port only");
    let mut datagrams = Vec::new();
    transfer.each(1, |datagram, _| datagrams.push(datagram.unwrap().to_vec()));
    assert_eq!(datagrams, [ports.first().to_be_bytes()]);
}
