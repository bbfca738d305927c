//! Ports with a kernel behind them, each test in a network namespace of its own: net_af_packet, net_af_xdp,
//! net_tap.

use pascaline_buffer::PacketBuf;
use pascaline_dpdk::port::{Steer, Steering};
use pascaline_dpdk::{Device, Mbuf, Mempool, OpenError, PoolConfig, Port, PortConfig};
use pascaline_testkit::skipped;

use crate::common::netns::{RawSocket, in_namespace, ip, veth};
use crate::common::{
    self, Single, assert_full, burst, eal, frame, packet, pool, receive, send, start, tagged, unique,
    wait_for,
};

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
        assert_eq!(right.rx.copied(), 0, "the tag goes into the headroom");
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
            return skipped(&format!("no AF_XDP: {error}"));
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
            return skipped(&format!("no AF_XDP: {error}"));
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
        assert_eq!(tap.rx.copied(), 0);

        send(&mut tap.tx, burst([packet(&pool, &frame(42, 777))]));
        let expected = frame(42, 777);
        wait_for("the kernel to see the frame", || kernel.receive().is_some_and(|bytes| bytes == expected));
        drop((got, tap));
        assert_full(&pool);
    });
}

/// An IPv4 datagram without payload, its UDP sum left out.
fn datagram(dst_port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 254];
    let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let [.., high, low] = (!(sum + (sum >> 16))).to_be_bytes();
    ip[10..12].copy_from_slice(&[high, low]);
    frame.extend(ip);
    frame.extend([0xc0, 0]);
    frame.extend(dst_port.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame
}

/// With a kernel that has what the driver makes rules of (`cls_flower`, `sch_multiq`): the one virtual device
/// that steers.
#[test]
fn a_device_with_flow_rules_brings_each_udp_port_to_its_queue() {
    in_namespace(|| {
        let eal = eal();
        let pool = pool(&eal, 4095);
        let steer = Some(Steer { first: 16_420, count: 4, ipv4: true, ipv6: true });
        let config = PortConfig { rx_queues: 2, tx_queues: 2, steer, ..PortConfig::default() };
        let port = common::open(&eal, &format!("net_tap{},iface=pascaline0", unique()));
        let mut started =
            port.start(&config, std::slice::from_ref(&pool)).unwrap_or_else(|error| panic!("{error}"));
        if started.port.active().steering != Steering::Rules {
            return skipped("net_tap cannot make flow rules on this kernel");
        }
        ip("link set pascaline0 up");
        let kernel = RawSocket::on("pascaline0");
        for port in 16_420..16_424_u16 {
            let frame = datagram(port);
            kernel.send(&frame);
            let queue = &mut started.rx[usize::from(port % 2)];
            wait_for("the frame on its queue", || {
                let mut batch = arrayvec::ArrayVec::<Mbuf, 32>::new();
                queue.rx(&mut batch);
                batch.iter().any(|packet| packet.bytes() == frame)
            });
        }
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

/// DPDK's driver names 1,518 bytes as its longest frame, whatever its ring holds.
#[test]
fn net_af_packet_carries_jumbo_frames_where_its_slots_hold_them() {
    in_namespace(|| {
        veth("left", "right");
        for name in ["left", "right"] {
            ip(&format!("link set {name} mtu 9000"));
        }
        let eal = eal();
        let room = PoolConfig { name: format!("jumbo{}", unique()), count: 127, cache: 0, room: 16384 };
        let pool = Mempool::new(&eal, &room).unwrap();
        let config = PortConfig { mtu: Some(9000), ..PortConfig::default() };
        let start = |arguments: &str| {
            let port = common::open(&eal, &format!("net_af_packet{},iface={arguments}", unique()));
            port.start(&config, std::slice::from_ref(&pool))
        };
        let error = start("left").expect_err("the usual slots have 2 KiB").error.to_string();
        assert!(error.contains("framesz=16384,blocksz=16384"), "{error}");
        let mut left = start("left,framesz=16384,blocksz=16384").unwrap();
        let mut right = start("right,framesz=16384,blocksz=16384").unwrap();
        assert_eq!(left.port.active().mtu, 9000);
        let frames = [frame(1, 9014), frame(2, 60)];
        send(&mut left.tx[0], frames.iter().map(|frame| packet(&pool, frame)).collect());
        let got = receive(&mut right.rx[0], frames.len());
        assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
    });
}
