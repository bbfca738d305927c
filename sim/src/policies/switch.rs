//! The appliance: the real pool, and what its events lead to.

use arrayvec::ArrayVec;
use pascaline_aggregator::{
    Aggregate, Cause, Displaced, Evicted, Key, Place, Pool, PoolConfigError, Refusal, Region, Reminded,
    Request, Rules, Session, Sink, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf, SharedBuf};
use pascaline_wire::{Element, Flags, Header, Kind, Trailer};

use super::payload::{self, Payload};
use super::setting::{ResultsAt, Setting};

/// All there is to the one generation of every job.
pub(super) const EPOCH: u8 = 1;

/// Room for a payload and the trailer that says which ranks are inside.
const ROOM: usize = 64;

type Shared = <HeapBuf as PacketBuf>::Shared;

/// A packet to or from the server. The header is the real one, the payload is short.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    pub(super) header: Header,
    pub(super) body: ArrayVec<u8, ROOM>,
}

/// What the appliance sends.
#[derive(Debug)]
pub(super) enum Send {
    /// A result to all ranks.
    FanOut { job: u16, psn: u32, sum: Payload },
    /// A result to one.
    Answer { job: u16, rank: u16, psn: u32, sum: Payload },
    /// A reminder to one, which may be the server's.
    Remind { job: u16, rank: u16, psn: u32, bypass: bool },
    /// To the job's server. `whole` if it is a complete aggregate that is to become the result there.
    ToServer { datagram: Datagram, whole: bool },
}

/// What the pool has done, by job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Contributions added to others.
    pub(super) added: u64,
    /// Partials that lost a conflict for their slot.
    pub(super) preemptions: u64,
    /// PSNs completed in the pool.
    pub(super) completed: u64,
    /// Packets refused that no server takes.
    pub(super) refused: u64,
}

/// The header of a packet about a PSN; by itself of a contribution's kind.
pub(super) fn header(kind: Kind, key: Key, fan_in: u16, count: u16) -> Header {
    Header {
        kind,
        flags: Flags::NONE,
        element: Element::I32_SUM,
        job: key.job(),
        rank: 0,
        psn: key.psn(),
        fan_in,
        count,
        priority: 0,
        wnd_cap: u16::MAX,
        tree: 0,
        epoch: key.epoch(),
    }
}

/// Collects events.
#[derive(Debug)]
struct Outcome {
    results_at: ResultsAt,
    server: bool,
    spare: Vec<HeapBuf>,
    sends: Vec<Send>,
    tally: Vec<Tally>,
}

impl Outcome {
    fn tally(&mut self, key: Key) -> Option<&mut Tally> {
        self.tally.get_mut(usize::from(key.job()))
    }

    fn hand_to_server(&mut self, header: Header, bytes: &[u8], whole: bool) {
        // What does not fit is malformed, which the server would notice: nothing here is longer than a payload and a trailer.
        let body = bytes.iter().copied().take(ROOM).collect();
        self.sends.push(Send::ToServer { datagram: Datagram { header, body }, whole });
    }

    /// A PSN is complete.
    fn finish(&mut self, result: &Aggregate<'_, Shared>) {
        let Some(sum) = Payload::from_bytes(result.payload.bytes()) else { return };
        let (job, psn) = (result.key.job(), result.key.psn());
        if self.results_at == ResultsAt::Appliance || !self.server {
            return self.sends.push(Send::FanOut { job, psn, sum });
        }
        let header = header(Kind::Result, result.key, result.fan_in, result.count);
        self.hand_to_server(header, result.payload.bytes(), true);
    }
}

impl Sink<HeapBuf> for Outcome {
    fn opened(&mut self, _: &Request) {}

    fn added(&mut self, request: &Request) {
        if let Some(tally) = self.tally(request.key) {
            tally.added += 1;
        }
    }

