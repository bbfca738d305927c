//! Ports without a kernel behind them: net_null, net_ring, net_pcap, net_memif.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::port::{StartedPort, Steer, Steering};
use pascaline_dpdk::{Device, Mbuf, Mempool, OpenError, Port, PortConfig, RxQueue, StartError};

use crate::common::{
    self, Single, assert_full, burst, eal, frame, open, packet, pool, receive, send, start, unique, wait_for,
};

#[test]
fn net_null_accounts_for_every_packet_and_leaks_none() {
    let eal = eal();
    let pool = pool(&eal, 127);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_null{},size=100", unique()), &pool);
    let mut batch = ArrayVec::<Mbuf, 32>::new();
    assert_eq!(rx.rx(&mut batch), 32);
    assert_eq!(rx.rx(&mut batch), 0, "no room, no packets");
    assert!(batch.iter().all(|packet| packet.bytes().len() == 100));
    batch.truncate(20);
    assert_eq!(rx.rx(&mut batch), 12);
    assert_eq!((tx.tx(&mut batch), batch.len()), (32, 0));
    assert_eq!(tx.tx(&mut batch), 0);
    let stats = port.stats().read().unwrap();
    assert_eq!((stats.rx_packets, stats.tx_packets), (44, 32));
    drop((port, rx, tx));
    assert_full(&pool);
}

#[test]
fn net_null_takes_a_shared_tail_without_a_copy() {
    let eal = eal();
    let pool = pool(&eal, 15);
    let Single { port, rx: _rx, mut tx } = start(&eal, &format!("net_null{}", unique()), &pool);
    assert!(port.active().tx_multi_segment);
    let tail = packet(&pool, b"tail").freeze();
    let mut head = packet(&pool, b"head");
    head.append_shared(tail.clone());
    send(&mut tx, burst([head]));
    assert_eq!((tail.holders(), pool.in_use(), tx.copied()), (1, 1, 0));
    drop(tail);
    assert_full(&pool);
}

#[test]
fn a_hook_writes_what_net_null_delivers() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let Single { port: _port, mut rx, tx: _tx } = start(&eal, &format!("net_null{}", unique()), &pool);
    let calls = Arc::new(AtomicU64::new(0));
    let (counted, mut number) = (calls.clone(), 0u8);
    assert!(rx.set_hook(move |packets| {
        counted.fetch_add(1, Ordering::Relaxed);
        for packet in packets {
            assert!(packet.write(&[number; 77]));
            number += 1;
        }
    }));
    let mut batch = ArrayVec::<Mbuf, 8>::new();
    assert_eq!(rx.rx(&mut batch), 8);
    assert!((0..8).zip(&batch).all(|(number, packet)| packet.bytes() == [number; 77]));
    rx.clear_hook();
    assert_eq!(Arc::strong_count(&calls), 1, "the closure is gone");
    batch.clear();
    rx.rx(&mut batch);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_hook_that_gives_packets_a_tail_does_not_break_exclusiveness() {
    let eal = eal();
    let pool = pool(&eal, 31);
    let Single { port: _port, mut rx, tx: _tx } = start(&eal, &format!("net_null{}", unique()), &pool);
    let tail = packet(&pool, b"tail").freeze();
    let shared = tail.clone();
    assert!(rx.set_hook(move |packets| packets.iter_mut().for_each(|packet| {
        assert!(packet.write(b"head"));
        packet.append_shared(shared.clone());
    })));
    let mut batch = ArrayVec::<Mbuf, 4>::new();
    assert_eq!(rx.rx(&mut batch), 4);
    assert!(batch.iter().all(|packet| packet.segments() == 1 && packet.bytes() == b"headtail"));
    assert_eq!((rx.copied(), tail.holders()), (4, 2));
    drop((batch, rx, tail));
    assert_full(&pool);
}

#[test]
fn net_pcap_replays_a_file_and_writes_another() {
    let eal = eal();
    let pool = pool(&eal, 31);
    let (input, output) = (common::temporary(".pcap"), common::temporary(".pcap"));
    let frames: Vec<Vec<u8>> = (0..5).map(|seed| frame(seed, 60 + 100 * usize::from(seed))).collect();
    fs::write(&input, pcap(&frames)).unwrap();
    let devargs = format!("net_pcap{},rx_pcap={},tx_pcap={}", unique(), input.display(), output.display());
    let Single { port, mut rx, mut tx } = start(&eal, &devargs, &pool);
    let got = receive(&mut rx, 5);
    assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
    // A tail, which net_pcap does not say it can write.
    let mut heads = burst(got);
    let tail = packet(&pool, b"tail").freeze();
    heads[4].append_shared(tail.clone());
    send(&mut tx, heads);
    assert_eq!((tx.copied(), tail.holders()), (1, 1));
    // Nor is there always room to copy one.
    let mut head = packet(&pool, &[1; 1500]);
    head.append_shared(packet(&pool, &[2; 1500]).freeze());
    send(&mut tx, burst([head]));
    assert_eq!((tx.copied(), port.stats().read().unwrap().tx_errors), (1, 1));
    drop((port, rx, tx, tail));
    assert_full(&pool);
    let written = fs::read(&output).unwrap();
    let (last, whole) = frames.split_last().unwrap();
    let expected: Vec<Vec<u8>> = [whole, &[[&last[..], b"tail"].concat()]].concat();
    assert_eq!(frames_of(&written), expected);
    fs::remove_file(input).unwrap();
    fs::remove_file(output).unwrap();
}

