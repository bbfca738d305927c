//! Ranks, an aggregator and the network between them, under a virtual clock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use pascaline_wire::{Element, Flags, Header, Kind};
use pascaline_worker::{Counters, Event, Identity, Join, Leave, Left, Session};

use crate::adversary::{Conditions, Leg, Random};
use crate::aggregator::Aggregator;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) ranks: u16,
    pub(crate) payload: u16,
    pub(crate) in_flight: u16,
    pub(crate) spread: u16,
    pub(crate) first_psn: u32,
    /// Elements of each allreduce.
    pub(crate) operations: Vec<usize>,
    /// When the first allreduce begins, if all ranks have joined by then.
    pub(crate) start: Duration,
    /// How long a rank computes between two allreduces, at the most.
    pub(crate) pause: Duration,
    pub(crate) deadline: Duration,
    pub(crate) linger: Duration,
    pub(crate) conditions: Conditions,
}

enum Phase {
    Joining(Join),
    Pausing,
    Running,
    Leaving(Leave),
    Gone(Left),
}

struct Rank {
    phase: Phase,
    session: Option<Session>,
    operation: usize,
    una: u32,
    tensor: Vec<u8>,
    inbox: Vec<Vec<u8>>,
    /// PSNs of the running operation sent, and those whose result has arrived: the test's own bookkeeping.
    sent: BTreeSet<u32>,
    received: BTreeSet<u32>,
    up: Leg,
    down: Leg,
    wake: Option<Duration>,
    /// How long each operation took.
    elapsed: Vec<Duration>,
    counters: Counters,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    ToAggregator(Vec<u8>),
    ToRank(u16, Vec<u8>),
    Wake(u16),
    Begin(u16),
}

/// What came of it, by rank.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Vec<Duration>,
    pub(crate) counters: Counters,
    pub(crate) left: Left,
}

struct World<'a> {
    plan: &'a Plan,
    random: Random,
    now: Duration,
    serial: u64,
    events: BinaryHeap<Reverse<(Duration, u64, Happening)>>,
    ranks: Vec<Rank>,
    aggregator: Aggregator,
}

const JOB: u16 = 3;

/// The value of one element of one rank's tensor: small, so that sums are exact.
fn value(rank: u16, operation: usize, index: usize) -> i32 {
    let mut random = Random((u64::from(rank) << 48) ^ ((operation as u64) << 32) ^ index as u64);
    i32::try_from(random.below(2_000_001)).unwrap() - 1_000_000
}

/// Runs a plan to its end. Panics if a sum is wrong, a rank breaks a rule, an allreduce fails or nothing ends.
pub(crate) fn run(plan: &Plan, seed: u64) -> Vec<Outcome> {
    let rank = |number| Rank {
        phase: Phase::Joining(Join::new(
            Identity { job: JOB, rank: number, ranks: plan.ranks, payload: plan.payload },
            1000 + u64::from(number),
            plan.spread,
            Duration::ZERO,
            plan.deadline,
        )),
        session: None,
        operation: 0,
        una: plan.first_psn,
        tensor: Vec::new(),
        inbox: Vec::new(),
        sent: BTreeSet::new(),
        received: BTreeSet::new(),
        up: Leg::default(),
        down: Leg::default(),
        wake: None,
        elapsed: Vec::new(),
        counters: Counters::default(),
    };
    let mut world = World {
        plan,
        random: Random(seed),
        now: Duration::ZERO,
        serial: 0,
        events: BinaryHeap::new(),
        ranks: (0..plan.ranks).map(rank).collect(),
        aggregator: Aggregator::new(JOB, plan.ranks, plan.spread),
    };
    for rank in 0..plan.ranks {
        world.settle(rank);
    }
    while let Some(Reverse((at, _, happening))) = world.events.pop() {
        assert!(at < Duration::from_secs(1000), "nothing ends");
        world.now = at;
        world.happen(happening);
    }
    let outcome = |rank: Rank| match rank.phase {
        Phase::Gone(left) => Outcome { elapsed: rank.elapsed, counters: rank.counters, left },
        _ => panic!("a rank hangs without a timeout"),
    };
    world.ranks.into_iter().map(outcome).collect()
}

