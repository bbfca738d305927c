//! Updates through an appliance on real DPDK ports: workers and a server on sockets of the kernel, each in a
//! network namespace of its own.

use std::net::UdpSocket;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pascaline_wire::control::{Action, Control, SERVER_RANK, Status};
use pascaline_wire::trailer::{QueueState, Update};
use pascaline_wire::{Element, Flags, Header, Kind, Trailer};

use crate::common::appliance::{Appliance, OLAF_JOB, SERVER_PORT, SOON, UDP_PORT, Wanted};
use crate::common::net::{Network, possible};
use crate::common::until;

const RANKS: u16 = 2;
const FLOATS: usize = 256;

/// A host that speaks the protocol.
struct Host {
    socket: UdpSocket,
    rank: u16,
    epoch: u16,
}

/// What a host has heard.
#[derive(Debug)]
struct Heard {
    header: Header,
    values: Vec<f32>,
    trailer: Trailer,
}

impl Host {
    fn new(network: &Network, at: usize, port: u16, rank: u16) -> Self {
        let socket = network.workers[at].within(|| {
            let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
            // Here, since it looks for the route.
            socket.connect(("10.77.0.254", UDP_PORT)).unwrap();
            socket
        });
        socket.set_nonblocking(true).unwrap();
        Self { socket, rank, epoch: 0 }
    }

    fn send(&self, header: &Header, body: &[u8]) {
        self.socket.send(&[&header.to_bytes()[..], body].concat()).unwrap();
    }

    fn header(&self, kind: Kind, psn: u32, count: u16) -> Header {
        let fan_in = if self.rank == SERVER_RANK { 0 } else { RANKS };
        Header {
            rank: self.rank,
            psn,
            fan_in,
            count,
            ..Header::about(kind, Element::F32_SUM, OLAF_JOB, self.epoch)
        }
    }

    /// Sends a request and takes on the epoch that the answer has.
    fn ask(&mut self, action: Action) -> Status {
        let (status, cookie) = self.ask_with(action, 0);
        // The first answer to a Join gives the cookie that the next one needs.
        if action == Action::Join { self.ask_with(action, cookie).0 } else { status }
    }

    fn ask_with(&mut self, action: Action, cookie: u64) -> (Status, u64) {
        let payload = if action == Action::Join { u16::try_from(4 * FLOATS).unwrap() } else { 0 };
        let control = Control { payload, window: 8, cookie, ..Control::request(action, 1) };
        let header = Header { epoch: 0, ..self.header(Kind::Control, 0, 0) };
        self.send(&header, &control.to_bytes());
        let (header, control) = until("an answer", SOON, || {
            self.datagrams().into_iter().find_map(|bytes| {
                let (header, body) = Header::parse(&bytes).unwrap();
                (header.kind == Kind::Control).then(|| (header, Control::parse(body).unwrap()))
            })
        });
        self.epoch = header.epoch;
        (control.status, control.cookie)
    }

    fn datagrams(&self) -> Vec<Vec<u8>> {
        let mut room = [0; 2048];
        std::iter::from_fn(|| self.socket.recv(&mut room).ok().map(|len| room[..len].to_vec())).collect()
    }

