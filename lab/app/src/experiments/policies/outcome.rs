//! Reacts to the pool's events as an appliance does, except for the place where results are made.

use std::collections::HashMap;

use arrayvec::ArrayVec;
use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Evicted, Key, Partial, RankSet, Rejection, Reminded, Request, Sink, Verb,
};
use pascaline_buffer::{HeapBuf, PacketBuf, SharedBuf};
use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer};

use super::ledger::{Role, Task};
use super::payload::Payload;
use super::setting::ResultsAt;

/// The epoch of the only generation of every job.
pub(super) const EPOCH: u16 = 1;

/// Room for a payload and the trailer with the ranks inside.
pub(super) const ROOM: usize = 64;

type Shared = <HeapBuf as PacketBuf>::Shared;

/// A packet to or from the server. The header is the real one, the payload is short.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    pub(super) header: Header,
    pub(super) body: ArrayVec<u8, ROOM>,
}

/// A packet that the appliance sends.
#[derive(Debug)]
pub(super) enum Send {
    /// A result to all ranks.
    FanOut { job: u16, psn: u32, sum: Payload },
    /// A result to one.
    Answer { job: u16, rank: u16, psn: u32, sum: Payload },
    /// A reminder to one rank, perhaps on behalf of the server.
    Remind { job: u16, rank: u16, psn: u32, bypass: bool, round: u16 },
    /// A packet for the job's server.
    ToServer { datagram: Datagram, role: Role },
}

/// The pool's counts, by job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobCounts {
    /// Contributions added to others.
    pub(super) added: u64,
    /// Partials that lost their slot in a conflict.
    pub(super) preemptions: u64,
    /// PSNs completed in the pool.
    pub(super) completed: u64,
    /// Rejected packets that no server takes.
    pub(super) refused: u64,
}

/// The header of a packet about a PSN; its kind is a gradient's unless changed.
pub(super) fn header(kind: Kind, key: Key, fan_in: u16, count: u16) -> Header {
    Header { psn: key.psn(), fan_in, count, ..Header::about(kind, Element::I32_SUM, key.job(), EPOCH) }
}

/// Collects events.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) results_at: ResultsAt,
    pub(super) server: bool,
    pub(super) spare: Vec<HeapBuf>,
    pub(super) sends: Vec<Send>,
    pub(super) tally: Vec<JobCounts>,
    /// Requests whose outcome the pool has reported.
    pub(super) answered: u64,
    /// When the request came.
    pub(super) now: u64,
    pub(super) watched: Option<Watched>,
}

/// How long slots are in use, and the PSNs that contend for them.
#[derive(Debug, Default)]
pub(super) struct Watched {
    since: HashMap<Key, u64>,
    pub(super) occupation: Vec<u64>,
    /// The holder of each slot, in a pool with one slot per set.
    holders: HashMap<usize, Key>,
    sets: usize,
    /// How contests went: of a PSN the first and the worst.
    contests: HashMap<Key, (Task, Task)>,
    /// The packet at hand took another's slot.
    pub(super) preempts: bool,
}

impl Watched {
    pub(super) fn new(sets: usize) -> Self {
        Self { sets, ..Self::default() }
    }

    /// A contest has ended like this for a PSN.
    pub(super) fn contest(&mut self, key: Key, task: Task) {
        let (_, worst) = self.contests.entry(key).or_insert((task, task));
        *worst = task.max(*worst);
    }

    /// A contribution found its slot taken.
    fn conflict(&mut self, key: Key) {
        self.contest(key, Task::Lost);
        if let Some(&holder) = self.holders.get(&key.place(self.sets)) {
            self.contest(holder, Task::Won);
        }
    }

    /// A PSN's task by its first contest, and by its worst.
    pub(super) fn tasks(&self, key: Key) -> (Task, Task) {
        self.contests.get(&key).copied().unwrap_or((Task::Uncontended, Task::Uncontended))
    }
}

