//! The appliance: the real pool.

use pascaline_aggregator::{Key, Pool, PoolConfigError, Region, Request, Rules, Session, Verb};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_wire::{Flags, Header, Kind};

use super::ledger::{Role, Task};
use super::outcome::{Datagram, JobCounts, Outcome, ROOM, Send, Watched};
use super::payload::{self, Payload};
use super::setting::Setting;

/// The appliance.
#[derive(Debug)]
pub(super) struct Switch {
    session: Session<HeapBuf>,
    buffers: HeapPool,
    /// Of each job.
    rules: Vec<(Rules, Option<Region>)>,
    ranks: u16,
    /// Requests to the pool.
    offered: u64,
    outcome: Outcome,
}

/// The accounts of a closed appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remains {
    /// Packets that have not come back.
    pub(super) packets: usize,
    /// Requests to the pool.
    pub(super) offered: u64,
    /// Requests whose outcome the pool has reported.
    pub(super) answered: u64,
}

impl Switch {
    pub(super) fn new(setting: &Setting) -> Result<Self, PoolConfigError> {
        let mut sessions = Pool::sessions(&setting.pool(), Kernels::detect(), 1)?;
        let Some(session) = sessions.pop() else { return Err(PoolConfigError::Slots(0)) };
        let policies = (0..setting.jobs).map(|job| setting.rules(job));
        Ok(Self {
            session,
            buffers: HeapPool::new(),
            rules: policies.map(|policy| (Rules::of(&policy), policy.region)).collect(),
            ranks: setting.ranks,
            offered: 0,
            outcome: Outcome {
                results_at: setting.results_at,
                server: setting.policy.server(),
                spare: Vec::new(),
                sends: Vec::new(),
                tally: vec![JobCounts::default(); usize::from(setting.jobs)],
                answered: 0,
                now: 0,
                watched: None,
            },
        })
    }

    /// A packet with these contents, recycled if possible.
    fn packet(&mut self, bytes: &[u8]) -> HeapBuf {
        let Some(mut packet) = self.outcome.spare.pop() else { return self.buffers.alloc(bytes, ROOM) };
        if packet.set_len(bytes.len()) {
            packet.bytes_mut().copy_from_slice(bytes);
            packet
        } else {
            self.buffers.alloc(bytes, ROOM)
        }
    }

    /// Gives a packet to the pool. [`sends`](Self::sends) has the packets sent for it.
    pub(super) fn offer(&mut self, now: u64, verb: Verb, header: &Header, body: &[u8]) {
        let Some(&(rules, region)) = self.rules.get(usize::from(header.job)) else { return };
        let key = Key::new(header.job, header.epoch, header.psn);
        let len = if matches!(verb, Verb::Add | Verb::Install) { payload::LEN } else { 0 };
        let request = Request {
            verb,
            key,
            rank: header.rank,
            fan_in: header.fan_in,
            job_fan_in: self.ranks,
            needed: self.ranks,
            count: header.count,
            inside: 0,
            element: header.element.code(),
            overflow: false,
            again: header.flags.has(Flags::RETRANSMISSION),
            marked: false,
            partial: false,
            priority: header.own.priority(),
            rules,
            offset: 0,
            len,
            now: now / 1000,
        };
        let packet = self.packet(body);
        self.outcome.now = now;
        self.offered += 1;
        self.session.offer(&request, region, packet, &mut self.outcome);
        if let Some(watched) = &mut self.outcome.watched
            && core::mem::take(&mut watched.preempts)
        {
            watched.contest(key, Task::Won);
        }
    }

    /// A packet of the server.
    pub(super) fn served(&mut self, now: u64, datagram: &Datagram) {
        let Datagram { header, body } = datagram;
        let (job, rank, psn) = (header.job, header.rank, header.psn);
        let bypass = header.flags.has(Flags::BYPASS);
        match header.kind {
            Kind::Reminder => {
                self.outcome.sends.push(Send::Remind { job, rank, psn, bypass, round: header.own.round() });
            }
            Kind::Result if bypass => {
                if let Some(sum) = Payload::from_bytes(body) {
                    self.outcome.sends.push(Send::Answer { job, rank, psn, sum });
                }
            }
            Kind::Result => self.offer(now, Verb::Install, &Header { rank: 0, ..*header }, body),
            _ => self.offer(now, Verb::Fetch, header, &[]),
        }
    }

    /// Passes a worker's packet on to the server as it is.
    pub(super) fn pass_on(&mut self, header: Header, body: &[u8], role: Role) {
        self.outcome.hand_to_server(header, body, role);
    }

    /// Notes from now on how long slots are in use, and the PSNs that contend for them.
    pub(super) fn watch(&mut self, setting: &Setting) {
        self.outcome.watched = Some(Watched::new(setting.slots() / setting.ways.max(1)));
    }

    /// The records.
    pub(super) fn watched(&mut self) -> Watched {
        self.outcome.watched.take().unwrap_or_default()
    }

    /// Packets to send; [`give_back`](Self::give_back) the empty list.
    pub(super) fn sends(&mut self) -> Vec<Send> {
        core::mem::take(&mut self.outcome.sends)
    }

    /// Takes the list back.
    pub(super) fn give_back(&mut self, sends: Vec<Send>) {
        self.outcome.sends = sends;
    }

    pub(super) fn tally(&self) -> &[JobCounts] {
        &self.outcome.tally
    }

    /// Closes the appliance.
    pub(super) fn close(self) -> Remains {
        let Self { session, buffers, outcome, offered, .. } = self;
        let answered = outcome.answered;
        drop((session, outcome));
        Remains { packets: buffers.live(), offered, answered }
    }
}
