//! Ports over packet sockets of our own, each test in a network namespace of its own: what the kernel has in
//! one piece arrives cut, and what goes one way leaves in one piece.
#![allow(unsafe_code, reason = "options of sockets that the standard library does not have")]

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk::kernel::Waiting;
use pascaline_dpdk::{Mbuf, OpenError, Port, PortConfig, RxQueue, TxQueue};

use crate::common::netns::{in_namespace, ip, veth};
use crate::common::{
    self, assert_full, burst, eal, frame, packet, pool, receive, send, start, tagged, unique, wait_for,
};

/// The appliance's address, which only its frames say.
const PEER: &str = "10.79.0.254:16420";
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

fn device(interface: &str) -> String {
    format!("net_kernel{},iface={interface}", unique())
}

#[test]
fn frames_keep_their_tags() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let (mut left, mut right) =
            (start(&eal, &device("left"), &pool), start(&eal, &device("right"), &pool));
        let mut frames: Vec<Vec<u8>> = (0..8).map(|seed| frame(seed, 60 + 200 * usize::from(seed))).collect();
        frames.insert(3, tagged(100, 300));
        let bytes = frames.iter().map(Vec::len).sum::<usize>() as u64;
        send(&mut left.tx, frames.iter().map(|frame| packet(&pool, frame)).collect());
        let got = receive(&mut right.rx, frames.len());
        assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
        let (sent, received) = (left.port.stats().read().unwrap(), right.port.stats().read().unwrap());
        assert_eq!((sent.tx_packets, sent.tx_bytes), (9, bytes));
        assert!(received.rx_packets >= 9 && received.rx_bytes >= bytes);
        assert!(left.port.link().unwrap().is_up() && left.port.mac().unwrap() != right.port.mac().unwrap());
        drop((got, left, right));
        assert_full(&pool);
    });
}

