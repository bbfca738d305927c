//! A rank of a simulation without an adversary: it combines one tensor after the other.

use core::time::Duration;

use pascaline_wire::frame::ETH_LEN;
use pascaline_wire::{Element, ecn, header};
use pascaline_worker::{CongestionControl, Event, Identity, Join, Session};

use crate::bottleneck::Sharer;
use crate::host::Host;
use crate::wheel::nanos;

/// Longer than any simulation.
const PATIENCE: Duration = Duration::from_secs(3600);

#[expect(clippy::large_enum_variant, reason = "there are few of them")]
enum Stage {
    Joining(Join),
    Running(Session),
}

/// A rank's identity and work.
pub(crate) struct Doing {
    pub(crate) identity: Identity,
    pub(crate) session: u64,
    pub(crate) sharer: Sharer,
    /// How far it may run ahead.
    pub(crate) window: u16,
    /// Elements of its tensor.
    pub(crate) elements: usize,
    /// Each element of it, and of the sum.
    pub(crate) values: (i32, i32),
    /// Between two allreduces.
    pub(crate) pause: Duration,
    /// Allreduces that it does.
    pub(crate) most: usize,
}

/// One worker.
pub(crate) struct Rank {
    host: Host,
    sharer: Sharer,
    stage: Stage,
    tensor: Vec<u8>,
    elements: usize,
    values: (i32, i32),
    pause: u64,
    most: usize,
    /// When its next allreduce begins, while it waits for that.
    begins: Option<u64>,
    began: u64,
    /// When it is going to be woken.
    wake: Option<u64>,
    operations: Vec<Duration>,
    results: Vec<Duration>,
    wrong: u64,
}

impl Rank {
    /// A rank on a host, which joins when its sharer begins.
    pub(crate) fn new(host: Host, doing: Doing) -> Self {
        let Doing { identity, session, sharer, window, elements, values, pause, most } = doing;
        let join = Join::new(identity, session, window, sharer.begins, PATIENCE);
        Self {
            host,
            sharer,
            stage: Stage::Joining(join),
            tensor: Vec::new(),
            elements,
            values,
            pause: nanos(pause),
            most,
            begins: None,
            began: 0,
            wake: None,
            operations: Vec::new(),
            results: Vec::new(),
            wrong: 0,
        }
    }

    pub(crate) fn begins(&self) -> u64 {
        nanos(self.sharer.begins)
    }

    pub(crate) fn receive(&mut self, now: u64, frame: &[u8]) {
        let Some(datagram) = self.host.receive(frame) else { return };
        let marked = frame.get(ETH_LEN + 1).is_some_and(|&class| ecn::is_marked(class));
        let time = Duration::from_nanos(now);
        match &mut self.stage {
            Stage::Joining(join) => {
                if let Some(Ok(membership)) = join.handle_datagram(datagram) {
                    self.stage = Stage::Running(Session::new(membership, self.sharer.in_flight));
                    self.begin(now);
                }
            }
            Stage::Running(session) => {
                let before = session.counters().results;
                let event = session.handle_marked(time, datagram, marked, &mut self.tensor);
                let taken = session.counters().results - before;
                self.results.extend((0..taken).map(|_| time));
                if event == Some(Event::Completed) {
                    self.operations.push(Duration::from_nanos(now - self.began));
                    self.check();
                    self.begins = (self.operations.len() < self.most).then_some(now + self.pause);
                }
            }
        }
    }

    fn begin(&mut self, now: u64) {
        let Stage::Running(session) = &mut self.stage else { return };
        self.tensor.clear();
        self.tensor.extend((0..self.elements).flat_map(|_| self.values.0.to_le_bytes()));
        self.began = now;
        // An operation that cannot begin shows as one that never ends.
        let _ = session.start(Duration::from_nanos(now), self.tensor.len(), Element::I32_SUM, PATIENCE);
    }

    fn check(&mut self) {
        let sum = self.values.1.to_le_bytes();
        let wrong = self.tensor.chunks_exact(4).filter(|element| **element != sum);
        self.wrong += wrong.count() as u64;
    }

    /// True once it has joined.
    pub(crate) const fn has_joined(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// How long each of its allreduces took.
    pub(crate) fn operations(&self) -> &[Duration] {
        &self.operations
    }

    /// When it got each result.
    pub(crate) fn results(&self) -> &[Duration] {
        &self.results
    }

    /// The control that it uses.
    pub(crate) const fn control(&self) -> CongestionControl {
        self.sharer.control
    }

    /// Wrong elements of its sums, contributions that it has sent again, and results that were marked.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let (resent, marked) = match &self.stage {
            Stage::Joining(_) => (0, 0),
            Stage::Running(session) => (session.counters().retransmissions, session.counters().marked),
        };
        (self.wrong, resent, marked)
    }

    pub(crate) fn poll_transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        if self.begins.is_some_and(|begins| begins <= now) {
            self.begins = None;
            self.begin(now);
        }
        let time = Duration::from_nanos(now);
        match &mut self.stage {
            Stage::Joining(join) => {
                let (head, body) = join.poll_transmit(time)?.split_first_chunk::<{ header::LEN }>()?;
                Some(self.host.send(head, body))
            }
            Stage::Running(session) => {
                if session.poll_timeout().is_some_and(|due| due <= time) {
                    session.handle_timeout(time);
                }
                let packet = session.poll_transmit(time)?;
                let body = session.payload(&packet, &self.tensor);
                let class = if session.control().reacts_to_marks() { ecn::CAPABLE } else { 0 };
                Some(self.host.send_as(class, &packet.header, body))
            }
        }
    }

    /// Its next timer, unless one is already set.
    pub(crate) fn due(&mut self, now: u64) -> Option<u64> {
        let due = match &self.stage {
            Stage::Joining(join) => Some(join.poll_timeout()),
            Stage::Running(session) => session.poll_timeout(),
        };
        let due = due.map(nanos).into_iter().chain(self.begins).min()?.max(now + 1);
        let news = self.wake.is_none_or(|wake| wake <= now || due < wake);
        news.then(|| {
            self.wake = Some(due);
            due
        })
    }
}
