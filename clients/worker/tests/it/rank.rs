//! One rank: a worker's life as a driver leads it, with the test's own bookkeeping beside it.

use std::collections::BTreeSet;
use std::time::Duration;

use pascaline_wire::{Flags, Header, Kind};
use pascaline_worker::{
    Counters, Event, Failure, Hints, Identity, Join, Left, Partial, Reason, Rejection, Request, Session,
    StartError,
};

use crate::adversary::Leg;
use crate::values::{left_with, tensor};
use crate::world::{JOB, Plan};

#[allow(clippy::large_enum_variant, reason = "there are few of them")]
pub(crate) enum Phase {
    Joining(Join),
    Pausing,
    Running,
    Leaving,
    Gone,
    Dead,
}

pub(crate) struct Rank {
    pub(crate) number: u16,
    pub(crate) life: u64,
    pub(crate) phase: Phase,
    pub(crate) session: Option<Session>,
    pub(crate) operation: usize,
    pub(crate) up: Leg,
    pub(crate) down: Leg,
    pub(crate) wake: Option<Duration>,
    pub(crate) deaf_until: Duration,
    pub(crate) outcome: Outcome,
    una: u32,
    tensor: Vec<u8>,
    inbox: Vec<Vec<u8>>,
    /// PSNs of the running operation sent, and those whose result has arrived.
    sent: BTreeSet<u32>,
    received: BTreeSet<u32>,
}

/// Its outcome.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// How long each operation took.
    pub(crate) elapsed: Vec<Duration>,
    pub(crate) counters: Counters,
    /// Operations whose every element has been checked.
    pub(crate) verified: u32,
    /// What each operation's results lacked.
    pub(crate) partial: Vec<Option<Partial>>,
    /// When each failure came, and what it was.
    pub(crate) failures: Vec<(Duration, Failure)>,
    pub(crate) left: Option<Left>,
    /// The latest generation.
    pub(crate) epoch: Option<u16>,
}

/// What the world must see to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The rank computes, then begins its next operation.
    Pause,
    Nothing,
}

impl Rank {
    pub(crate) fn new(number: u16, plan: &Plan) -> Self {
        let mut rank = Self {
            number,
            life: 0,
            phase: Phase::Dead,
            session: None,
            operation: 0,
            up: Leg::default(),
            down: Leg::default(),
            wake: None,
            deaf_until: Duration::ZERO,
            outcome: Outcome::default(),
            una: plan.first_psn,
            tensor: Vec::new(),
            inbox: Vec::new(),
            sent: BTreeSet::new(),
            received: BTreeSet::new(),
        };
        rank.start(Duration::ZERO, plan);
        rank
    }

    /// Begins a life.
    pub(crate) fn start(&mut self, now: Duration, plan: &Plan) {
        self.life += 1;
        let identity = Identity { job: JOB, rank: self.number, ranks: plan.ranks, payload: plan.payload };
        let session = 1000 * self.life + u64::from(self.number);
        self.phase = Phase::Joining(Join::new(identity, session, plan.spread, now, plan.deadline));
        self.session = None;
        self.operation = 0;
        self.inbox.clear();
    }

    pub(crate) fn deliver(&mut self, now: Duration, plan: &Plan, bytes: Vec<u8>) -> Next {
        match &mut self.phase {
            Phase::Joining(join) => {
                let Some(end) = join.handle_datagram(&bytes) else { return Next::Nothing };
                let membership = end.expect("admitted");
                assert_eq!(membership.spread, plan.spread);
                let session = Session::new(membership, plan.in_flight);
                self.session = Some(if plan.accept_partial { session.accept_partial() } else { session });
                self.phase = Phase::Pausing;
                return Next::Pause;
            }
            // The socket is not read.
            Phase::Pausing => self.inbox.push(bytes),
            Phase::Running | Phase::Leaving => {
                let session = self.session.as_mut().unwrap();
                let (header, _) = Header::parse(&bytes).unwrap();
                let taken = header.epoch == session.membership().epoch
                    && (header.count == plan.ranks || plan.accept_partial);
                if taken && header.kind == Kind::Result && self.sent.contains(&header.psn) {
                    self.received.insert(header.psn);
                }
                let event = session.handle_datagram(now, &bytes, &mut self.tensor);
                return self.on_event(now, plan, event);
            }
            Phase::Gone | Phase::Dead => {}
        }
        Next::Nothing
    }

    fn on_event(&mut self, now: Duration, plan: &Plan, event: Option<Event>) -> Next {
        match event {
            None => return Next::Nothing,
            Some(Event::Commanded(outcome)) => panic!("no command was given: {outcome:?}"),
            Some(Event::Left(left)) => {
                self.end(Phase::Gone);
                self.outcome.left = Some(left);
                return Next::Nothing;
            }
            Some(Event::Completed) => {
                let operation = &plan.operations[self.operation];
                let report = *self.session.as_ref().unwrap().report();
                let (partial, packets) = (report.partial, operation.packets(plan.payload));
                let missing = partial.map(|partial| partial.missing).unwrap_or_default();
                // The sum's content is certain if all results lack the same ranks.
                let known = partial.is_none_or(|partial| {
                    let alike = partial.least_count + missing.len() == plan.ranks;
                    partial.results == packets && alike
                });
                if known {
                    let inside: Vec<u16> = missing.missing(plan.ranks).iter().collect();
                    let right = left_with(self.number, plan.ranks, &inside, self.operation, operation);
                    let right = right == self.tensor;
                    assert!(right, "rank {}, operation {} {operation:?}", self.number, self.operation);
                }
                self.outcome.verified += u32::from(known);
                self.outcome.partial.push(partial);
                if packets > 0 {
                    self.outcome.elapsed.push(report.elapsed);
                }
                self.operation += 1;
            }
            Some(Event::Failed(failure)) => {
                let anew = matches!(
                    failure,
                    Failure::Rejected { rejection: Rejection { reason: Reason::Generation, .. }, .. }
                );
                self.outcome.failures.push((now, failure));
                if !anew {
                    self.end(Phase::Gone);
                    return Next::Nothing;
                }
                self.operation = 0;
            }
        }
        self.tensor = Vec::new();
        self.phase = Phase::Pausing;
        Next::Pause
    }

