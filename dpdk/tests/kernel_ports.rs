//! Ports with a kernel behind them, each test in a network namespace of its own: net_af_packet, net_af_xdp, net_tap.

mod common;

use common::netns::{RawSocket, in_namespace, ip, veth};
use common::{
    Single, assert_full, burst, eal, frame, packet, pool, receive, send, start, tagged, unique, wait_for,
};
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::{Device, OpenError, Port};

/// Frames of several lengths, one of them tagged.
fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = (0..8).map(|seed| frame(seed, 60 + 200 * usize::from(seed))).collect();
    frames.insert(3, tagged(100, 300));
    frames
}

#[test]
fn net_af_packet_carries_frames_with_their_tags() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let mut left = start(&eal, &format!("net_af_packet{},iface=left", unique()), &pool);
        let mut right = start(&eal, &format!("net_af_packet{},iface=right", unique()), &pool);
        let frames = frames();
        send(&mut left.tx, frames.iter().map(|frame| packet(&pool, frame)).collect());
        let got = receive(&mut right.rx, frames.len());
        assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
        assert_eq!((right.rx.copied(), right.rx.copy_failed()), (0, 0), "the tag goes into the headroom");
        drop((got, left, right));
        assert_full(&pool);
    });
}

#[test]
fn net_af_packet_sends_shared_tails_whole() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let mut left = start(&eal, &format!("net_af_packet{},iface=left", unique()), &pool);
        let mut right = start(&eal, &format!("net_af_packet{},iface=right", unique()), &pool);
        shared_tails(&pool, &mut left, &mut right);
        drop((left, right));
        assert_full(&pool);
    });
}

#[test]
fn net_af_xdp_carries_frames_and_shared_tails() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 16383);
        let name = format!("net_af_xdp{},iface=left", unique());
        if let Err(error) = Port::open(&eal, &Device::Vdev(name.clone())) {
            eprintln!("SKIPPED: AF_XDP is not to be had here: {error}");
            return;
        }
        let mut left = start(&eal, &name, &pool);
        let mut right = start(&eal, &format!("net_af_packet{},iface=right", unique()), &pool);
        for (from, to) in [(&mut left.tx, &mut right.rx), (&mut right.tx, &mut left.rx)] {
            let frames: Vec<Vec<u8>> = (0..8).map(|seed| frame(seed, 60 + 200 * usize::from(seed))).collect();
            send(from, frames.iter().map(|frame| packet(&pool, frame)).collect());
            let got = receive(to, frames.len());
            assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
        }
        shared_tails(&pool, &mut left, &mut right);
        // No look at the pool afterwards: on closing, this driver does not give back what its rings hold.
    });
}

/// The kernel drops in silence what lies beyond the memory that the driver has told it of.
#[test]
fn net_af_xdp_sends_every_packet_of_its_pool() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let (pool, other) = (pool(&eal, 16383), pool(&eal, 127));
        let name = format!("net_af_xdp{},iface=left", unique());
        if let Err(error) = Port::open(&eal, &Device::Vdev(name.clone())) {
            eprintln!("SKIPPED: AF_XDP is not to be had here: {error}");
            return;
        }
        let mut left = start(&eal, &name, &pool);
        let mut right = start(&eal, &format!("net_af_packet{},iface=right", unique()), &other);
        let mut all: Vec<_> = core::iter::from_fn(|| pool.alloc()).collect();
        assert!(all.len() > 8192, "{} packets are not in a ring", all.len());
        // Some from everywhere: all of them would take the kernel seconds.
        let mut sent = 0;
        while let Some(mut packet) = all.pop() {
            if all.len() % 64 == 0 {
                assert!(packet.write(&frame(sent, 100)));
                send(&mut left.tx, burst([packet]));
                let got = receive(&mut right.rx, 1);
                assert_eq!(got[0].bytes(), frame(sent, 100));
                sent = sent.wrapping_add(1);
            }
        }
    });
}

#[test]
fn net_tap_is_an_interface_of_the_kernel() {
    in_namespace(|| {
        let eal = eal();
        let pool = pool(&eal, 1023);
        let mut tap = start(&eal, &format!("net_tap{},iface=pascaline0", unique()), &pool);
        ip("link set pascaline0 up");
        let kernel = RawSocket::on("pascaline0");
        let frames = frames();
        for frame in &frames {
            kernel.send(frame);
        }
        let got = receive(&mut tap.rx, frames.len());
        assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
        assert_eq!((tap.rx.copied(), tap.rx.copy_failed()), (0, 0));

        send(&mut tap.tx, burst([packet(&pool, &frame(42, 777))]));
        let expected = frame(42, 777);
        wait_for("the kernel to see the frame", || kernel.receive().is_some_and(|bytes| bytes == expected));
        drop((got, tap));
        assert_full(&pool);
    });
}

#[test]
fn an_interface_of_another_namespace_is_not_there() {
    in_namespace(|| {
        let eal = eal();
        let device = Device::Vdev(format!("net_af_packet{},iface=left", unique()));
        assert!(matches!(Port::open(&eal, &device), Err(OpenError::NoSuchInterface { .. })));
        veth("left", "right");
        assert!(Port::open(&eal, &device).is_ok());
    });
}

/// One payload behind many heads from one port to another.
fn shared_tails(pool: &pascaline_dpdk::Mempool, from: &mut Single, to: &mut Single) {
    let tail = packet(pool, &frame(5, 1200)[14..]).freeze();
    let heads = (0..20).map(|seed| {
        let mut head = packet(pool, &frame(seed, 14));
        head.append_shared(tail.clone());
        head
    });
    send(&mut from.tx, heads.collect());
    let got = receive(&mut to.rx, 20);
    for (seed, packet) in (0..).zip(&got) {
        assert_eq!(packet.bytes(), [&frame(seed, 14)[..], &frame(5, 1200)[14..]].concat());
    }
    let joined = if from.port.caps().tx_multi_segment { 0 } else { 20 };
    assert_eq!(from.tx.copied(), joined);
}
