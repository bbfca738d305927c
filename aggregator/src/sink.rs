//! The output of the pool.

use pascaline_buffer::PacketBuf;

use crate::contributions::Originals;
use crate::key::Key;
use crate::request::{Contribution, Gradient, Request, Rules};
use crate::session::Burst;
use pascaline_wire::RankSet;

/// A result in the slot that caches it. To send it, clone the payload.
#[derive(Debug, Clone)]
pub struct Aggregate<'a, S> {
    /// Which PSN.
    pub key: Key,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// Contributions that complete it.
    pub fan_in: u16,
    /// Contributions inside.
    pub count: u16,
    /// An element saturated.
    pub overflow: bool,
    /// A packet inside has met congestion on its way.
    pub marked: bool,
    /// True if the payload is followed by a trailer that names the ranks inside: some are missing.
    pub partial: bool,
    /// When the first contribution arrived, in nanoseconds of the caller's clock.
    pub first: u64,
    /// How it was agreed upon: [`round`](pascaline_wire::round).
    pub round: u16,
    /// The payload, followed only by the trailer.
    pub payload: &'a S,
}

/// Why a request was rejected; the drop reasons have the same names. The packet is the caller's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// All slots of the set hold other PSNs. The sender will retransmit.
    Conflict,
    /// The job holds all the slots of its quota.
    Quota,
    /// All slots of the set hold other PSNs, and the job has its share of them.
    Share,
    /// The PSN, or its generation, is older than those at its place in the region: it has had its result.
    Stale,
    /// There is no partial of the PSN to send out.
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
    /// The count field does not fit the kind of packet.
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

/// The state of a PSN that a rank waits for.
#[derive(Debug)]
pub enum Reminded<'a, S, const WORDS: usize> {
    /// The cached result.
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
    /// Another PSN needed the slot, and this was a cached result, or a partial beyond the age limit.
    Age,
    /// Another PSN needed the slot and won the conflict.
    Preempted,
    /// Its job held more than its share, and another job needed its own.
    Share,
    /// The parameter server fetched it.
    Fetched,
    /// It is complete, but part of it was sent again, so there may be another result: the parameter server
    /// decides.
    Referred,
    /// The result came from elsewhere.
    Superseded,
    /// The caller of a [sweep](crate::Session::sweep) evicted it.
    Swept,
    /// It was combined before it was handed off, and the owner of its set had no slot, for this reason.
    NoRoom(Rejection),
}

/// The evicted content.
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
    /// Only the payload and the trailer that names the ranks inside.
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

/// Receives the events of a pool. Each request leads to exactly one of the events marked *one per request*,
/// later and on another lcore if it was handed off; the other events come in addition.
///
/// A method may stay unimplemented if what leads to its event is never sent: the packet is then dropped.
pub trait Sink<B: PacketBuf, const WORDS: usize = 1> {
    /// *One per request.* The contribution opened a slot: its packet is now the accumulator.
    fn opened(&mut self, of: &Contribution);
    /// *One per request.* The contribution is inside. Its packet is [recycled](Self::recycled), now or later.
    fn added(&mut self, of: &Contribution);
    /// *One per request.* The contribution completed the PSN. `alone` if it also opened the slot.
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, B::Shared>);
    /// *One per request.* The rank waits for a cached result, which is sent again.
    fn replayed(&mut self, _request: &Request, _packet: B, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* A result from elsewhere is cached.
    fn installed(&mut self, _request: &Request, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* A result from elsewhere found no slot: it is sent, and not cached.
    fn passed_on(&mut self, _request: &Request, _result: Aggregate<'_, B::Shared>) {}
    /// *One per request.* The answer to a reminder.
    fn reminded(&mut self, _request: &Request, _packet: B, _state: Reminded<'_, B::Shared, WORDS>) {}
    /// *One per request.* The answer to a fetch: the result, or none if the partial was
    /// [evicted](Self::evicted).
    fn fetched(&mut self, _request: &Request, _packet: B, _result: Option<Aggregate<'_, B::Shared>>) {}
    /// *One per request.* The partial of the PSN is [released](Self::released).
    fn release_accepted(&mut self, _request: &Request, _packet: B) {}
    /// *One per request.* The request was rejected.
    fn rejected(&mut self, request: &Request, packet: B, why: Rejection);
    /// The contribution was combined with one that is about to be handed off, and shares its fate: the
    /// request of that one has its rank [inside](Request::inside).
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

/// The pool's queries to its caller while it handles a [burst](crate::Session::add_burst).
pub trait BurstSink<B: PacketBuf, const WORDS: usize = 1>: Sink<B, WORDS> {
    /// Where the payload of a recognised gradient begins in its packet.
    const PAYLOAD_OFFSET: u16;

    /// A job's rules; the default for an unknown job.
    fn rules(&self, job: u16) -> Rules;
    /// True if a gradient whose slot does not expect it may open one, or be handled otherwise. The PSN in a
    /// slot was admitted once, so gradients that it expects are not checked again.
    fn admits(&self, _gradient: &Gradient) -> bool {
        true
    }
    /// The priority of a recognised gradient.
    fn priority(&self, packet: &B) -> u16;
    /// All about a gradient that arrived at `now`.
    fn whole_request(&mut self, gradient: &Gradient, packet: &B, now: u64) -> Request;
    /// True if the caller's state of jobs and ranks exceeds the caches, so that prefetching it pays.
    fn is_wide(&self) -> bool {
        false
    }
    /// Prefetches the caller's counter for a gradient.
    fn prefetch_count(&self, _gradient: &Gradient) {}
    /// Prefetches the state for sending a result, which the gradient probably completes.
    fn prefetch_replies(&self, _gradient: &Gradient) {}
    /// All gradients of the burst are handled; `added` of them were added without an event.
    fn worked_off(&mut self, burst: &Burst<B>, added: usize, now: u64);
}