    /// Updates or answers that have come.
    fn heard(&self) -> Vec<Heard> {
        let parse = |bytes: Vec<u8>| {
            let (header, body) = Header::parse(&bytes).unwrap();
            let (payload, trailer) = header.payload(body).unwrap();
            let values =
                payload.chunks(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect();
            Heard { header, values, trailer: trailer.expect("a trailer") }
        };
        self.datagrams().into_iter().map(parse).collect()
    }

    /// Sends an update whose elements are all 1.
    fn update(&self, psn: u32) {
        let update = Update { reward: 2.5, generated_ns: unix_ns() };
        let header = Header { flags: Flags::TRAILER, ..self.header(Kind::Update, psn, 1) };
        self.send(&header, &body(1.0, update));
    }

    /// Answers an update with weights of this value.
    fn answer(&self, to: &Header, update: Update, weight: f32) {
        let header = Header { kind: Kind::Ack, flags: to.flags.with(Flags::TRAILER), ..*to };
        self.send(&header, &body(weight, update));
    }
}

impl Host {
    /// Waits for so many answers; the first is this one, with the state of the queue.
    fn hears(&self, answers: usize, to: &Header, update: Update, weight: f32) {
        let mut heard = Vec::new();
        until("answers", SOON, || {
            heard.extend(self.heard());
            (heard.len() == answers).then_some(())
        });
        let Heard { header, values, trailer } = &heard[0];
        assert_eq!((header.kind, header.rank, header.psn), (Kind::Ack, to.rank, to.psn));
        assert_eq!(values, &vec![weight; FLOATS]);
        assert_eq!(trailer.update, Some(update));
        let QueueState { clusters, capacity, waiting } = trailer.queue.expect("the queue's state");
        assert_eq!((capacity, waiting), (8, 0));
        assert!(clusters <= 1);
    }
}

/// Elements of this value, and what is said about an update.
fn body(value: f32, update: Update) -> Vec<u8> {
    let trailer = Trailer { update: Some(update), ..Trailer::default() };
    let mut behind = vec![0; trailer.emitted_len()];
    trailer.emit(&mut behind).unwrap();
    [value.to_le_bytes().repeat(FLOATS), behind].concat()
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

fn updates_are_combined_and_answers_stamped(wanted: Wanted) {
    const EACH: u32 = 60;
    let network = Network::new(3);
    let mut appliance = Appliance::start(&network, Wanted { olaf: true, ..wanted });
    let mut server = Host::new(&network, 2, SERVER_PORT, SERVER_RANK);
    assert_eq!(server.ask(Action::Serve), Status::Ok);
    let mut workers = [0, 1].map(|rank: u16| Host::new(&network, rank.into(), 40_000, rank));
    assert_eq!(workers.each_mut().map(|worker| worker.ask(Action::Join)), [Status::Pending, Status::Ok]);
    assert_eq!(workers[0].ask(Action::Join), Status::Ok);

    // An update of 1 KiB takes nine milliseconds at a million bits per second: these come faster.
    let mut served = Vec::new();
    for psn in 0..EACH {
        workers.iter().for_each(|worker| worker.update(psn));
        std::thread::sleep(Duration::from_millis(1));
        served.extend(server.heard());
    }
    let metrics = appliance.metrics_when("an empty queue", |m| {
        m.sum("olaf_queue_depth", "") == 0 && m.sum("olaf_received_total", "") == u64::from(2 * EACH)
    });
    until("the last update", SOON, || {
        served.extend(server.heard());
        (served.len() as u64 == metrics.sum("olaf_departed_total", "")).then_some(())
    });
    for Heard { header, values, trailer } in &served {
        assert_eq!((header.kind, header.job, header.fan_in), (Kind::Update, OLAF_JOB, RANKS));
        assert_eq!(values, &vec![f32::from(header.count); FLOATS], "the sum of as many");
        assert_eq!(trailer.update.unwrap().reward.to_bits(), 2.5f32.to_bits());
    }
    let counted = |name: &str| metrics.sum(&format!("olaf_{name}"), "port=\"p2\"");
    // One cluster never fills a queue of eight: every update has been combined, replaced, or has left.
    let contributions: u64 = served.iter().map(|heard| u64::from(heard.header.count)).sum();
    assert_eq!(contributions + counted("replaced_total"), u64::from(2 * EACH), "{}", metrics.text);
    assert_eq!(counted("appended_total"), counted("departed_total"));
    assert!(served.len() < 60, "{} have left: most have been combined", served.len());
    assert_eq!(counted("aggregations_per_update_count"), counted("departed_total"));
    assert_eq!(counted("aggregations_per_update_sum"), counted("aggregated_total"));
    assert_eq!((counted("queue_capacity"), counted("dropped_total")), (8, 0));

    // One answer for all, and one for the second rank alone.
    let (last, update) = (served[0].header, served[0].trailer.update.unwrap());
    server.answer(&last, update, 0.5);
    server.answer(&Header { rank: 1, flags: Flags::BYPASS, ..last }, update, 0.25);
    workers.iter().zip([1, 2]).for_each(|(worker, answers)| worker.hears(answers, &last, update, 0.5));
    let metrics = appliance.metrics_when("answers", |m| m.packets("acks_sent") == 3);
    assert_eq!(metrics.packets("dropped"), 0, "{}", metrics.text);
    appliance.terminate();
    appliance.ends_well();
}

#[test]
fn updates_are_combined_on_one_lcore() {
    if possible() {
        updates_are_combined_and_answers_stamped(Wanted::default());
    }
}

#[test]
fn updates_are_combined_on_two_lcores() {
    if possible() {
        updates_are_combined_and_answers_stamped(Wanted { two_lcores: true, ..Wanted::default() });
    }
}
