//! What comes out of the pool.

use pascaline_buffer::PacketBuf;

use crate::key::Key;
use crate::rankset::RankSet;
use crate::request::Request;

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
    /// When the first contribution arrived, in nanoseconds of the caller's clock.
    pub first: u64,
    /// The payload, and nothing but the payload.
    pub payload: &'a S,
}

/// Why a request was refused. The packet is the caller's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// All slots of the set hold other PSNs. The sender will retransmit.
    Conflict,
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
    /// Other lcores got in first too many times in a row.
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

/// What had to go from a slot that another PSN wanted, or whose job has moved on.
#[derive(Debug)]
pub enum Displaced<B> {
    /// A kept result.
    Result,
    /// A partial older than the age limit, or of a past generation; its buffer is the caller's.
    Partial(B),
}

/// Receives the events of a pool. Each request gives exactly one event, later and on another lcore if it was handed
/// off; `displaced` comes in addition.
pub trait Sink<B: PacketBuf, const WORDS: usize = 1> {
    /// The contribution opened a slot: its packet is now the accumulator.
    fn opened(&mut self, request: &Request);
    /// The contribution was added; its packet is spent.
    fn added(&mut self, request: &Request, spent: B);
    /// The contribution completed the PSN. `spent` is `None` if its own packet became the result.
    fn completed(&mut self, request: &Request, spent: Option<B>, result: Aggregate<'_, B::Shared>);
    /// The rank has contributed to a result that is still kept: here it is again.
    fn replayed(&mut self, request: &Request, packet: B, result: Aggregate<'_, B::Shared>);
    /// A rank's kept result was taken over. `partial` is what stood in its place.
    fn installed(&mut self, request: &Request, partial: Option<B>, result: Aggregate<'_, B::Shared>);
    /// A rank's kept result found no slot: it is given out, and not kept.
    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, B::Shared>);
    /// The answer to a reminder.
    fn reminded(&mut self, request: &Request, packet: B, state: Reminded<'_, B::Shared, WORDS>);
    /// The request was refused.
    fn refused(&mut self, request: &Request, packet: B, why: Refusal);
    /// The packet was left with the lcore that owns its set; its event will come there.
    fn handed_off(&mut self);
    /// A slot was vacated.
    fn displaced(&mut self, key: Key, what: Displaced<B>);
}