impl Outcome {
    fn tally(&mut self, key: Key) -> Option<&mut JobCounts> {
        self.tally.get_mut(usize::from(key.job()))
    }

    /// A slot is free, or its result has left.
    fn vacated(&mut self, key: Key) {
        if let Some(watched) = &mut self.watched
            && let Some(since) = watched.since.remove(&key)
        {
            watched.occupation.push(self.now - since);
        }
    }

    /// Sends a cached result to the rank that asked.
    fn answer(&mut self, request: &Request, packet: HeapBuf, result: &Aggregate<'_, Shared>) {
        self.spare.push(packet);
        if let Some(sum) = Payload::from_bytes(result.payload.bytes()) {
            let (job, rank, psn) = (request.key.job(), request.rank, request.key.psn());
            self.sends.push(Send::Answer { job, rank, psn, sum });
        }
    }

    /// Sends a result to all ranks.
    fn fan_out(&mut self, request: &Request, bytes: &[u8]) {
        self.vacated(request.key);
        if let Some(sum) = Payload::from_bytes(bytes) {
            self.sends.push(Send::FanOut { job: request.key.job(), psn: request.key.psn(), sum });
        }
    }

    pub(super) fn hand_to_server(&mut self, header: Header, bytes: &[u8], role: Role) {
        // No packet here is longer than payload and trailer; the server would reject a cut one.
        let body = bytes.iter().copied().take(ROOM).collect();
        self.sends.push(Send::ToServer { datagram: Datagram { header, body }, role });
    }

    /// A PSN is complete.
    fn finish(&mut self, result: &Aggregate<'_, Shared>) {
        let Some(sum) = Payload::from_bytes(result.payload.bytes()) else { return };
        let (job, psn) = (result.key.job(), result.key.psn());
        if self.results_at == ResultsAt::Appliance || !self.server {
            self.vacated(result.key);
            return self.sends.push(Send::FanOut { job, psn, sum });
        }
        self.hand_to_server(whole(result.key, result.fan_in), &with_all_ranks(result), Role::Whole);
    }
}

impl Sink<HeapBuf> for Outcome {
    fn opened(&mut self, of: &Contribution) {
        self.answered += 1;
        if let Some(watched) = &mut self.watched {
            watched.since.insert(of.key, self.now);
            watched.holders.insert(of.key.place(watched.sets), of.key);
        }
    }

