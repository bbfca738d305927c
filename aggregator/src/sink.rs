//! What comes out of the pool.

use pascaline_buffer::PacketBuf;

use crate::contributions::Originals;
use crate::key::Key;
use crate::request::{Contribution, Gradient, Request, Rules};
use crate::session::Burst;
use pascaline_wire::RankSet;

/// A result, as it lies in the slot that caches it. To send it, clone the payload.
#[derive(Debug, Clone)]
pub struct Aggregate<'a, S> {
    /// Which PSN.
    pub key: Key,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// Contributions that were asked for.
    pub fan_in: u16,
    /// Contributions inside.
    pub count: u16,
    /// An element saturated.
    pub overflow: bool,
    /// A packet inside has met congestion on its way.
    pub marked: bool,
    /// True if the payload is followed by a trailer that says which ranks are inside: not all of them are.
    pub partial: bool,
    /// When the first contribution arrived, in nanoseconds of the caller's clock.
    pub first: u64,
    /// How it was agreed upon: [`round`](pascaline_wire::round).
    pub round: u16,
    /// The payload, and nothing else but the trailer.
    pub payload: &'a S,
}

/// Why a request was rejected; the drop reasons have the same names. The packet is the caller's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// All slots of the set hold other PSNs. The sender will retransmit.
    Conflict,
    /// The job holds as many slots as it may.
    Quota,
    /// All slots of the set hold other PSNs, and of those the job has its share.
    Share,
    /// The PSN is older than all that its place in the region holds: it has had its result.
    Stale,
    /// Nothing is there of the PSN that is to be sent out.
    UnknownPsn,
    /// The rank's contribution is inside already.
    Duplicate,
    /// The rank is not below the fan-in.
    RankOutOfRange,
    /// A new PSN whose fan-in is not the job's.
    FanInMismatch,
    /// The fan-in differs from that of the contributions inside.
    FanInChanged,
    /// The payload length differs from that of the contributions inside.
    LengthChanged,
    /// The element type or operation differs from that of the contributions inside.
    ElementChanged,
    /// It is the last PSN of the sender's operation and not of that of the contributions inside, or the other
    /// way round.
    OperationChanged,
    /// The pool has no kernel for the element type and operation.
    ElementUnsupported,
    /// The count field is not what the kind of packet demands.
    BadCount,
    /// The ring to the owner of the PSN's set is full.
    Contention,
}

impl Rejection {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Conflict,
        Self::Quota,
        Self::Share,
        Self::Stale,
        Self::UnknownPsn,
        Self::Duplicate,
        Self::RankOutOfRange,
        Self::FanInMismatch,
        Self::FanInChanged,
        Self::LengthChanged,
        Self::ElementChanged,
        Self::OperationChanged,
        Self::ElementUnsupported,
        Self::BadCount,
        Self::Contention,
    ];
}

/// What is known of a PSN that a rank waits for.
#[derive(Debug)]
pub enum Reminded<'a, S, const WORDS: usize> {
    /// Here it is.
    Cached(Aggregate<'a, S>),
    /// These ranks have contributed; reminded no more often than the pool's interval.
    Partial(RankSet<WORDS>),
    /// A partial that the missing ranks were reminded of a moment ago.
    Recently,
    /// Nothing; the ranks that have the result may still cache it.
    Unknown,
}

/// Why something was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Another PSN wanted the slot, and this was a cached result, or a partial beyond the age limit.
    Age,
    /// Another PSN wanted the slot and won the conflict.
    Preempted,
    /// Its job held more than its share, and another job wanted its own.
    Share,
    /// The parameter server fetched it.
    Fetched,
    /// It is complete, but part of it was sent again, so there may be another result: the parameter server
    /// knows.
    Referred,
    /// The result came from elsewhere.
    Superseded,
    /// The caller of a [sweep](crate::Session::sweep) wanted it to go.
    Swept,
    /// It was combined before it was handed off, and the owner of its set had no slot, for this reason.
    NoRoom(Rejection),
}

/// What was evicted.
#[derive(Debug)]
pub enum Evicted<B: PacketBuf> {
    /// A cached result.
    Result,
    /// A partial that is not needed; its packets are [recycled](Sink::recycled).
    GivenUp,
    /// A partial for the parameter server.
    Partial(Partial<B>),
    /// The contributions of a partial for the parameter server, one by one: they have not been added yet.
    Originals(Originals<B>),
}

