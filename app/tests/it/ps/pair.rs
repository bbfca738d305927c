//! The server as a process, and who it takes for its appliance.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::trailer::{Bitmap, Trailer};
use pascaline_wire::{Element, Flags, Header, Kind};

use crate::common::{Files, Process};

/// For what takes milliseconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(8);
pub(crate) const JOB: u16 = 7;
pub(crate) const RANKS: u16 = 3;
pub(crate) const PAYLOAD: u16 = 64;

/// Loopback addresses that no other test has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hosts(u8);

impl Hosts {
    pub(crate) const APPLIANCE: u8 = 0;
    pub(crate) const SERVER: u8 = 1;
    pub(crate) const STRANGER: u8 = 2;
    pub(crate) const SCRAPED: u8 = 3;

    pub(crate) fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        Self(4 * NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn host(self, number: u8) -> Ipv4Addr {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // Never 127.0.0.x, where everybody else is.
        Ipv4Addr::new(127, high.max(1), low, self.0 + number)
    }

    pub(crate) fn appliance(self) -> SocketAddr {
        SocketAddr::from((self.host(Self::APPLIANCE), 16420))
    }

    pub(crate) fn server(self) -> SocketAddr {
        SocketAddr::from((self.host(Self::SERVER), 16421))
    }
}

pub(crate) fn configuration(hosts: Hosts, jobs: &str) -> String {
    let (appliance, server) = (hosts.appliance().ip(), hosts.server().ip());
    format!(
        "[appliance]
addresses = [\"{appliance}\"]

[dataplane]
main_core = 0
cores = [1]

[[ports]]
name = \"p0\"
device = \"net_null0\"

[[jobs]]
id = {JOB}
fan_in = {RANKS}
{jobs}

[ps]
mode = \"external\"
address = \"{server}\"
"
    )
}

/// A server, and who it takes for its appliance.
pub(crate) struct Pair {
    pub(crate) process: Process,
    pub(crate) appliance: UdpSocket,
    pub(crate) hosts: Hosts,
    /// From the latest Serve.
    session: u64,
    number: u32,
    /// What it has been told last, which it is told again whenever it asks.
    told: Option<(Header, Vec<u8>)>,
    _files: Files,
}

impl Pair {
    pub(crate) fn start(more: &str) -> Self {
        Self::start_at(Hosts::new(), more)
    }

    pub(crate) fn start_at(hosts: Hosts, more: &str) -> Self {
        let files = Files::new();
        let text = format!("{}{more}", configuration(hosts, "kind = \"dsa\""));
        let config = files.write("appliance.toml", &text);
        let appliance = UdpSocket::bind(hosts.appliance()).unwrap();
        appliance.set_read_timeout(Some(SOON)).unwrap();
        let process = Process::start(None, &["ps", "-c", config.to_str().unwrap(), "--json"]);
        Self { process, appliance, hosts, session: 0, number: 0, told: None, _files: files }
    }

    /// The next datagram of the server that is not a Serve.
    pub(crate) fn hear(&mut self) -> (Header, Vec<u8>) {
        loop {
            let (header, body) = self.hear_anything();
            if header.kind != Kind::Control {
                return (header, body);
            }
            if let Some((header, body)) = &self.told {
                self.send(&Header { psn: self.number, ..*header }, body);
            }
        }
    }

    pub(crate) fn hear_anything(&mut self) -> (Header, Vec<u8>) {
        let mut room = [0; 2048];
        let (length, from) = self.appliance.recv_from(&mut room).unwrap_or_else(|error| {
            panic!("nothing from the server: {error}\n{}", self.process.err());
        });
        assert_eq!(from, self.hosts.server());
        let (header, body) = Header::parse(&room[..length]).unwrap();
        if header.kind == Kind::Control {
            let control = Control::parse(body).unwrap();
            assert_eq!((header.job, header.rank, header.epoch), (JOB, u16::MAX, 0));
            assert_eq!((control.action, control.answers), (Action::Serve, None));
            (self.session, self.number) = (control.session, control.number);
        }
        (header, body.to_vec())
    }

    pub(crate) fn send(&self, header: &Header, body: &[u8]) {
        let datagram = [&header.to_bytes()[..], body].concat();
        assert_eq!(self.appliance.send_to(&datagram, self.hosts.server()).unwrap(), datagram.len());
    }

    /// Waits for two Serves, and answers the first as long as nobody has joined: the server sees the
    /// generation from its beginning.
    pub(crate) fn begin(&mut self, epoch: u16) {
        self.answer(epoch, Status::Ok, 0);
        self.acknowledge(epoch, Status::Ok);
    }

    /// Whether another Serve waits to be read.
    fn has_newer(&self) -> bool {
        let mut start = [0; 2];
        self.appliance.set_nonblocking(true).unwrap();
        let next = self.appliance.peek(&mut start);
        self.appliance.set_nonblocking(false).unwrap();
        next.is_ok() && start[1] == Kind::Control as u8
    }

    /// Waits for a Serve, and answers it.
    pub(crate) fn acknowledge(&mut self, epoch: u16, status: Status) {
        self.answer(epoch, status, PAYLOAD);
    }

    fn answer(&mut self, epoch: u16, status: Status, payload: u16) {
        // An answer to another than the latest Serve would not be taken.
        while self.hear_anything().0.kind != Kind::Control || self.has_newer() {}
        let (answers, number) = (Some(Action::Serve), self.number);
        let ack = Control::request(Action::Ack, self.session);
        let control = Control { status, answers, number, joined: RANKS, payload, ..ack };
        let about = Header::about(Kind::Control, Element::F32_SUM, JOB, epoch);
        let header = Header { rank: u16::MAX, fan_in: RANKS, flags: Flags::BYPASS, ..about };
        self.send(&header, &control.to_bytes());
        self.told = Some((header, control.to_bytes().to_vec()));
    }

    /// Ends it, and gives the counters that it prints.
    pub(crate) fn ends_well(mut self) -> serde_json::Value {
        self.process.signal(Signal::SIGTERM);
        let ended = self.process.wait(SOON);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    }
}

/// What the appliance passes on of a rank that lost a conflict.
pub(crate) fn gradient(rank: u16, psn: u32, epoch: u16) -> Header {
    Header {
        flags: Flags::BYPASS,
        rank,
        psn,
        fan_in: RANKS,
        count: 1,
        ..Header::about(Kind::Gradient, Element::F32_SUM, JOB, epoch)
    }
}

/// A partial of the first two ranks, with all that follows its header.
pub(crate) fn partial(psn: u32, epoch: u16, sum: f32) -> (Header, Vec<u8>) {
    let mut bitmap = Bitmap::new(RANKS).unwrap();
    assert!(bitmap.insert(0) && bitmap.insert(1));
    let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
    let mut body = vec![0; 4 + trailer.emitted_len()];
    body[..4].copy_from_slice(&sum.to_le_bytes());
    trailer.emit(&mut body[4..]).unwrap();
    let header = Header { kind: Kind::Partial, flags: Flags::TRAILER, count: 2, ..gradient(0, psn, epoch) };
    (header, body)
}
