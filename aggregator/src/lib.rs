//! The shared aggregator pool.
//!
//! A slot sums the contributions to one PSN **in the buffer of the first one**: that packet is kept, later ones are
//! added into its payload in place, and when the completion rule holds it becomes read-only and leaves as the result.
//! No payload is copied, neither on arrival nor on completion nor on replay.
//!
//! The pool is a pure state machine: a [`Request`] (what a packet wants, with the time as an argument) and the packet
//! go in, events come out of a [`Sink`]. It knows no ports, no clock and no membership.
//!
//! **Sharing.** Each set of slots is the memory of one lcore, which is at home there, by its number. An lcore that receives
//! a packet for another one's set combines it with others for the same PSN, if it can, leaves it in a ring and goes on
//! ([`handoff`]). No lcore waits. Where the NIC steers PSNs by their lowest bits, packets come where their slots are.
//!
//! Modules: [`key`] names a PSN and places it; [`request`] and [`sink`] are
//! the interface; `slot` is one slot's state machine and `set` the choice between slots; [`pool`] is
//! what is done to them; `session` is one lcore's way in, `lanes` which sets are whose, `part` the memory of those of one lcore, and `handed` what
//! travels between lcores.
#![allow(
    unsafe_code,
    reason = "the pool's core: accumulators in packets that a slot holds, and the rings between lcores"
)]

mod contributions;
mod handed;
pub mod handoff;
pub mod key;
mod lanes;
mod part;
pub mod policy;
pub mod pool;
pub mod prefetch;
pub mod request;
mod session;
mod set;
pub mod sink;
mod slot;
mod sync;

pub use key::Key;
pub use pascaline_wire::RankSet;
pub use policy::{ConflictPolicy, Order, Policy, Region};
pub use pool::{Pool, PoolConfig, PoolConfigError};
pub use request::{Brief, Contribution, Opening, Request, Rules, Shape, Terms, Verb};
pub use session::{Brevity, Incoming, Kept, Place, Session, Together, Verdict};
pub use sink::{Aggregate, Cause, Displaced, Evicted, Originals, Refusal, Reminded, Sink};