/// A partial on its way to the parameter server.
#[derive(Debug)]
pub struct Partial<B> {
    /// The payload and the trailer that says which ranks are inside, and nothing else.
    pub packet: B,
    /// Bytes of the payload.
    pub len: u16,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// Ranks of the job.
    pub fan_in: u16,
    /// Ranks inside.
    pub count: u16,
    /// An element saturated.
    pub overflow: bool,
    /// The slot was opened by a contribution that was not sent for the first time, so perhaps none inside
    /// was.
    pub again: bool,
    /// The slot's priority.
    pub priority: u16,
}

/// Receives the events of a pool. Each request gives exactly one of the events that say so, later and on
/// another lcore if it was handed off; the others come in addition.
///
/// A method may stay unimplemented if what leads to its event is never sent: the packet is then dropped.
pub trait Sink<B: PacketBuf, const WORDS: usize = 1> {
    /// *One per request.* The contribution opened a slot: its packet is now the accumulator.
    fn opened(&mut self, of: &Contribution);
    /// *One per request.* The contribution is inside. Its packet is [recycled](Self::recycled), now or later.
    fn added(&mut self, of: &Contribution);
    /// *One per request.* The contribution completed the PSN. `alone` if it also opened the slot.
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, B::Shared>);
    /// *One per request.* The rank waits for a result that is cached: here it is again.
    fn replayed(&mut self, _request: &Request, _packet: B, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* A result from elsewhere is cached.
    fn installed(&mut self, _request: &Request, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* A result from elsewhere found no slot: it is given out, and not cached.
    fn passed_on(&mut self, _request: &Request, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* The answer to a reminder.
    fn reminded(&mut self, _request: &Request, _packet: B, _state: Reminded<'_, B::Shared, WORDS>) {}
    /// *One per request.* The answer to a fetch: the result, or none if the partial was
    /// [evicted](Self::evicted).
    fn fetched(&mut self, _request: &Request, _packet: B, _result: Option<Aggregate<'_, B::Shared>>) {}
    /// *One per request.* What there was of the PSN is [released](Self::released).
    fn obeyed(&mut self, _request: &Request, _packet: B) {}
    /// *One per request.* The request was rejected.
    fn rejected(&mut self, request: &Request, packet: B, why: Rejection);
    /// The contribution was combined with one that is about to be handed off, and shares its fate: the
    /// request of that one says that it is [inside](Request::inside).
    fn combined(&mut self, of: &Contribution) {
        self.added(of);
    }
    /// The packet was handed off to the owner of its set; its event will come there.
    fn handed_off(&mut self) {}
    /// A packet whose contents are in a sum, or given up, is the caller's again.
    fn recycled(&mut self, packet: B);
    /// A PSN is complete without a further contribution: its time is up, or fewer are needed than before.
    fn released(&mut self, _result: Aggregate<'_, B::Shared>) {}
    /// A [sweep](crate::Session::sweep) found a partial, opened at `first`, with these ranks inside. True if
    /// one of them waits for the result.
    #[inline]
    fn seen(&mut self, _key: Key, _first: u64, _inside: &RankSet<WORDS>) -> bool {
        false
    }
    /// A slot was vacated.
    fn evicted(&mut self, key: Key, what: Evicted<B>, cause: Cause);
}

/// What the pool asks of its caller while it works through a [burst](crate::Session::add_burst).
pub trait BurstSink<B: PacketBuf, const WORDS: usize = 1>: Sink<B, WORDS> {
    /// Where the payload of a recognised gradient begins in its packet.
    const PAYLOAD_OFFSET: u16;

    /// How a job uses the pool; the default for a job that is not known.
    fn rules(&self, job: u16) -> Rules;
    /// True if a gradient whose slot does not expect it may open one, or be anything else. What is inside a
    /// slot was admitted once, so what that expects need not be asked about.
    fn admits(&self, _gradient: &Gradient) -> bool {
        true
    }
    /// How important a recognised gradient is.
    fn priority(&self, packet: &B) -> u16;
    /// All about a gradient that arrived at `now`.
    fn whole_request(&mut self, gradient: &Gradient, packet: &B, now: u64) -> Request;
    /// True if what the caller keeps of jobs and ranks outgrows the caches, so that prefetching it pays.
    fn is_wide(&self) -> bool {
        false
    }
    /// Prefetches where the caller counts a gradient.
    fn prefetch_count(&self, _gradient: &Gradient) {}
    /// Prefetches what sending a result takes, which the gradient probably completes.
    fn prefetch_replies(&self, _gradient: &Gradient) {}
    /// All gradients of the burst are worked off; `added` of them were added without an event.
    fn worked_off(&mut self, burst: &Burst<B>, added: usize, now: u64);
}