impl World<'_> {
    fn schedule(&mut self, at: Duration, happening: Happening) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, happening)));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToAggregator(bytes) => {
                for (rank, bytes) in self.aggregator.handle(&bytes, &self.plan.conditions, &mut self.random) {
                    let leg = &mut self.ranks[usize::from(rank)].down;
                    for at in leg.arrivals(self.now, &self.plan.conditions, &mut self.random) {
                        self.schedule(at, Happening::ToRank(rank, bytes.clone()));
                    }
                }
            }
            Happening::ToRank(rank, bytes) => {
                self.deliver(rank, bytes);
                self.settle(rank);
            }
            Happening::Wake(rank) => {
                self.ranks[usize::from(rank)].wake = None;
                self.settle(rank);
            }
            Happening::Begin(rank) => {
                self.begin(rank);
                self.settle(rank);
            }
        }
    }

    fn deliver(&mut self, number: u16, bytes: Vec<u8>) {
        let now = self.now;
        let rank = &mut self.ranks[usize::from(number)];
        match &mut rank.phase {
            Phase::Joining(join) => {
                if let Some(end) = join.handle_datagram(&bytes) {
                    let membership = end.expect("admitted");
                    assert_eq!(membership.spread, self.plan.spread);
                    rank.session = Some(Session::new(membership, self.plan.in_flight, self.plan.first_psn));
                    self.pause(number);
                }
            }
            // Nobody reads the socket.
            Phase::Pausing => rank.inbox.push(bytes),
            Phase::Running => {
                let (header, _) = Header::parse(&bytes).unwrap();
                if header.kind == Kind::Result && rank.sent.contains(&header.psn) {
                    rank.received.insert(header.psn);
                }
                let session = rank.session.as_mut().unwrap();
                let event = session.handle_datagram(now, &bytes, &mut rank.tensor);
                self.on_event(number, event);
            }
            Phase::Leaving(leave) => {
                if let Some(left) = leave.handle_datagram(&bytes) {
                    self.gone(number, left);
                } else if !leave.is_answer(&bytes) {
                    let event = rank.session.as_mut().unwrap().handle_datagram(now, &bytes, &mut []);
                    assert_eq!(event, None);
                }
            }
            Phase::Gone(_) => {}
        }
    }

    fn on_event(&mut self, number: u16, event: Option<Event>) {
        let rank = &mut self.ranks[usize::from(number)];
        match event {
            None => {}
            Some(Event::Completed) => {
                for (index, bytes) in rank.tensor.chunks_exact(4).enumerate() {
                    let got = i32::from_le_bytes(bytes.try_into().unwrap());
                    let sum =
                        (0..self.plan.ranks).map(|rank_| value(rank_, rank.operation, index)).sum::<i32>();
                    assert_eq!(got, sum, "rank {number}, operation {}, element {index}", rank.operation);
                }
                rank.elapsed.push(rank.session.as_ref().unwrap().report().elapsed);
                rank.operation += 1;
                self.pause(number);
            }
            Some(Event::Failed(failure)) => panic!("rank {number} at {:?}: {failure}", self.now),
        }
    }

    fn pause(&mut self, number: u16) {
        self.ranks[usize::from(number)].phase = Phase::Pausing;
        let begin = self.plan.start.max(self.now + self.random.up_to(self.plan.pause));
        self.schedule(begin, Happening::Begin(number));
    }

    fn begin(&mut self, number: u16) {
        let (plan, now) = (self.plan, self.now);
        let rank = &mut self.ranks[usize::from(number)];
        let session = rank.session.as_mut().unwrap();
        let Some(&elements) = plan.operations.get(rank.operation) else {
            rank.phase = Phase::Leaving(Leave::new(*session.membership(), now, plan.linger));
            return self.catch_up(number);
        };
        let packets = (4 * elements).div_ceil(usize::from(plan.payload));
        rank.una = plan.operations[..rank.operation]
            .iter()
            .map(|elements| (4 * elements).div_ceil(usize::from(plan.payload)))
            .fold(plan.first_psn, |psn, packets| psn.wrapping_add(u32::try_from(packets).unwrap()));
        rank.tensor = (0..elements).flat_map(|i| value(number, rank.operation, i).to_le_bytes()).collect();
        rank.sent.clear();
        rank.received.clear();
        rank.phase = Phase::Running;
        let running = session.start(now, rank.tensor.len(), Element::I32_SUM, plan.deadline).unwrap();
        assert_eq!(running, packets > 0);
        if running {
            self.catch_up(number);
        } else {
            self.on_event(number, Some(Event::Completed));
        }
    }

    /// Delivers what came while nobody read the socket.
    fn catch_up(&mut self, number: u16) {
        for bytes in std::mem::take(&mut self.ranks[usize::from(number)].inbox) {
            self.deliver(number, bytes);
        }
    }

    fn gone(&mut self, number: u16, left: Left) {
        let rank = &mut self.ranks[usize::from(number)];
        rank.counters = *rank.session.as_ref().unwrap().counters();
        rank.phase = Phase::Gone(left);
    }

    /// Handles due timeouts, sends what is to be sent, and arranges to be woken.
    fn settle(&mut self, number: u16) {
        let now = self.now;
        let rank = &mut self.ranks[usize::from(number)];
        match &mut rank.phase {
            Phase::Joining(join) => {
                assert_eq!(join.handle_timeout(now), None);
                if let Some(bytes) = join.poll_transmit(now) {
                    let bytes = bytes.to_vec();
                    self.transmit(number, bytes);
                }
            }
            Phase::Leaving(leave) => {
                if let Some(left) = leave.handle_timeout(now) {
                    return self.gone(number, left);
                }
                if let Some(bytes) = leave.poll_transmit(now) {
                    let bytes = bytes.to_vec();
                    self.transmit(number, bytes);
                }
            }
            Phase::Running => {
                let session = rank.session.as_mut().unwrap();
                if session.poll_timeout().is_some_and(|due| due <= now) {
                    let event = session.handle_timeout(now);
                    self.on_event(number, event);
                }
            }
            Phase::Pausing | Phase::Gone(_) => {}
        }
        self.flush(number);
        self.arrange_wake(number);
    }

    fn flush(&mut self, number: u16) {
        let rank = &mut self.ranks[usize::from(number)];
        if matches!(rank.phase, Phase::Gone(_)) {
            return;
        }
        while let Some(session) = &mut self.ranks[usize::from(number)].session {
            let Some(packet) = session.poll_transmit(self.now) else { break };
            assert!(session.in_flight() <= u32::from(self.plan.in_flight));
            let rank = &mut self.ranks[usize::from(number)];
            let payload = rank.session.as_ref().unwrap().payload(&packet, &rank.tensor);
            let bytes = [&packet.header[..], payload].concat();
            self.check_sent(number, &bytes);
            self.transmit(number, bytes);
        }
    }

    fn check_sent(&mut self, number: u16, bytes: &[u8]) {
        let rank = &mut self.ranks[usize::from(number)];
        let (header, payload) = Header::parse(bytes).unwrap();
        if header.kind != Kind::Gradient {
            return;
        }
        assert!(!payload.is_empty() && payload.len() <= usize::from(self.plan.payload));
        while rank.received.contains(&rank.una) {
            rank.una = rank.una.wrapping_add(1);
        }
        let (psn, una) = (header.psn, rank.una);
        assert!(psn.wrapping_sub(una) < u32::from(self.plan.spread), "PSN {psn} is too far ahead of {una}");
        assert!(!rank.received.contains(&header.psn), "PSN {} has its result", header.psn);
        let first = rank.sent.insert(header.psn);
        assert_eq!(header.flags.has(Flags::RETRANSMISSION), !first);
    }

    fn transmit(&mut self, number: u16, bytes: Vec<u8>) {
        let leg = &mut self.ranks[usize::from(number)].up;
        for at in leg.arrivals(self.now, &self.plan.conditions, &mut self.random) {
            self.schedule(at, Happening::ToAggregator(bytes.clone()));
        }
    }

    fn arrange_wake(&mut self, number: u16) {
        let rank = &mut self.ranks[usize::from(number)];
        let due = match &rank.phase {
            Phase::Joining(join) => Some(join.poll_timeout()),
            Phase::Leaving(leave) => Some(leave.poll_timeout()),
            Phase::Running => rank.session.as_ref().unwrap().poll_timeout(),
            Phase::Pausing | Phase::Gone(_) => None,
        };
        if let Some(due) = due
            && rank.wake.is_none_or(|wake| due < wake)
        {
            rank.wake = Some(due);
            self.schedule(due.max(self.now), Happening::Wake(number));
        }
    }
}