/// A worker's end of a veth pair, with an appliance on the other that answers for [`PEER`] alone.
fn worker() -> UdpSocket {
    veth("left", "right");
    ip("addr add 10.79.0.1/24 dev left");
    ip("neigh add 10.79.0.254 lladdr 02:00:00:00:00:09 dev left nud permanent");
    let socket = UdpSocket::bind("10.79.0.1:4000").unwrap();
    socket.connect(PEER).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap();
    // SAFETY: the value is live and of this length.
    let status = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_UDP, option, value, length)
    };
    assert_eq!(status, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// Polls until `count` UDP datagrams to [`PEER`] have come.
fn datagrams(rx: &mut RxQueue, count: usize) -> Vec<Mbuf> {
    let mut got = Vec::new();
    wait_for("datagrams", || {
        let mut batch = ArrayVec::<Mbuf, 8>::new();
        rx.rx(&mut batch);
        got.extend(batch.into_iter().filter(|packet| packet.bytes().get(12..14) == Some(&[8, 0])));
        got.len() >= count
    });
    got
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// Each datagram as a wire would have brought it: its own lengths, number and checksum, and its own bytes.
#[test]
fn a_long_datagram_arrives_cut() {
    in_namespace(|| {
        let worker = worker();
        let eal = eal();
        let pool = pool(&eal, 127);
        let mut right = start(&eal, &device("right"), &pool);
        set(&worker, UDP_SEGMENT, 1000);
        let bytes: Vec<u8> = (0..251).cycle().take(20_300).collect();
        assert_eq!(worker.send(&bytes).unwrap(), bytes.len());
        let got = datagrams(&mut right.rx, 21);
        assert_eq!(got.len(), 21);
        for (nth, (packet, chunk)) in got.iter().zip(bytes.chunks(1000)).enumerate() {
            let frame = packet.bytes();
            assert_eq!(&frame[42..], chunk, "datagram {nth}");
            assert_eq!(frame[16..18], u16::try_from(28 + chunk.len()).unwrap().to_be_bytes());
            assert_eq!(frame[38..40], u16::try_from(8 + chunk.len()).unwrap().to_be_bytes());
            assert_eq!(checksum(&frame[14..34]), 0, "datagram {nth}");
            assert_eq!(frame[40..42], [0, 0], "none, which is right over IPv4");
        }
        drop((got, right));
        assert_full(&pool);
    });
}

/// What a pool has no packets for is lost and counted, and nothing else is.
#[test]
fn datagrams_without_a_packet_are_lost_alone() {
    in_namespace(|| {
        let worker = worker();
        let eal = eal();
        let pool = pool(&eal, 15);
        let mut right = start(&eal, &device("right"), &pool);
        set(&worker, UDP_SEGMENT, 500);
        worker.send(&[7; 10_000]).unwrap();
        let got = datagrams(&mut right.rx, 15);
        let mut more = ArrayVec::<Mbuf, 8>::new();
        assert_eq!((got.len(), right.rx.rx(&mut more)), (15, 0));
        assert_eq!(right.port.stats().read().unwrap().rx_no_buffer, 5);
        drop(got);
        worker.send(&[8; 3_000]).unwrap();
        assert_eq!(datagrams(&mut right.rx, 6).len(), 6);
    });
}

/// A datagram from [`PEER`] to the worker, without a UDP checksum.
fn answer(mac: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let length = u16::try_from(28 + payload.len()).unwrap().to_be_bytes();
    let mut ip =
        vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 79, 0, 254, 10, 79, 0, 1];
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    frame.extend(ip);
    for word in [16_420, 4000, 8 + u16::try_from(payload.len()).unwrap(), 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// Those of one way and length leave in one piece, the last one shorter; a longer one begins the next.
#[test]
fn answers_of_one_way_leave_in_one_piece() {
    in_namespace(|| {
        assert_eq!(answered(), [10_400, 4_000], "pieces");
    });
}

/// The kernel cuts for an interface that does not.
#[test]
fn answers_get_through_where_the_interface_does_not_cut() {
    in_namespace(|| {
        let worker = answered_after(|| {
            let features = ["-K", "right", "gso", "off", "tso", "off", "tx-udp-segmentation", "off"];
            let done = std::process::Command::new("ethtool").args(features).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            send
        });
        assert_eq!(worker.len(), 16, "one by one: {worker:?}");
    });
}

/// A sender of a few frames at a time sends one piece at a time.
#[test]
fn a_few_are_one_piece() {
    in_namespace(|| {
        let pieces = answered_after(|| {
            |tx: &mut TxQueue, mut frames: ArrayVec<Mbuf, 64>| {
                let taken: Vec<usize> = (0..3).map(|_| tx.tx_some(&mut frames)).collect();
                assert_eq!((taken, frames.len()), (vec![11, 16, 5], 0));
            }
        });
        assert_eq!(pieces, [10_400, 4_000]);
    });
}

fn answered() -> Vec<usize> {
    answered_after(|| send)
}

/// Sends 16 datagrams, of 1000, 400 and 800 bytes, and as many to another, and tells the lengths in which the
/// worker gets them. What prepares it says how to send.
fn answered_after<S: FnOnce(&mut TxQueue, ArrayVec<Mbuf, 64>)>(prepare: impl FnOnce() -> S) -> Vec<usize> {
    let worker = worker();
    let send = prepare();
    let eal = eal();
    let pool = pool(&eal, 127);
    let (left, mut right) = (start(&eal, &device("left"), &pool), start(&eal, &device("right"), &pool));
    let mac = left.port.mac().unwrap();
    drop(left);
    set(&worker, UDP_GRO, 1);
    let other = [2, 3, 3, 3, 3, 3];
    let mut frames = ArrayVec::<Mbuf, 64>::new();
    let lengths = [1000; 10].into_iter().chain([400]).chain([800; 5]);
    for (nth, length) in (0_u8..).zip(lengths) {
        frames.push(packet(&pool, &answer(mac, &vec![nth; length])));
        // Something for another one in between, as where members share a port.
        frames.push(packet(&pool, &answer(other, &[nth; 100])));
    }
    send(&mut right.tx, frames);
    let mut got = Vec::new();
    wait_for("both pieces", || {
        let mut bytes = vec![0; 1 << 16];
        match worker.recv(&mut bytes) {
            Ok(length) => got.push(bytes[..length].to_vec()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        got.iter().map(Vec::len).sum::<usize>() >= 14_400
    });
    let bytes: Vec<u8> = (0..10).flat_map(|nth| vec![nth; 1000]).chain(vec![10; 400]).collect();
    assert_eq!(got.concat()[..10_400], bytes);
    drop(right);
    assert_full(&pool);
    got.iter().map(Vec::len).collect()
}

/// A query for an IPv6 address goes to a group, whose frames a card would keep to itself.
#[test]
fn groups_are_heard() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let heard = || {
            let said =
                std::process::Command::new("ip").args(["-d", "link", "show", "right"]).output().unwrap();
            String::from_utf8_lossy(&said.stdout).contains("allmulti 1")
        };
        assert!(!heard());
        let _right = start(&eal, &device("right"), &pool);
        assert!(heard());
    });
}

/// What an interface that is down does not take is lost, each frame of it, and not sent.
#[test]
fn what_is_lost_counts_as_lost() {
    in_namespace(|| {
        let _worker = worker();
        let eal = eal();
        let pool = pool(&eal, 127);
        let mut right = start(&eal, &device("right"), &pool);
        ip("link set right down");
        send(&mut right.tx, (0..5).map(|nth| packet(&pool, &answer([2; 6], &[nth; 100]))).collect());
        let stats = right.port.stats().read().unwrap();
        assert_eq!((stats.tx_errors, stats.tx_packets, stats.tx_bytes), (5, 0, 0));
    });
}

/// A nap ends with the first frame, long before its time.
#[test]
fn a_frame_ends_a_nap() {
    in_namespace(|| {
        let worker = worker();
        let eal = eal();
        let pool = pool(&eal, 127);
        let right = start(&eal, &device("right"), &pool);
        let mut waiting = Waiting::new(right.rx.waits_for());
        worker.send(&[1; 100]).unwrap();
        let begin = std::time::Instant::now();
        waiting.wait(std::time::Duration::from_secs(60));
        assert!(begin.elapsed().as_secs() < 30);
    });
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let nowhere = Port::open(&eal, &pascaline_dpdk::Device::Vdev(device("nowhere")));
        assert!(
            matches!(nowhere, Err(OpenError::NoSuchInterface { interface, .. }) if interface == "nowhere")
        );
        let wide = PortConfig { mtu: Some(9000), ..PortConfig::default() };
        let failure =
            common::open(&eal, &device("left")).start(&wide, std::slice::from_ref(&pool)).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("9000") && text.contains("68..=1500") && text.contains("ip link"), "{text}");
        drop(burst([]));
    });
}
