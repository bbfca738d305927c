//! Ranks made by hand, frame by frame, and what a frame that must be dropped does to the counters.

use std::net::UdpSocket;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Address, Element, Header, Kind, Mac, VlanTags};

use super::appliance::{Appliance, SOON, UDP_PORT, source};
use super::net::{APPLIANCE, Network, port_mac, worker_mac};
use super::raw::{Raw, sum_ip};

/// Where the layers of an untagged frame begin.
pub(crate) const ETHERTYPE: usize = 12;
pub(crate) const IP: usize = 14;
pub(crate) const UDP: usize = 34;
pub(crate) const BODY: usize = 42;
pub(crate) const PAYLOAD: usize = BODY + 22;
/// The port that the ranks of these tests send from.
pub(crate) const PORT: u16 = 40000;
/// The job that has formed, and one that nobody has joined.
pub(crate) const JOB: u16 = 2;
pub(crate) const EMPTY_JOB: u16 = 3;

fn gradient(rank: u16, epoch: u16) -> Header {
    Header {
        rank,
        psn: 7,
        fan_in: 2,
        count: 1,
        ..Header::about(Kind::Gradient, Element::I32_SUM, JOB, epoch)
    }
}

/// The frame that rank 0 or 1 of this network would send.
pub(crate) fn frame(from: u8, header: &Header, payload: &[u8]) -> Vec<u8> {
    let path = Path {
        dst_mac: Mac(port_mac(from)),
        src_mac: Mac(worker_mac(from)),
        vlan: VlanTags::NONE,
        dst: Address::from_v4(APPLIANCE),
        src: Address::from_v4([10, 77, 0, from + 1]),
        dst_port: UDP_PORT,
        src_port: PORT,
        class: 0,
    };
    let mut bytes = vec![0; PAYLOAD];
    let length = Template::new(&path).write(&mut bytes, header, payload).unwrap();
    assert_eq!(length, PAYLOAD);
    bytes.extend_from_slice(payload);
    bytes
}

/// Cuts or fills a frame to this many bytes, with lengths and checksum to match.
pub(crate) fn resize(bytes: &mut Vec<u8>, length: usize) {
    bytes.resize(length, 0);
    bytes[IP + 2..IP + 4].copy_from_slice(&u16::try_from(length - IP).unwrap().to_be_bytes());
    bytes[UDP + 4..UDP + 6].copy_from_slice(&u16::try_from(length - UDP).unwrap().to_be_bytes());
    sum_ip(bytes, IP);
}

/// A join of rank 0 or 1.
pub(crate) fn join(rank: u8, cookie: u64) -> Vec<u8> {
    let body = Control { payload: 64, window: 16, cookie, ..Control::request(Action::Join, 1) }.to_bytes();
    let header = Header {
        kind: Kind::Control,
        element: Element::F32_SUM,
        psn: 0,
        count: 0,
        ..gradient(u16::from(rank), 0)
    };
    frame(rank, &header, &body)
}

/// Both ranks of the job, made by hand: a raw socket to send, and a socket that the answers go to, so that
/// the kernel does not complain about them to the appliance.
pub(crate) struct Ranks {
    raw: [Raw; 2],
    ears: [UdpSocket; 2],
    pub(crate) epoch: u16,
    /// The first PSN of the generation.
    pub(crate) base: u32,
}

impl Ranks {
    pub(crate) fn join(network: &Network) -> Self {
        let ranks = [0u8, 1];
        let raw = ranks.map(|rank| Raw::open(&network.workers[usize::from(rank)]));
        let ears = ranks.map(|rank| {
            network.workers[usize::from(rank)].within(|| UdpSocket::bind(source(rank, PORT)).unwrap())
        });
        ears.iter().for_each(|ear| ear.set_read_timeout(Some(SOON)).unwrap());
        let mut this = Self { raw, ears, epoch: 0, base: 0 };
        for (rank, status) in [(0, Status::Pending), (1, Status::Ok)] {
            let mut cookie = 0;
            for expected in [Status::Pending, status] {
                this.send(rank.into(), &join(rank, cookie));
                let (header, body) = this.hear(rank.into());
                let ack = Control::parse(&body).unwrap();
                assert_eq!(ack.status, expected);
                (cookie, this.epoch, this.base) = (ack.cookie, header.epoch, ack.psn);
            }
        }
        this
    }

    /// The header of a gradient.
    pub(crate) fn gradient(&self, rank: u16) -> Header {
        Header { psn: self.base.wrapping_add(7), ..gradient(rank, self.epoch) }
    }

    pub(crate) fn send(&self, rank: usize, bytes: &[u8]) {
        self.raw[rank].send(bytes);
    }

    /// The next datagram from the appliance.
    fn hear(&self, rank: usize) -> (Header, Vec<u8>) {
        let mut room = [0; 2048];
        let length = self.ears[rank].recv(&mut room).unwrap();
        let (header, rest) = Header::parse(&room[..length]).unwrap();
        (header, rest.to_vec())
    }

    /// The next datagram that is not about a refusal of something earlier.
    pub(crate) fn hear_result(&self, rank: usize) -> (Header, Vec<u8>) {
        loop {
            let heard = self.hear(rank);
            if heard.0.kind == Kind::Result {
                return heard;
            }
        }
    }
}

/// Sends a frame that must be dropped for this reason, and for nothing else.
#[track_caller]
pub(crate) fn dropped(
    appliance: &Appliance<'_>,
    ranks: &Ranks,
    from: usize,
    bytes: &[u8],
    reason: &str,
    what: &str,
) {
    let before = appliance.metrics_when("nothing under way", |_| true);
    ranks.send(from, bytes);
    let after = appliance.metrics_when(&format!("{what}: one more {reason}"), |now| {
        now.packets("dropped") > before.packets("dropped")
    });
    assert_eq!(
        after.dropped(reason),
        before.dropped(reason) + 1,
        "{what}: not counted as {reason}:\n{}",
        after.changes_since(&before)
    );
    assert_eq!(
        after.packets("dropped"),
        before.packets("dropped") + 1,
        "{what}:\n{}",
        after.changes_since(&before)
    );
    for untouched in ["absorbed", "forwarded", "results_sent"] {
        assert_eq!(after.packets(untouched), before.packets(untouched), "{what}: {untouched}");
    }
}