    fn completed(&mut self, request: &Request, alone: bool, result: Aggregate<'_, Shared>) {
        if let Some(tally) = self.tally(request.key) {
            tally.added += u64::from(!alone);
            tally.completed += 1;
        }
        self.finish(&result);
    }

    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, Shared>) {
        self.spent(packet);
        if let Some(sum) = Payload::from_bytes(result.payload.bytes()) {
            let (job, rank, psn) = (request.key.job(), request.rank, request.key.psn());
            self.sends.push(Send::Answer { job, rank, psn, sum });
        }
    }

    fn installed(&mut self, request: &Request, result: Aggregate<'_, Shared>) {
        self.passed_on(request, result);
    }

    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, Shared>) {
        if let Some(sum) = Payload::from_bytes(result.payload.bytes()) {
            self.sends.push(Send::FanOut { job: request.key.job(), psn: request.key.psn(), sum });
        }
    }

    fn reminded(&mut self, request: &Request, packet: HeapBuf, state: Reminded<'_, Shared, 1>) {
        let (job, psn) = (request.key.job(), request.key.psn());
        let inside = match state {
            Reminded::Kept(result) => return self.replayed(request, packet, result),
            Reminded::Recently => None,
            Reminded::Partial(inside) => Some(inside),
            Reminded::Unknown if self.server => {
                let header =
                    Header { rank: request.rank, ..header(Kind::Reminder, request.key, request.fan_in, 0) };
                self.hand_to_server(header, &[], false);
                None
            }
            Reminded::Unknown => Some(pascaline_aggregator::RankSet::EMPTY),
        };
        for rank in inside.iter().flat_map(|inside| inside.missing(request.job_fan_in)) {
            if rank != request.rank {
                self.sends.push(Send::Remind { job, rank, psn, bypass: false });
            }
        }
        self.spent(packet);
    }

    fn fetched(&mut self, request: &Request, packet: HeapBuf, result: Option<Aggregate<'_, Shared>>) {
        self.spent(packet);
        if let Some(result) = result {
            let header = header(Kind::Result, request.key, result.fan_in, result.count);
            self.hand_to_server(header, result.payload.bytes(), false);
        }
    }

    fn obeyed(&mut self, _: &Request, packet: HeapBuf) {
        self.spent(packet);
    }

    fn refused(&mut self, request: &Request, packet: HeapBuf, why: Refusal) {
        match (request.verb, why) {
            (Verb::Add, Refusal::Conflict | Refusal::Quota) if self.server => {
                let header = Header {
                    flags: Flags::BYPASS,
                    rank: request.rank,
                    priority: request.priority,
                    ..header(Kind::Gradient, request.key, request.fan_in, 1)
                };
                self.hand_to_server(header, packet.bytes(), false);
            }
            // The appliance has sent it to the server, and keeps it: now it is the result.
            (Verb::Install, Refusal::Duplicate) if self.results_at == ResultsAt::Server => {
                if let Some(sum) = Payload::from_bytes(packet.bytes()) {
                    self.sends.push(Send::FanOut { job: request.key.job(), psn: request.key.psn(), sum });
                }
            }
            _ => {
                if let Some(tally) = self.tally(request.key) {
                    tally.refused += 1;
                }
            }
        }
        self.spent(packet);
    }

    fn handed_off(&mut self) {}

    fn spent(&mut self, packet: HeapBuf) {
        self.spare.push(packet);
    }

    fn released(&mut self, result: Aggregate<'_, Shared>) {
        self.finish(&result);
    }

    fn displaced(&mut self, key: Key, what: Displaced<HeapBuf>, cause: Cause) {
        if cause == Cause::Preempted
            && let Some(tally) = self.tally(key)
        {
            tally.preemptions += 1;
        }
        if let Displaced::Partial(Evicted { packet, fan_in, count, priority, .. }) = what {
            let header =
                Header { flags: Flags::TRAILER, priority, ..header(Kind::Partial, key, fan_in, count) };
            self.hand_to_server(header, packet.bytes(), false);
            self.spent(packet);
        }
    }
}

/// The appliance.
#[derive(Debug)]
pub(super) struct Switch {
    session: Session<HeapBuf>,
    buffers: HeapPool,
    /// Of each job.
    rules: Vec<(Rules, Option<Region>)>,
    ranks: u16,
    outcome: Outcome,
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
            outcome: Outcome {
                results_at: setting.results_at,
                server: setting.policy.server(),
                spare: Vec::new(),
                sends: Vec::new(),
                tally: vec![Tally::default(); usize::from(setting.jobs)],
            },
        })
    }

    /// A packet with these contents, which has been used before if possible.
    fn packet(&mut self, bytes: &[u8]) -> HeapBuf {
        let Some(mut packet) = self.outcome.spare.pop() else { return self.buffers.alloc(bytes, ROOM) };
        if packet.set_len(bytes.len()) {
            packet.bytes_mut().copy_from_slice(bytes);
            packet
        } else {
            self.buffers.alloc(bytes, ROOM)
        }
    }

    /// Gives a packet to the pool. What that leads to is [sent](Self::sends).
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
            element: header.element.code(),
            overflow: false,
            again: false,
            partial: false,
            priority: header.priority,
            rules,
            offset: 0,
            len,
            now: now / 1000,
        };
        let packet = self.packet(body);
        let place: Place = match region {
            Some(region) => self.session.place_in(region, key),
            None => self.session.place(key),
        };
        self.session.offer_at(place, &request, packet, &mut self.outcome);
    }

    /// A packet of the server.
    pub(super) fn served(&mut self, now: u64, datagram: &Datagram) {
        let Datagram { header, body } = datagram;
        let (job, rank, psn) = (header.job, header.rank, header.psn);
        let bypass = header.flags.has(Flags::BYPASS);
        match header.kind {
            Kind::Reminder => self.outcome.sends.push(Send::Remind { job, rank, psn, bypass }),
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
    pub(super) fn pass_on(&mut self, header: Header, body: &[u8]) {
        self.outcome.hand_to_server(header, body, false);
    }

    /// What is to be sent; the list comes back [empty](Self::give_back).
    pub(super) fn sends(&mut self) -> Vec<Send> {
        core::mem::take(&mut self.outcome.sends)
    }

    /// The list, for the next time.
    pub(super) fn give_back(&mut self, sends: Vec<Send>) {
        self.outcome.sends = sends;
    }

    pub(super) fn tally(&self) -> &[Tally] {
        &self.outcome.tally
    }

    /// Gives up everything. How many packets have not come back: none, unless the pool has lost one.
    pub(super) fn close(self) -> usize {
        let Self { session, buffers, outcome, .. } = self;
        drop((session, outcome));
        buffers.live()
    }
}

/// A complete aggregate as the partial of all ranks that it is to the server.
pub(super) fn as_partial(datagram: &Datagram) -> Datagram {
    let Datagram { header, body } = datagram;
    let mut bitmap = pascaline_wire::trailer::Bitmap::new(header.fan_in);
    for rank in 0..header.fan_in {
        // The bitmap is as long as the ranks are many.
        let _ = bitmap.as_mut().is_some_and(|bitmap| bitmap.insert(rank));
    }
    let trailer = Trailer { bitmap, ..Trailer::default() };
    let mut bytes = [0; ROOM];
    let start = body.len().min(ROOM);
    bytes[..start].copy_from_slice(&body[..start]);
    let len = trailer.emit(&mut bytes[start..]).unwrap_or(0);
    let header = Header { kind: Kind::Partial, flags: Flags::TRAILER, ..*header };
    Datagram { header, body: bytes[..start + len].iter().copied().collect() }
}