/// A capture file: the global header, then each frame behind time and lengths.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65535, 1]);
    for frame in frames {
        let len = u32::try_from(frame.len()).unwrap();
        file.extend(words(&[0, 0, len, len]));
        file.extend(frame);
    }
    file
}

fn frames_of(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    file = &file[24..];
    while let Some((header, rest)) = file.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(header[8..12].try_into().unwrap());
        let (frame, rest) = rest.split_at(usize::try_from(len).unwrap());
        frames.push(frame.to_vec());
        file = rest;
    }
    frames
}

#[test]
fn net_memif_connects_two_ports() {
    let eal = eal();
    let pool = pool(&eal, 511);
    let socket = common::temporary(".sock");
    let memif =
        |role| format!("net_memif{},role={role},socket={},socket-abstract=no", unique(), socket.display());
    let mut server = start(&eal, &memif("server"), &pool);
    let mut client = start(&eal, &memif("client"), &pool);
    wait_for("the link", || server.port.link().unwrap().is_up() && client.port.link().unwrap().is_up());
    let frames: Vec<Vec<u8>> = (0..16).map(|seed| frame(seed, 64 + 80 * usize::from(seed))).collect();
    send(&mut client.tx, frames.iter().map(|frame| packet(&pool, frame)).collect());
    let got = receive(&mut server.rx, 16);
    assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
    drop(got);
    // And back, with a shared tail. The client's polling is what gives the server buffers to write to.
    assert_eq!(client.rx.rx(&mut ArrayVec::<Mbuf, 4>::new()), 0);
    let tail = packet(&pool, &frame(9, 1000)[14..]).freeze();
    let heads = (0..16).map(|seed| {
        let mut head = packet(&pool, &frame(seed, 14));
        head.append_shared(tail.clone());
        head
    });
    send(&mut server.tx, heads.collect());
    let got = receive(&mut client.rx, 16);
    for (seed, packet) in (0..).zip(&got) {
        assert_eq!(packet.bytes(), [&frame(seed, 14)[..], &frame(9, 1000)[14..]].concat());
    }
    drop((got, tail, server, client));
    assert_full(&pool);
    assert!(!socket.exists());
}

#[test]
fn a_socket_left_behind_is_named() {
    let eal = eal();
    let socket = common::temporary(".sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let device = Device::Vdev(format!(
        "net_memif{},role=server,socket={},socket-abstract=no",
        unique(),
        socket.display()
    ));
    let error = Port::open(&eal, &device).unwrap_err();
    assert!(matches!(&error, OpenError::StaleSocket { path, .. } if *path == socket.display().to_string()));
    drop(listener);
    fs::remove_file(socket).unwrap();
}

#[test]
fn devices_that_do_not_exist_are_explained() {
    let eal = eal();
    let refused = |devargs: &str| Port::open(&eal, &Device::Vdev(devargs.to_owned())).unwrap_err();
    assert!(matches!(refused(""), OpenError::BadName { .. }));
    assert!(matches!(refused("net_null\0"), OpenError::BadName { .. }));
    assert!(matches!(refused("net_nonsense0"), OpenError::UnknownDriver { .. }));
    let error = refused(&format!("net_af_packet{},iface=nowhere9", unique()));
    assert!(
        matches!(&error, OpenError::NoSuchInterface { interface, .. } if interface == "nowhere9"),
        "{error}"
    );
    let error = refused(&format!("net_pcap{},rx_pcap=/nowhere", unique()));
    assert!(matches!(error, OpenError::NoSuchFile { .. }), "{error}");
    let error = Port::open(&eal, &Device::Pci("0000:fe:00.0".to_owned())).unwrap_err();
    assert!(error.to_string().contains("--bind=vfio-pci 0000:fe:00.0"), "{error}");
}

