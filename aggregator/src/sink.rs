//! What comes out of the pool.

use pascaline_buffer::PacketBuf;

pub use crate::contributions::Originals;
use crate::key::Key;
use crate::request::{Contribution, Request};
use pascaline_wire::RankSet;

/// A complete aggregate, as it lies in the slot that keeps it. Whoever sends it clones the payload.
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
    /// True if the payload is followed by a trailer that says which ranks are inside: not all of them are.
    pub partial: bool,
    /// When the first contribution arrived, in nanoseconds of the caller's clock.
    pub first: u64,
    /// How it was agreed upon: [`round`](pascaline_wire::round).
    pub round: u16,
    /// The payload, and nothing else but the trailer.
    pub payload: &'a S,
}

/// Why a request was refused. The packet is the caller's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// All slots of the set hold other PSNs. The sender will retransmit.
    Conflict,
    /// The job holds as many slots as it may.
    Quota,
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
    /// The pool has no kernel for the element type and operation.
    ElementUnsupported,
    /// The count field is not what the kind of packet demands.
    BadCount,
    /// So much waits for the lcore that is at home in the PSN's set that no more can be left for it.
    Contention,
}

/// What is known of a PSN that a rank waits for.
#[derive(Debug)]
pub enum Reminded<'a, S, const WORDS: usize> {
    /// Here it is.
    Kept(Aggregate<'a, S>),
    /// These ranks have contributed; reminded no more often than the pool's interval.
    Partial(RankSet<WORDS>),
    /// A partial that the missing ranks were reminded of a moment ago.
    Recently,
    /// Nothing; the ranks that have the result may still keep it.
    Unknown,
}

/// Why something had to go from a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Another PSN wanted the slot, and this one was a kept result, or a partial beyond the age limit.
    Age,
    /// Another PSN wanted the slot and won the conflict.
    Preempted,
    /// The parameter server fetched it.
    Fetched,
    /// It is complete, but part of it was sent again: there may be another result already. The parameter server knows of it, or finds out.
    Referred,
    /// The result came from elsewhere.
    Superseded,
    /// The caller of a [sweep](crate::Session::sweep) wanted it to go.
    Swept,
    /// It was combined on its way to the lcore that is at home in its set, and found no slot there.
    NoRoom,
}

/// What went.
#[derive(Debug)]
pub enum Displaced<B: PacketBuf> {
    /// A kept result.
    Result,
    /// A partial that nobody wants; its packets are [spent](Sink::spent).
    GivenUp,
    /// A partial for the parameter server.
    Partial(Evicted<B>),
    /// The contributions of a partial for the parameter server, one by one: they have not been added yet.
    Originals(Originals<B>),
}

/// A partial on its way to the parameter server.
#[derive(Debug)]
pub struct Evicted<B> {
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
    /// The slot was opened by a contribution that was not sent for the first time, so perhaps none inside was.
    pub again: bool,
    /// The slot's priority.
    pub priority: u16,
}

/// Receives the events of a pool. Each request gives exactly one of the events that say so, later and on another lcore if
/// it was handed off; the others come in addition.
pub trait Sink<B: PacketBuf, const WORDS: usize = 1> {
    /// *One per request.* The contribution opened a slot: its packet is now the accumulator.
    fn opened(&mut self, of: &Contribution);
    /// *One per request.* The contribution was taken in. Its packet comes back by [`spent`](Self::spent), at once or later.
    fn added(&mut self, of: &Contribution);
    /// *One per request.* The contribution completed the PSN. `alone` if it also opened the slot.
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, B::Shared>);
    /// *One per request.* The rank waits for a result that is kept: here it is again.
    fn replayed(&mut self, request: &Request, packet: B, result: Aggregate<'_, B::Shared>);
    /// *One per request.* A result from elsewhere was taken over.
    fn installed(&mut self, request: &Request, result: Aggregate<'_, B::Shared>);
    /// *One per request.* A result from elsewhere found no slot: it is given out, and not kept.
    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, B::Shared>);
    /// *One per request.* The answer to a reminder.
    fn reminded(&mut self, request: &Request, packet: B, state: Reminded<'_, B::Shared, WORDS>);
    /// *One per request.* The answer to a fetch: what there was has been [displaced](Self::displaced), or here is the result.
    fn fetched(&mut self, request: &Request, packet: B, result: Option<Aggregate<'_, B::Shared>>);
    /// *One per request.* What there was of the PSN has been [released](Self::released).
    fn obeyed(&mut self, request: &Request, packet: B);
    /// *One per request.* The request was refused.
    fn refused(&mut self, request: &Request, packet: B, why: Refusal);
    /// The contribution was added to one that is about to be left for another lcore: it shares what becomes of that one, whose
    /// request says that it is [inside](Request::inside).
    fn combined(&mut self, of: &Contribution) {
        self.added(of);
    }
    /// The packet was left for the lcore that is at home in its set; its event will come there.
    fn handed_off(&mut self);
    /// A packet whose contents are in a sum, or in vain, is the caller's again.
    fn spent(&mut self, packet: B);
    /// A PSN is complete without a further contribution: its time is up, or fewer are needed than before.
    fn released(&mut self, result: Aggregate<'_, B::Shared>);
    /// A [sweep](crate::Session::sweep) has come upon a partial, whose first contribution arrived at `first`, with these ranks inside.
    #[inline]
    fn seen(&mut self, _key: Key, _first: u64, _inside: &RankSet<WORDS>) {}
    /// A slot was vacated.
    fn displaced(&mut self, key: Key, what: Displaced<B>, cause: Cause);
}