    /// The pause is over: the next operation, or the end of all of them.
    pub(crate) fn begin(&mut self, now: Duration, plan: &Plan) -> Next {
        let session = self.session.as_mut().unwrap();
        let Some(operation) = plan.operations.get(self.operation) else {
            session.leave(now, plan.linger);
            self.phase = Phase::Leaving;
            return self.catch_up(now, plan);
        };
        let before =
            plan.operations[..self.operation].iter().map(|operation| operation.packets(plan.payload));
        self.una = before.fold(plan.first_psn, u32::wrapping_add);
        self.tensor = tensor(self.number, self.operation, operation);
        self.sent.clear();
        self.received.clear();
        self.phase = Phase::Running;
        let request = Request {
            bytes: self.tensor.len(),
            dtype: operation.dtype,
            op: operation.op,
            deadline: plan.deadline,
            hints: Hints::default(),
        };
        let counts = operation.counts(plan.ranks);
        let collective = operation.collective(&counts);
        match session.start_collective(now, &request, &collective, &mut self.tensor) {
            Ok(running) => {
                assert_eq!(running, operation.packets(plan.payload) > 0);
                if running {
                    self.catch_up(now, plan)
                } else {
                    self.on_event(now, plan, Some(Event::Completed))
                }
            }
            Err(StartError::Ended { .. }) => {
                self.operation = 0;
                self.begin(now, plan)
            }
            Err(error) => panic!("rank {}: {error}", self.number),
        }
    }

    /// Delivers what came while the socket was not read.
    fn catch_up(&mut self, now: Duration, plan: &Plan) -> Next {
        for bytes in std::mem::take(&mut self.inbox) {
            if self.deliver(now, plan, bytes) == Next::Pause {
                // The rest waits for the next operation.
                return Next::Pause;
            }
        }
        Next::Nothing
    }

    pub(crate) fn end(&mut self, phase: Phase) {
        if let Some(session) = self.session.take() {
            self.outcome.counters = *session.counters();
            self.outcome.epoch = Some(session.membership().epoch);
        }
        self.phase = phase;
    }

    /// Handles what is due.
    pub(crate) fn on_timeout(&mut self, now: Duration, plan: &Plan) -> Next {
        match &mut self.phase {
            Phase::Joining(join) => assert_eq!(join.handle_timeout(now), None),
            Phase::Running | Phase::Leaving => {
                let session = self.session.as_mut().unwrap();
                if session.poll_timeout().is_some_and(|due| due <= now) {
                    let event = session.handle_timeout(now);
                    return self.on_event(now, plan, event);
                }
            }
            Phase::Pausing | Phase::Gone | Phase::Dead => {}
        }
        Next::Nothing
    }

    /// The next datagram to send.
    pub(crate) fn poll_transmit(&mut self, now: Duration, plan: &Plan) -> Option<Vec<u8>> {
        if let Phase::Joining(join) = &mut self.phase {
            return join.poll_transmit(now).map(<[u8]>::to_vec);
        }
        let session = self.session.as_mut()?;
        let packet = session.poll_transmit(now)?;
        assert!(session.in_flight() <= u32::from(plan.in_flight));
        let (payload, trailer) = (session.payload(&packet, &self.tensor), session.trailer(&packet));
        let bytes = [&packet.header[..], payload, trailer].concat();
        self.check_sent(plan, &bytes);
        Some(bytes)
    }

    fn check_sent(&mut self, plan: &Plan, bytes: &[u8]) {
        let (header, payload) = Header::parse(bytes).unwrap();
        // Of another generation are probes of how long packets may be: they are added to nothing.
        let epoch = self.session.as_ref().map(|session| session.membership().epoch);
        if header.kind != Kind::Gradient || Some(header.epoch) != epoch {
            return;
        }
        assert!(!payload.is_empty() && payload.len() <= usize::from(plan.payload));
        while self.received.contains(&self.una) {
            self.una = self.una.wrapping_add(1);
        }
        let (psn, una) = (header.psn, self.una);
        assert!(psn.wrapping_sub(una) < u32::from(plan.spread), "PSN {psn} is too far ahead of {una}");
        assert!(!self.received.contains(&header.psn), "PSN {} has its result", header.psn);
        let first = self.sent.insert(header.psn);
        assert_eq!(header.flags.has(Flags::RETRANSMISSION), !first);
        assert!(!first || !header.flags.has(Flags::BYPASS));
    }

    /// When it wants to be woken.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Joining(join) => Some(join.poll_timeout()),
            Phase::Running | Phase::Leaving => self.session.as_ref()?.poll_timeout(),
            Phase::Pausing | Phase::Gone | Phase::Dead => None,
        }
    }
}
