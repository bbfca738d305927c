use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use pascaline_seal::{Holder, JobKeys, LONGER, Protection, Secret};
use pascaline_wire::{DType, Element};

use super::*;
use crate::identity::{Identity, Membership};

/// A session with `packets` packets to send, the last of two elements, and its tensor.
fn running(payload: u16, packets: usize, dtype: DType) -> (Session, Vec<u8>) {
    let identity = Identity { job: 1, rank: 0, ranks: 2, payload };
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
    let bytes = dtype.whole(payload.into()) * (packets - 1) + 2 * dtype.size();
    session.start(Duration::ZERO, bytes, Element::sum(dtype), Duration::from_secs(9)).unwrap();
    (session, (0..=255).cycle().take(bytes).collect())
}

/// Packets with a payload of this length, as they are or sealed: how many arrive in pieces, and as what.
fn arrive((payload, packets, dtype): (u16, usize, DType), protection: Option<Protection>) -> u64 {
    let (receiver, sender) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (mut session, tensor) = running(payload, packets, dtype);
    let mut batch: Vec<Transmit> = core::iter::from_fn(|| session.poll_transmit(Duration::ZERO)).collect();
    // Two that are sent as they are: one that is not fresh among the others, and a fresh one before it.
    batch[1].fresh = false;
    let secret = Secret::new(&[1; 32]).unwrap();
    let keys = protection.map(|protection| JobKeys::new(&secret, 1, protection).rank(0));
    let holder = protection.map(|protection| Holder::of(&secret, 1, 0, protection));
    let mut sealing = holder.map(|holder| Sealing::new((&holder, None), 1, Duration::ZERO));
    if let Some(sealing) = &mut sealing {
        sealing.make_room(header::LEN + usize::from(payload));
    }
    let longer = if protection.is_some() { u16::try_from(LONGER).unwrap() } else { 0 };
    let (mut outgoing, mut cutting) = (Outgoing::new(), Cutting::new(payload + longer));
    let mut left = &batch[..];
    let (mut buffer, mut latest) = (vec![0; 65_536], 0);
    while !left.is_empty() {
        let fd = sender.as_raw_fd();
        let with = (&mut cutting, sealing.as_mut());
        let sent = outgoing.send(fd, left, &session, &tensor, with).unwrap();
        for packet in &left[..sent] {
            let mut length = receiver.recv(&mut buffer).unwrap();
            if let Some(keys) = &keys {
                let opened = keys.up.open(1, &mut buffer[..length]).unwrap();
                assert_eq!((opened.len, opened.counter > latest), (length - LONGER, true));
                (length, latest) = (opened.len, opened.counter);
            }
            let expected = [&packet.header[..], session.payload(packet, &tensor)].concat();
            assert!(buffer[..length] == expected, "{payload}");
        }
        left = &left[sent..];
    }
    cutting.sent
}

#[test]
fn pieces_arrive_as_the_packets_that_they_are_made_of() {
    // No more of the long ones than the receiver's buffer has room for.
    for (payload, packets, dtype) in [
        (8, 20, DType::I32),
        (1448, 20, DType::I32),
        (1448, 20, DType::MxInt8),
        (20_000, 5, DType::F32),
        (40_000, 3, DType::F32),
    ] {
        for protection in [None, Some(Protection::Mac), Some(Protection::Encrypt)] {
            let expected = if payload == 40_000 { 0 } else { packets as u64 - 2 };
            let sent = arrive((payload, packets, dtype), protection);
            assert_eq!(sent, expected, "in pieces, of {payload} bytes, {protection:?}");
        }
    }
}

#[test]
fn as_many_as_fit_go_in_one_piece() {
    assert_eq!(Cutting::new(512).per_piece(4096), PIECE_PACKETS);
    assert_eq!(Cutting::new(1024).per_piece(4096), 65_000 / (1024 + 22));
    assert_eq!(Cutting::new(32_480).per_piece(4096), 1, "two do not fit");
    assert_eq!(Cutting::new(65_280).per_piece(4096), 1);
    assert_eq!(Cutting::new(512).per_piece(100), 50, "a part of a small window");
    assert_eq!(Cutting::new(512).per_piece(1), SMALL_PIECE);
}

#[test]
fn a_path_that_loses_what_is_in_one_piece_gets_no_more_of_it() {
    let mut cutting = Cutting::new(512);
    cutting.sent = TRIAL_PACKETS - 1;
    cutting.look_at(TRIAL_PACKETS);
    assert_eq!(cutting.per_piece(4096), PIECE_PACKETS, "too early to tell");
    cutting.sent = 1000;
    cutting.look_at(500);
    assert_eq!(cutting.per_piece(4096), PIECE_PACKETS);
    cutting.look_at(501);
    assert_eq!(cutting.per_piece(4096), 1);
    cutting.sent = 1 << 20;
    cutting.look_at(501);
    assert_eq!(cutting.per_piece(4096), 1, "for good");
    assert!(
        cutting.take_warning().is_some_and(|why| why.contains("did not arrive"))
            && cutting.take_warning().is_none()
    );
}
