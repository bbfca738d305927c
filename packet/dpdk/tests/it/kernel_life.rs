//! Ports whose interface is deleted and made anew, renamed, or switched off while they run, each test in a
//! network namespace of its own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk::port::{LinkState, ReopenError};
use pascaline_dpdk::{Mbuf, Mempool, PortConfig, RxQueue, StartedPort, TxQueue};

use crate::common::netns::{RawSocket, in_namespace, ip, veth};
use crate::common::{
    Single, Tells, assert_full, burst, eal, frame, open, packet, pool, send, start, unique, wait_for,
};

const DRIVERS: [&str; 2] = ["net_kernel", "net_af_packet"];

fn device(driver: &str) -> String {
    format!("{driver}{},iface=left", unique())
}

fn state(port: &Single) -> LinkState {
    port.port.link().unwrap().state
}

/// The kernel may tell of a link that goes or comes a little later.
fn becomes(port: &Single, wanted: LinkState) {
    wait_for(&format!("{wanted:?} of {}", port.port.name()), || state(port) == wanted);
}

/// Frames pass both ways between the port and the kernel's end of the cable. The kernel tells once that the
/// interface was down: a first frame may be lost.
fn assert_carries(tx: &mut TxQueue, rx: &mut [RxQueue], seed: u8, pool: &Mempool) {
    let kernel = RawSocket::on("right");
    let (there, back) = (frame(seed, 200), frame(seed.wrapping_add(1), 300));
    wait_for("the frame that was sent", || {
        send(tx, burst([packet(pool, &there)]));
        kernel.receive().is_some_and(|bytes| bytes == there)
    });
    wait_for("the frame to receive", || {
        kernel.send(&back);
        let mut batch = ArrayVec::<Mbuf, 32>::new();
        rx.iter_mut().for_each(|queue| _ = queue.rx(&mut batch));
        batch.iter().any(|packet| packet.bytes() == back)
    });
}

#[test]
fn an_interface_made_anew_is_used_again() {
    for driver in DRIVERS {
        in_namespace(move || {
            veth("left", "right");
            let eal = eal();
            let pool = pool(&eal, 127);
            let mut port = start(&eal, &device(driver), &pool);
            let mac = port.port.mac().unwrap();
            let stats = port.port.stats();
            for round in 0..20 {
                let before = stats.read().unwrap();
                assert_carries(&mut port.tx, std::slice::from_mut(&mut port.rx), round, &pool);
                let after = stats.read().unwrap();
                assert!(after.tx_packets > before.tx_packets && after.rx_packets > before.rx_packets);
                assert!(stats.interface_received() >= Some(1), "{driver}: by the kernel's count");
                becomes(&port, LinkState::Up);

                ip("link del left");
                assert_eq!(state(&port), LinkState::Missing, "{driver}");
                assert_eq!(stats.interface_received(), None, "{driver}");
                // Nothing there, and no error either.
                assert_eq!(port.rx.rx(&mut ArrayVec::<Mbuf, 32>::new()), 0);
                port.tx.tx(&mut burst([packet(&pool, &frame(round, 200))]));
                assert!(port.port.stats().reopen().is_err(), "there is nothing to open");

                veth("left", "right");
                assert_eq!(state(&port), LinkState::Replaced, "{driver}");
                stats.reopen().unwrap_or_else(|error| panic!("{driver}: {error}"));
                assert!(stats.read().unwrap().tx_packets >= after.tx_packets, "counters go on");
                assert_eq!(pool.in_use(), 0, "{driver}");
            }
            assert_eq!(port.port.mac().unwrap(), mac);
            drop(port);
            assert_full(&pool);
        });
    }
}

