//! A rank that combines one tensor after the other.

use core::time::Duration;

use pascaline_wire::frame::ETH_LEN;
use pascaline_wire::{Element, ecn, header};
use pascaline_worker::{CongestionControl, Event, Identity, Join, Session};

use super::{Setting, Share, Sharer, nanos};
use crate::host::Host;

/// Longer than any simulation.
const PATIENCE: Duration = Duration::from_secs(3600);

#[expect(clippy::large_enum_variant, reason = "there are few of them")]
enum Stage {
    Joining(Join),
    Running(Session),
}

pub(super) struct Rank {
    host: Host,
    sharer: Sharer,
    stage: Stage,
    tensor: Vec<u8>,
    elements: usize,
    hosts: u16,
    began: u64,
    /// When it is going to be woken.
    wake: Option<u64>,
    operations: Vec<Duration>,
    results: Vec<Duration>,
    wrong: u64,
}

impl Rank {
    /// Ranks of the first job come first, that of the first host before the others.
    pub(super) fn new(setting: &Setting, number: usize) -> Self {
        let hosts = usize::from(setting.hosts);
        let (at, rank) = (number / hosts, u16::try_from(number % hosts).unwrap_or(0));
        let job = u16::try_from(at + 1).unwrap_or(u16::MAX);
        let identity = Identity { job, rank, ranks: setting.hosts, payload: setting.payload };
        let sharer = setting.jobs[at];
        let join = Join::new(identity, number as u64 + 1, setting.window, sharer.begins, PATIENCE);
        Self {
            host: Host::new(number, 1, false),
            sharer,
            stage: Stage::Joining(join),
            tensor: Vec::new(),
            elements: setting.bytes / 4,
            hosts: setting.hosts,
            began: 0,
            wake: None,
            operations: Vec::new(),
            results: Vec::new(),
            wrong: 0,
        }
    }

    pub(super) fn begins(&self) -> u64 {
        nanos(self.sharer.begins)
    }

    pub(super) fn receive(&mut self, now: u64, frame: &[u8]) {
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
                    self.begin(now);
                }
            }
        }
    }

    /// Every rank sends its number and one for each element.
    fn begin(&mut self, now: u64) {
        let Stage::Running(session) = &mut self.stage else { return };
        let Identity { rank, .. } = session.membership().identity;
        let mine = i32::from(rank) + 1;
        self.tensor.clear();
        self.tensor.extend((0..self.elements).flat_map(|_| mine.to_le_bytes()));
        self.began = now;
        // What cannot begin shows as an operation that never ends.
        let _ = session.start(Duration::from_nanos(now), self.tensor.len(), Element::I32_SUM, PATIENCE);
    }

    fn check(&mut self) {
        let sum: i32 = (1..=i32::from(self.hosts)).sum();
        let wrong = self.tensor.chunks_exact(4).filter(|element| **element != sum.to_le_bytes());
        self.wrong += wrong.count() as u64;
    }

    pub(super) fn poll_transmit(&mut self, now: u64) -> Option<Vec<u8>> {
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
                let class = if session.control().heeds_marks() { ecn::CAPABLE } else { 0 };
                Some(self.host.send_as(class, &packet.header, body))
            }
        }
    }

    /// When it wants to look at the clock again, if it is not going to anyway.
    pub(super) fn due(&mut self, now: u64) -> Option<u64> {
        let due = match &self.stage {
            Stage::Joining(join) => Some(join.poll_timeout()),
            Stage::Running(session) => session.poll_timeout(),
        };
        let due = nanos(due?).max(now + 1);
        let news = self.wake.is_none_or(|wake| wake <= now || due < wake);
        news.then(|| {
            self.wake = Some(due);
            due
        })
    }
}

/// What a job's ranks have got, of which the first one is asked.
pub(super) fn share(ranks: &[Rank]) -> Share {
    let counters = |rank: &Rank| match &rank.stage {
        Stage::Joining(_) => (0, 0),
        Stage::Running(session) => (session.counters().retransmissions, session.counters().marked),
    };
    let (resent, marked) =
        ranks.iter().map(counters).fold((0, 0), |(resent, marked), more| (resent + more.0, marked + more.1));
    Share {
        control: ranks.first().map_or(CongestionControl::Fixed, |rank| rank.sharer.control),
        operations: ranks.first().map(|rank| rank.operations.clone()).unwrap_or_default(),
        results: ranks.first().map(|rank| rank.results.clone()).unwrap_or_default(),
        wrong: ranks.iter().map(|rank| rank.wrong).sum(),
        resent,
        marked,
    }
}