#[test]
fn a_device_has_one_handle_and_can_be_opened_again() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let name = format!("net_null{}", unique());
    let device = Device::Vdev(name.clone());
    let Single { port, rx, tx } = start(&eal, &name, &pool);
    assert!(matches!(Port::open(&eal, &device), Err(OpenError::AlreadyOpen { .. })));
    let stats = port.stats();
    let port = port.stop().expect_err("queues are left");
    drop((rx, tx));
    let port = port.stop().expect("no queues are left");
    drop(port);
    assert!(matches!(Port::open(&eal, &device), Err(OpenError::AlreadyOpen { .. })), "counters keep it open");
    assert_eq!(stats.name(), name);
    drop(stats);
    assert_full(&pool);
    assert!(open(&eal, &name).mac().is_ok());
}

#[test]
fn a_device_made_at_the_start_is_found_and_can_be_made_anew() {
    let eal = eal();
    let pool = pool(&eal, 127);
    for (devargs, size) in [("net_null_boot", 99), ("net_null_boot,size=77", 77)] {
        let Single { port: _port, mut rx, tx: _tx } = start(&eal, devargs, &pool);
        assert_eq!(receive_any(&mut rx).bytes().len(), size);
    }
    assert_full(&pool);
}

fn receive_any(rx: &mut RxQueue) -> Mbuf {
    let mut batch = ArrayVec::<Mbuf, 1>::new();
    wait_for("a packet", || rx.rx(&mut batch) == 1);
    batch.remove(0)
}

#[test]
fn a_stopped_port_starts_again() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let name = format!("net_ring{}", unique());
    let Single { port, rx, tx } = start(&eal, &name, &pool);
    drop((rx, tx));
    let config = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
    let mut started = port.stop().unwrap().start(&config, std::slice::from_ref(&pool)).unwrap();
    send(&mut started.tx[1], burst([packet(&pool, &frame(1, 60))]));
    assert_eq!(receive(&mut started.rx[1], 1)[0].bytes(), frame(1, 60));
}

#[test]
fn a_port_that_cannot_steer_starts_without() {
    let eal = eal();
    let pool = pool(&eal, 255);
    let steer = Some(Steer { first: 16_420, count: 4, ipv4: true, ipv6: true });
    let config =
        PortConfig { rx_queues: 2, tx_queues: 2, steer, rx_desc: 64, tx_desc: 64, ..PortConfig::default() };
    for driver in ["net_ring", "net_null"] {
        let port = open(&eal, &format!("{driver}{}", unique()));
        let mut started = port.start(&config, std::slice::from_ref(&pool)).unwrap();
        assert_eq!(started.port.active().steering, Steering::None, "{driver}");
        receive_or_send(&mut started, &pool, driver);
    }
    assert_full(&pool);
}

/// Works as a port does.
fn receive_or_send(started: &mut StartedPort, pool: &Mempool, driver: &str) {
    send(&mut started.tx[1], burst([packet(pool, &frame(1, 60))]));
    if driver == "net_ring" {
        assert_eq!(receive(&mut started.rx[1], 1)[0].bytes(), frame(1, 60));
    } else {
        receive_any(&mut started.rx[1]);
    }
}

#[test]
fn a_refused_configuration_gives_the_port_back() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let port = open(&eal, &format!("net_ring{}", unique()));
    let many = PortConfig { rx_queues: 17, ..PortConfig::default() };
    let failure = port.start(&many, std::slice::from_ref(&pool)).unwrap_err();
    assert!(matches!(failure.error, StartError::TooManyQueues { rx: 17, max_rx: 16, .. }));
    let small = PortConfig { mtu: Some(20), ..PortConfig::default() };
    let failure = failure.port.start(&small, std::slice::from_ref(&pool)).unwrap_err();
    assert!(matches!(failure.error, StartError::Mtu { mtu: 20, min: 46, .. }));
    let failure = failure.port.start(&PortConfig::default(), &[]).unwrap_err();
    assert!(matches!(failure.error, StartError::NoPool { .. }));
    let started = failure.port.start(&PortConfig::default(), &[pool]).unwrap();
    assert_eq!((started.rx.len(), started.tx.len()), (1, 1));
}

#[test]
fn counters_are_read_while_queues_work_elsewhere() {
    let eal = eal();
    let pool = pool(&eal, 255);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_null{}", unique()), &pool);
    let stats = port.stats();
    let job = eal.lcores()[0].launch(move || {
        let mut batch = ArrayVec::<Mbuf, 32>::new();
        for _ in 0..1000 {
            rx.rx(&mut batch);
            tx.tx(&mut batch);
        }
        batch.len()
    });
    let job = job.unwrap();
    wait_for("the counters to move", || stats.read().unwrap().rx_packets > 0);
    assert_eq!(job.join(), Ok(0));
    assert_eq!(stats.read().unwrap().tx_packets, 32_000);
    drop((port, stats));
    assert_full(&pool);
}