/// As it is in the appliance: another thread owns the queues and keeps polling them.
#[test]
fn queues_stay_with_their_lcores() {
    for driver in DRIVERS {
        in_namespace(move || {
            veth("left", "right");
            let eal = eal();
            let pool = pool(&eal, 1023);
            let queues = if driver == "net_af_packet" { ",qpairs=2" } else { "" };
            let config = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
            let started = open(&eal, &format!("{}{queues}", device(driver)))
                .start(&config, std::slice::from_ref(&pool));
            let StartedPort { port, mut rx, mut tx } = started.unwrap_or_else(|failure| panic!("{failure}"));
            let over = AtomicBool::new(false);
            let stats = port.stats();
            thread::scope(|scope| {
                let polls = scope.spawn(|| {
                    while !over.load(Relaxed) {
                        for (rx, tx) in rx.iter_mut().zip(&mut tx) {
                            rx.rx(&mut ArrayVec::<Mbuf, 32>::new());
                            tx.tx(&mut burst([packet(&pool, &frame(0, 100))]));
                        }
                    }
                });
                let told = Tells(&over);
                for _ in 0..20 {
                    ip("link del left");
                    veth("left", "right");
                    stats.reopen().unwrap_or_else(|error| panic!("{driver}: {error}"));
                    wait_for("the link", || port.link().unwrap().is_up());
                    let sent = stats.read().unwrap().tx_packets;
                    wait_for("packets on the new interface", || stats.read().unwrap().tx_packets > sent);
                }
                drop(told);
                polls.join().unwrap();
            });
            assert_carries(&mut tx[0], &mut rx, 7, &pool);
            drop((port, rx, tx));
            assert_full(&pool);
        });
    }
}

/// A number is no proof that it is the same one.
#[test]
fn an_interface_of_the_same_number_is_another_one() {
    for driver in DRIVERS {
        in_namespace(move || {
            let make = || {
                ip("link add left index 77 type veth peer name right");
                ip("link set left up");
                ip("link set right up");
            };
            make();
            let eal = eal();
            let pool = pool(&eal, 127);
            let mut port = start(&eal, &device(driver), &pool);
            ip("link del left");
            make();
            assert_eq!(state(&port), LinkState::Replaced, "{driver}");
            port.port.stats().reopen().unwrap();
            becomes(&port, LinkState::Up);
            assert_carries(&mut port.tx, std::slice::from_mut(&mut port.rx), 1, &pool);
        });
    }
}

#[test]
fn a_link_is_down_off_or_renamed() {
    for driver in DRIVERS {
        in_namespace(move || {
            veth("left", "right");
            let eal = eal();
            let pool = pool(&eal, 127);
            let mut port = start(&eal, &device(driver), &pool);
            ip("link set right down");
            becomes(&port, LinkState::Down);
            ip("link set left down");
            becomes(&port, LinkState::Off);
            ip("link set right up");
            ip("link set left up");
            becomes(&port, LinkState::Up);

            ip("link set left down");
            ip("link set left name other");
            ip("link set other up");
            becomes(&port, LinkState::Up);
            assert_eq!(port.port.link().unwrap().renamed.as_deref(), Some("other"), "{driver}");
            assert_carries(&mut port.tx, std::slice::from_mut(&mut port.rx), 1, &pool);

            // The interface with the name counts, although the old one still exists.
            ip("link set right name former");
            ip("link add left type veth peer name right");
            becomes(&port, LinkState::Replaced);
            port.port.stats().reopen().unwrap();
            becomes(&port, LinkState::Off);
            ip("link set left up");
            ip("link set right up");
            assert_carries(&mut port.tx, std::slice::from_mut(&mut port.rx), 2, &pool);
        });
    }
}

#[test]
fn an_interface_that_is_too_narrow_is_not_taken() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let config = PortConfig { mtu: Some(1500), ..PortConfig::default() };
        let started = open(&eal, &device("net_kernel")).start(&config, std::slice::from_ref(&pool));
        let StartedPort { port, .. } = started.unwrap_or_else(|failure| panic!("{failure}"));
        ip("link del left");
        veth("left", "right");
        ip("link set left mtu 1400");
        let refused = port.stats().reopen().unwrap_err();
        assert!(matches!(refused, ReopenError::Mtu { has: 1400, mtu: 1500, .. }), "{refused}");
        assert_eq!(port.link().unwrap().state, LinkState::Replaced);
        ip("link set left mtu 1500");
        port.stats().reopen().unwrap();
        wait_for("the link", || port.link().unwrap().is_up());
    });
}

/// It cannot be seen from outside whether a driver gives its interface up; such a one is only watched.
#[test]
fn a_driver_that_cannot_open_it_anew_says_so() {
    in_namespace(|| {
        veth("left", "right");
        let eal = eal();
        let pool = pool(&eal, 127);
        let port = start(&eal, &format!("net_null{}", unique()), &pool);
        let refused = port.port.stats().reopen().unwrap_err();
        assert!(matches!(refused, ReopenError::Driver { .. }), "{refused}");
    });
}