    fn added(&mut self, of: &Contribution) {
        self.answered += 1;
        if let Some(tally) = self.tally(of.key) {
            tally.added += 1;
        }
    }

    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, Shared>) {
        self.answered += 1;
        if let Some(tally) = self.tally(of.key) {
            tally.added += u64::from(!alone);
            tally.completed += 1;
        }
        self.finish(&result);
    }

    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, Shared>) {
        self.answered += 1;
        self.answer(request, packet, &result);
    }

    fn installed(&mut self, request: &Request, result: Aggregate<'_, Shared>) {
        self.answered += 1;
        self.fan_out(request, result.payload.bytes());
    }

    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, Shared>) {
        self.answered += 1;
        self.fan_out(request, result.payload.bytes());
    }

    fn reminded(&mut self, request: &Request, packet: HeapBuf, state: Reminded<'_, Shared, 1>) {
        self.answered += 1;
        let (job, psn) = (request.key.job(), request.key.psn());
        let inside = match state {
            Reminded::Cached(result) => return self.answer(request, packet, &result),
            Reminded::Recently => None,
            Reminded::Partial(inside) => Some(inside),
            Reminded::Unknown if self.server => {
                let header =
                    Header { rank: request.rank, ..header(Kind::Reminder, request.key, request.fan_in, 0) };
                self.hand_to_server(header, &[], Role::Reminder);
                None
            }
            Reminded::Unknown => Some(RankSet::EMPTY),
        };
        for rank in inside.iter().flat_map(|inside| inside.missing(request.job_fan_in).iter()) {
            if rank != request.rank {
                self.sends.push(Send::Remind { job, rank, psn, bypass: false, round: 0 });
            }
        }
        self.recycled(packet);
    }

    fn fetched(&mut self, request: &Request, packet: HeapBuf, result: Option<Aggregate<'_, Shared>>) {
        self.answered += 1;
        self.recycled(packet);
        if let Some(result) = result {
            let header = header(Kind::Result, request.key, result.fan_in, result.count);
            self.hand_to_server(header, result.payload.bytes(), Role::Fetched);
        }
    }

    fn release_accepted(&mut self, _: &Request, packet: HeapBuf) {
        self.answered += 1;
        self.recycled(packet);
    }

    fn rejected(&mut self, request: &Request, packet: HeapBuf, why: Rejection) {
        self.answered += 1;
        if why == Rejection::Conflict
            && let Some(watched) = &mut self.watched
        {
            watched.conflict(request.key);
        }
        match (request.verb, why) {
            (Verb::Add, Rejection::Conflict | Rejection::Quota) if self.server => {
                let header = Header {
                    flags: repeated(request.again),
                    rank: request.rank,
                    own: Own::sum(request.priority, u16::MAX),
                    ..header(Kind::Gradient, request.key, request.fan_in, 1)
                };
                self.hand_to_server(header, packet.bytes(), Role::Loser);
            }
            // The appliance sent it to the server and still holds it: now it is the result.
            (Verb::Install, Rejection::Duplicate) if self.results_at == ResultsAt::Server => {
                self.fan_out(request, packet.bytes());
            }
            _ => {
                if let Some(tally) = self.tally(request.key) {
                    tally.refused += 1;
                }
            }
        }
        self.recycled(packet);
    }

    fn recycled(&mut self, packet: HeapBuf) {
        self.spare.push(packet);
    }

    fn released(&mut self, result: Aggregate<'_, Shared>) {
        self.finish(&result);
    }

    fn evicted(&mut self, key: Key, what: Evicted<HeapBuf>, cause: Cause) {
        if cause == Cause::Preempted
            && let Some(tally) = self.tally(key)
        {
            tally.preemptions += 1;
        }
        if cause == Cause::Preempted
            && let Some(watched) = &mut self.watched
        {
            watched.contest(key, Task::Lost);
            watched.preempts = true;
        }
        self.vacated(key);
        if let Evicted::Partial(Partial { packet, fan_in, count, again, priority, .. }) = what {
            let flags = Flags::TRAILER.with(repeated(again));
            let header = Header {
                flags,
                own: Own::sum(priority, u16::MAX),
                ..header(Kind::Partial, key, fan_in, count)
            };
            let role = if cause == Cause::Fetched { Role::Fetched } else { Role::Loser };
            self.hand_to_server(header, packet.bytes(), role);
            self.recycled(packet);
        }
    }
}

/// The flag of a contribution that an earlier sum may contain.
const fn repeated(again: bool) -> Flags {
    if again { Flags::RETRANSMISSION } else { Flags::NONE }
}

/// The header of a complete aggregate for the server, which treats it as a partial that lacks no rank.
fn whole(key: Key, fan_in: u16) -> Header {
    Header { flags: Flags::TRAILER, ..header(Kind::Partial, key, fan_in, fan_in) }
}

/// The aggregate's payload, and a trailer with all ranks.
fn with_all_ranks(result: &Aggregate<'_, Shared>) -> ArrayVec<u8, ROOM> {
    let mut bitmap = Bitmap::new(result.fan_in);
    for rank in 0..result.fan_in {
        // The bitmap is as long as the ranks need.
        let _ = bitmap.as_mut().is_some_and(|bitmap| bitmap.insert(rank));
    }
    let trailer = Trailer { bitmap, ..Trailer::default() };
    let mut body: ArrayVec<u8, ROOM> = result.payload.bytes().iter().copied().take(ROOM).collect();
    let mut bytes = [0; ROOM];
    let len = trailer.emit(&mut bytes).unwrap_or(0).min(body.remaining_capacity());
    body.extend(bytes.into_iter().take(len));
    body
}
