//! Asynchronous updates over several appliances: queue behind queue on the way up, and the bottleneck's state
//! on the way down (Olaf, sections 5, 7 and 8.3).

mod faults;

use core::num::NonZeroU64;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode, UplinkState};
use pascaline_pipelines::updates::Fate;
use pascaline_queue::Config;
use pascaline_telemetry::{DropReason, JobEvent};
use pascaline_testkit::{Heard, JOB, Worker, bytes, emitted, values};
use pascaline_wire::control::{APPLIANCE_RANK, Action, SERVER_RANK, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{QueueState, Trailer, Update};

use super::tree::{Below, Tree};
use crate::common::appliance::job;

/// Two leaves of two workers each, and three levels with a leaf of one rank at each end.
const TWO: &[(u16, Option<(usize, u16)>)] = &[(2, None), (2, Some((0, 0))), (2, Some((0, 1)))];
const THREE: &[(u16, Option<(usize, u16)>)] = &[(1, None), (1, Some((0, 0))), (2, Some((1, 0)))];

/// The host that the server runs on.
fn host() -> Worker {
    Worker {
        mac: Mac([2, 0, 0, 0, 0, 200]),
        address: Address::from_v4([10, 77, 0, 200]),
        udp_port: 16421,
        rank: SERVER_RANK,
        fan_in: 0,
        ..Worker::new(0, 4)
    }
}

fn like() -> JobSpec {
    let server = ServerMode::External { address: host().address, udp_port: host().udp_port };
    JobSpec { kind: JobKind::Updates { server }, ..job(JOB, 2) }
}

fn queue(segments: u16, rate: u64) -> PortQueue {
    PortQueue { queue: Config { segments, ..Config::default() }, rate: NonZeroU64::new(rate) }
}

/// Slow: an update of 16 bytes takes 100 ms and more.
const SLOW: u64 = 10_000;

/// A tree whose workers have joined, and whose server has registered at the root.
struct Rig {
    tree: Tree,
    all: Vec<Below>,
    server: Worker,
}

impl Rig {
    fn new(shape: &[(u16, Option<(usize, u16)>)], queues: &[PortQueue]) -> Self {
        let tree = Tree::with_queues(shape, queues, &like());
        let lowest =
            (0..shape.len()).filter(|&at| shape.iter().all(|(_, up)| up.is_none_or(|up| up.0 != at)));
        let all = lowest.flat_map(|leaf| tree.below(leaf)).collect();
        let mut rig = Self { tree, all, server: host() };
        rig.tree.form(&mut rig.all, 0);
        rig.register();
        rig
    }

    fn register(&mut self) {
        let fresh = Worker { fan_in: 0, epoch: 0, ..self.server };
        self.tree.nodes[0].io().arrive(0, &fresh.control(Action::Serve));
        self.tree.pass(1);
        let ack = self.served(Kind::Control).pop().expect("an answer");
        assert_eq!((ack.control().status, ack.control().answers), (Status::Ok, Some(Action::Serve)));
        (self.server.fan_in, self.server.epoch) = (ack.header.fan_in, ack.header.epoch);
    }

    /// Lets so much time pass, in steps of 10 ms; the server says that it is there.
    fn pass(&mut self, steps: usize) {
        for step in 0..steps {
            if step % 20 == 0 {
                let fresh = Worker { fan_in: 0, epoch: 0, ..self.server };
                self.tree.nodes[0].io().arrive(0, &fresh.control(Action::Serve));
            }
            self.tree.pass(1);
        }
    }

    /// What the server has heard since the last call, of one kind; what else it has heard is forgotten.
    fn served(&mut self, kind: Kind) -> Vec<Heard> {
        let root = Below { leaf: 0, worker: host(), ..self.all[0] };
        let mut heard = self.tree.heard_by(&root);
        heard.retain(|heard| heard.header.kind == kind);
        heard
    }

    fn updates(&mut self) -> Vec<(Header, Vec<i32>)> {
        let parse = |heard: Heard| (heard.header, values(heard.header.payload(&heard.body).unwrap().0));
        self.served(Kind::Update).into_iter().map(parse).collect()
    }

    /// A worker sends an update of these values, generated now.
    fn push(&mut self, at: usize, psn: u32, values: &[i32]) {
        let below = self.all[at];
        let frame = update(&below.worker, psn, 1, values, self.now(below.leaf));
        self.tree.send(&below, &frame);
        self.pass(1);
    }

    fn now(&self, node: usize) -> u64 {
        self.tree.nodes[node].clock.now()
    }

    /// The server answers what it has heard, with weights.
    fn answer(&mut self, header: &Header, flags: Flags, generated_ns: u64) {
        let about = Update { reward: 0.0, generated_ns };
        let end = emitted(&Trailer { update: Some(about), ..Trailer::default() });
        let flags = flags.with(Flags::TRAILER);
        let ack = Header { flags, ..self.server.header(Kind::Ack, header.psn, header.count) };
        let ack = Header { rank: header.rank, ..ack };
        let frame = self.server.frame(&ack, &[bytes(&[7, 7]), end].concat());
        self.tree.nodes[0].io().arrive(0, &frame);
        self.tree.pass(1);
    }

    /// Acks that a worker has heard: rank, number and the queue's state.
    fn acks(&mut self, at: usize) -> Vec<(u16, u32, QueueState)> {
        let below = self.all[at];
        let mut heard = self.tree.heard_by(&below);
        heard.retain(|heard| heard.header.kind == Kind::Ack);
        let parse = |heard: &Heard| {
            let Header { rank, psn, fan_in, flags, epoch, .. } = heard.header;
            assert_eq!((fan_in, flags, epoch), (below.worker.fan_in, Flags::TRAILER, below.worker.epoch));
            let (payload, trailer) = heard.header.payload(&heard.body).unwrap();
            assert_eq!(values(payload), [7, 7]);
            (rank, psn, trailer.unwrap().queue.expect("the bottleneck's state"))
        };
        heard.iter().map(parse).collect()
    }

    /// What updates stood for that came to a queue and were not rejected, by what has become of it.
    fn stood_for(&self, node: usize, what: &str) -> u64 {
        let counted = self.tree.nodes[node].appliance.queues[0].read().contributions();
        counted.iter().find(|(name, _)| *name == what).expect("a name").1
    }

    fn fate(&self, node: usize, fate: Fate) -> u64 {
        self.tree.nodes[node].appliance.queues[0].read().get(fate)
    }

    fn dropped(&self, node: usize, reason: DropReason) -> u64 {
        self.tree.nodes[node].appliance.dropped(reason)
    }

    fn counted(&self, node: usize, event: JobEvent) -> u64 {
        let counts = self.tree.nodes[node].appliance.plane.membership().counts_of(JOB).unwrap();
        counts.read().get(event)
    }

    /// Asserts that nothing is lost in a queue in which nothing waits.
    fn assert_conserved(&self, node: usize) {
        let gone = ["departed", "full", "low_reward", "displaced", "superseded", "lapsed"];
        let gone: u64 = gone.iter().map(|what| self.stood_for(node, what)).sum();
        assert_eq!(self.stood_for(node, "accepted"), gone, "node {node}");
    }
}

fn update(worker: &Worker, psn: u32, count: u16, values: &[i32], generated_ns: u64) -> Vec<u8> {
    let about = Update { reward: 0.0, generated_ns };
    let header = Header { flags: Flags::TRAILER, ..worker.header(Kind::Update, psn, count) };
    let end = emitted(&Trailer { update: Some(about), ..Trailer::default() });
    worker.frame(&header, &[bytes(values), end].concat())
}

#[test]
fn an_update_goes_to_the_server_by_the_root_and_the_answer_to_the_workers_of_all_leaves() {
    let mut rig = Rig::new(TWO, &[queue(8, 0)]);
    let base = rig.all[0].base;
    rig.push(3, base + 4, &[5, 6]);
    let served = rig.updates();
    let [(header, gradient)] = &served[..] else { panic!("{served:?}") };
    // To the server it is of the right leaf, by that one's number.
    assert_eq!((header.rank, header.fan_in, header.count, header.own.priority()), (1, 2, 1, 0));
    assert_eq!((header.psn, gradient), (base, &vec![5, 6]));
    rig.answer(header, Flags::NONE, 1);
    // Whose it was is known at its leaf; at the other one nobody's number means anything.
    for (at, named) in [(0, None), (1, None), (2, Some((1, base + 4))), (3, Some((1, base + 4)))] {
        let heard = rig.acks(at);
        let [(rank, psn, _)] = heard[..] else { panic!("worker {at}: {heard:?}") };
        assert_eq!((rank, psn), named.unwrap_or((APPLIANCE_RANK, base)), "worker {at}");
    }
    assert_eq!(rig.tree.uplinks()[1..], [Some(UplinkState::Joined); 2]);
    let counts = [(1, JobEvent::SentUp, 0), (2, JobEvent::SentUp, 1), (1, JobEvent::FromAbove, 1)];
    for (node, event, expected) in counts {
        assert_eq!(rig.counted(node, event), expected, "node {node}: {event:?}");
    }
    rig.tree.end();
}

/// Three of one leaf meet there, and what they have become meets one of the other leaf at the root. Counts
/// and values add up, and a combined update neither replaces nor is replaced.
#[test]
fn what_was_combined_at_a_leaf_is_combined_again_at_the_root() {
    let mut rig = Rig::new(TWO, &[queue(8, SLOW), queue(8, SLOW), queue(8, 0)]);
    let base = rig.all[0].base;
    for (at, psn, value) in [(0, 0, 1), (3, 0, 2)] {
        rig.push(at, base + psn, &[value, 0]);
    }
    // Both shapers of the left way are in debt from here on: what comes waits, and so does the second of the
    // right leaf, at the root.
    for (at, psn, value) in [(0, 1, 10), (1, 0, 20), (2, 1, 40), (0, 2, 80), (0, 3, 160)] {
        rig.push(at, base + psn, &[value, 1]);
    }
    rig.pass(200);
    let served = rig.updates();
    let sums: Vec<_> = served.iter().map(|(header, sum)| (header.rank, header.count, sum[0])).collect();
    assert_eq!(sums.iter().map(|&(_, count, _)| count).sum::<u16>(), 7, "{sums:?}");
    assert_eq!(sums.iter().map(|&(.., sum)| sum).sum::<i32>(), 1 + 2 + 10 + 20 + 40 + 80 + 160, "{sums:?}");
    assert!(sums.len() < 6, "some met at the root: {sums:?}");
    assert!(rig.fate(0, Fate::Aggregated) > 0 && rig.fate(1, Fate::Aggregated) == 3);
    assert_eq!(rig.fate(0, Fate::Replaced) + rig.fate(1, Fate::Replaced), 0);
    for node in 0..3 {
        rig.assert_conserved(node);
    }
    let departed = rig.stood_for(1, "departed") + rig.stood_for(2, "departed");
    assert_eq!((rig.stood_for(0, "accepted"), departed), (7, 7));
    rig.tree.end();
}

/// At the root both are of one rank. Of one worker the newer one takes the older one's place there, too; of
/// two workers below one leaf, neither may be lost.
#[test]
fn the_root_tells_workers_below_one_leaf_from_each_other() {
    for (second, values_left, fate) in [(0, vec![4, 1], Fate::Replaced), (1, vec![6, 2], Fate::Aggregated)] {
        let mut rig = Rig::new(TWO, &[queue(8, SLOW), queue(8, 0)]);
        let base = rig.all[0].base;
        // In front of the others, so that they wait.
        rig.push(2, base, &[100, 0]);
        rig.push(0, base, &[2, 1]);
        rig.push(second, base + u32::from(second == 0), &[4, 1]);
        rig.pass(100);
        let served = rig.updates();
        assert_eq!(served.last().unwrap().1, values_left, "{served:?}");
        assert_eq!((served.len(), rig.fate(0, fate), rig.fate(1, Fate::Departed)), (2, 1, 2));
        rig.assert_conserved(0);
        rig.tree.end();
    }
}

/// The same where the middle one stands between: two leaves' workers are told apart at the root.
#[test]
fn workers_two_levels_down_are_told_apart() {
    for (second, fate) in [(0, Fate::Replaced), (1, Fate::Aggregated)] {
        let mut rig = Rig::new(THREE, &[queue(8, SLOW), queue(8, 0)]);
        let base = rig.all[0].base;
        rig.push(0, base, &[1, 0]);
        rig.push(0, base + 1, &[2, 1]);
        rig.push(second, base + 2 * u32::from(second == 0), &[4, 1]);
        rig.pass(100);
        assert_eq!((rig.updates().len(), rig.fate(0, fate)), (2, 1));
        rig.tree.end();
    }
}

/// Whichever hop the bottleneck is, the worker hears of that one.
#[test]
fn the_state_of_the_narrowest_queue_comes_down() {
    for narrowest in 0..3 {
        // Three of a kind further up or down must not hide it.
        let queues: Vec<_> = (0..3).map(|node| queue(if node == narrowest { 3 } else { 8 }, 0)).collect();
        let mut rig = Rig::new(THREE, &queues);
        let base = rig.all[0].base;
        rig.push(1, base, &[1, 2]);
        let (header, _) = rig.updates().remove(0);
        assert_eq!((header.rank, header.fan_in), (0, 1));
        rig.answer(&header, Flags::NONE, 1);
        for at in 0..2 {
            let state = QueueState { clusters: 1, capacity: 3, waiting: 0 };
            assert_eq!(rig.acks(at), [(1, base, state)], "the bottleneck is node {narrowest}");
        }
        rig.tree.end();
    }
}

/// First weights, and answers for one worker alone, take the same way.
#[test]
fn what_is_for_one_worker_alone_reaches_that_one_alone() {
    for shape in [TWO, THREE] {
        let mut rig = Rig::new(shape, &[queue(8, 0)]);
        let (below, base) = (rig.all[1], rig.all[1].base);
        let first = below.worker.bypass(Kind::Gradient, base.wrapping_sub(1), &bytes(&[3, 4]));
        rig.tree.send(&below, &first);
        rig.tree.pass(1);
        let heard = rig.served(Kind::Gradient);
        let [weights] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(values(&weights.body), [3, 4]);
        assert!(weights.header.flags.has(Flags::BYPASS) && weights.header.fan_in == shape[0].0);
        rig.answer(&weights.header, Flags::BYPASS, 0);
        let mine = rig.acks(1);
        assert_eq!(
            mine.iter().map(|&(rank, psn, _)| (rank, psn)).collect::<Vec<_>>(),
            [(1, base.wrapping_sub(1))]
        );
        for at in (0..rig.all.len()).filter(|&at| at != 1) {
            assert_eq!(rig.acks(at), []);
        }
        rig.tree.end();
    }
}
