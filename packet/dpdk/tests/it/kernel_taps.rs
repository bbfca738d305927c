//! Ports over packet sockets, on interfaces whose other end is the test: frames that are too long, that the
//! kernel cannot describe, and what a card has joined.
#![allow(unsafe_code, reason = "system calls that the standard library does not have")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk::port::Stats;
use pascaline_dpdk::{Mbuf, PortConfig, StartedPort};

use crate::common::netns::{in_namespace, ip};
use crate::common::{Single, eal, open, pool, unique, wait_for};

const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 7];
/// A long datagram to be cut into fragments: packet sockets have no word for it.
const FRAGMENTS: u8 = 3;
const TCP4: u8 = 1;

/// An interface; what is written here arrives there.
struct Tap(File);

impl Tap {
    fn open(name: &str) -> Self {
        const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
        let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: numbers and arrays of them, for which zero is valid; it lives during the call.
        let status = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *place = byte.cast_signed();
            }
            let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
            request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap();
            libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request)
        };
        assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
        ip(&format!("link set {name} up mtu 9000"));
        Self(file)
    }

    /// A frame of a kind that is to be cut into pieces of a size; of kind 0 it is none.
    fn arrives(&mut self, kind: u8, size: u16, frame: &[u8]) {
        let [low, high] = size.to_ne_bytes();
        let written = self.0.write(&[&[0, kind, 0, 0, low, high, 0, 0, 0, 0], frame].concat());
        assert_eq!(written.unwrap(), 10 + frame.len());
    }
}

fn ipv4(mac: [u8; 6], protocol: u8, behind: &[u8]) -> Vec<u8> {
    let mut frame = [&mac[..], &[2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]].concat();
    frame.extend(u16::try_from(20 + behind.len()).unwrap().to_be_bytes());
    frame.extend([0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    [frame, behind.to_vec()].concat()
}

/// Starts a port in line or not, and a tap at its other end.
fn ends(in_line: bool, test: impl FnOnce(Tap, [u8; 6], &mut dyn FnMut(usize) -> (Vec<Mbuf>, Stats))) {
    let tap = Tap::open("left");
    let eal = eal();
    let pool = pool(&eal, 127);
    let config = PortConfig { promiscuous: in_line, ..PortConfig::default() };
    let device = format!("net_kernel{},iface=left", unique());
    let started = open(&eal, &device).start(&config, std::slice::from_ref(&pool));
    let StartedPort { port, mut rx, mut tx } = started.unwrap_or_else(|failure| panic!("{failure}"));
    let mut single = Single { port, rx: rx.remove(0), tx: tx.remove(0) };
    let mac = single.port.mac().unwrap();
    // Polls until `count` frames have come, or have been lost.
    test(tap, mac, &mut |count| {
        let mut got = Vec::new();
        let mut stats = Stats::default();
        wait_for("frames", || {
            let mut batch = ArrayVec::<Mbuf, 32>::new();
            single.rx.rx(&mut batch);
            got.extend(batch.into_iter().filter(|packet| packet.bytes().get(12..14) == Some(&[8, 0])));
            stats = single.port.stats().read().unwrap();
            got.len() + usize::try_from(stats.rx_errors + stats.rx_no_buffer).unwrap() >= count
        });
        (got, stats)
    });
}

fn datagram(length: u16) -> Vec<u8> {
    let ports = [1, 2, 3, 4];
    [&ports[..], &length.to_be_bytes(), &[0, 0], &vec![9; usize::from(length) - 8]].concat()
}

/// The receiver learns of it from the beginning; no other gets a part of it.
#[test]
fn a_frame_without_room_goes_on_to_nobody() {
    in_namespace(|| {
        ends(false, |mut tap, mac, rx| {
            tap.arrives(0, 0, &ipv4(mac, 17, &datagram(3000)));
            let (got, stats) = rx(1);
            assert_eq!((got.len(), got[0].total_len(), stats.rx_no_buffer), (1, 2048, 0));
        });
    });
    in_namespace(|| {
        ends(true, |mut tap, mac, rx| {
            tap.arrives(0, 0, &ipv4(OTHER, 17, &datagram(3000)));
            tap.arrives(0, 0, &ipv4(mac, 17, &datagram(3000)));
            tap.arrives(0, 0, &ipv4(OTHER, 17, &datagram(300)));
            let (got, stats) = rx(3);
            let lengths: Vec<usize> = got.iter().map(Mbuf::total_len).collect();
            assert_eq!((lengths, stats.rx_errors), (vec![2048, 334], 1));
        });
    });
}

#[test]
fn what_the_kernel_cannot_describe_is_counted() {
    in_namespace(|| {
        ends(false, |mut tap, mac, rx| {
            tap.arrives(FRAGMENTS, 1000, &ipv4(mac, 17, &datagram(3000)));
            let (got, stats) = rx(1);
            assert_eq!((got.len(), stats.rx_errors), (0, 1));
        });
    });
}

/// Segments that a card has joined, whose headers the kernel does not point at.
#[test]
fn what_a_card_has_joined_is_cut() {
    in_namespace(|| {
        ends(true, |mut tap, _, rx| {
            let header = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 7, 7, 0, 0];
            tap.arrives(TCP4, 1000, &ipv4(OTHER, 6, &[&header[..], &[5; 2500]].concat()));
            let (got, _) = rx(3);
            let lengths: Vec<usize> = got.iter().map(Mbuf::total_len).collect();
            assert_eq!(lengths, [1054, 1054, 554]);
        });
    });
}
