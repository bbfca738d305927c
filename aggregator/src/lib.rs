//! The aggregator pool: in-network aggregation as a pure state machine.
//!
//! A **slot** is the memory for one PSN. It sums the contributions **in the buffer of the first one**: that
//! packet stays, later ones are added into its payload in place, and with the last contribution it becomes
//! read-only and leaves as the result. No payload is copied, neither on arrival nor on completion nor on
//! replay. The result stays cached until another PSN needs the slot.
//!
//! ```text
//!            gather          add_burst                                   ┌ opened, added → packet recycled
//! packets ──┬ fast path ──→ predict slot, prefetch, add in place ────────┼ completed → the result
//!           └ others ─────→ offer(whole request) ─→ find or open a slot ─┴ rejected, evicted, replayed, …
//!                                │ set of another owner                        (events of the sink)
//!                                └ combine, hand off ──→ ring ──→ resume, on the owner's lcore
//! ```
//!
//! **Interface.** [`Pool::sessions`] lays a pool out and gives each lcore its [`Session`]. A turn of an lcore
//! is [`gather`](Session::gather), [`add_burst`](Session::add_burst), [`offer`](Session::offer) for every
//! other packet, and [`resume`](Session::resume); now and then it [`sweep`](Session::sweep)s. Events go to a
//! [`Sink`], and a [`BurstSink`] answers what the pool asks about a burst. The pool has no ports, no clock
//! and no membership: a [`Request`] describes a packet, with the time as a number.
//!
//! **Sharing.** Each set of slots has one owner, an lcore; its sets are its shard. An lcore that receives a
//! packet for another one's set combines it with others for the same PSN, if it can, leaves it in a ring and
//! continues ([`handoff`]). No lcore waits. Where the NIC steers PSNs by their lowest bits, packets come to
//! the owner of their slot.
//!
//! ```
//! use pascaline_aggregator::{
//!     Aggregate, Cause, Contribution, Evicted, Key, Pool, PoolConfig, Rejection, Request, Rules, Sink, Verb,
//! };
//! use pascaline_buffer::combine::Kernels;
//! use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, SharedBuf};
//!
//! #[derive(Default)]
//! struct Results(Vec<Vec<u8>>);
//!
//! impl Sink<HeapBuf> for Results {
//!     fn opened(&mut self, _: &Contribution) {}
//!     fn added(&mut self, _: &Contribution) {}
//!     fn completed(&mut self, _: &Contribution, _: bool, result: Aggregate<'_, HeapShared>) {
//!         self.0.push(result.payload.bytes().to_vec());
//!     }
//!     fn rejected(&mut self, _: &Request, _: HeapBuf, why: Rejection) {
//!         panic!("{why:?}");
//!     }
//!     fn recycled(&mut self, _: HeapBuf) {}
//!     fn evicted(&mut self, _: Key, _: Evicted<HeapBuf>, _: Cause) {}
//! }
//!
//! let mut session = Pool::sessions(&PoolConfig::default(), Kernels::detect(), 1)?.remove(0);
//! let (memory, mut results) = (HeapPool::new(), Results::default());
//! for (rank, value) in [(0, 40_i32), (1, 2)] {
//!     let request = Request {
//!         verb: Verb::Add,
//!         key: Key::new(1, 1, 7),
//!         rank,
//!         fan_in: 2,
//!         job_fan_in: 2,
//!         needed: 2,
//!         count: 1,
//!         inside: 0,
//!         element: pascaline_wire::Element::I32_SUM.code(),
//!         overflow: false,
//!         marked: false,
//!         again: false,
//!         partial: false,
//!         priority: 0,
//!         rules: Rules::default(),
//!         offset: 0,
//!         len: 4,
//!         now: 0,
//!     };
//!     session.offer(&request, None, memory.alloc(&value.to_le_bytes(), 0), &mut results);
//! }
//! assert_eq!(results.0, [42_i32.to_le_bytes()]);
//! # Ok::<(), pascaline_aggregator::PoolConfigError>(())
//! ```
#![allow(
    unsafe_code,
    reason = "the pool's core: accumulators in packets that a slot holds, and the rings between lcores"
)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod contributions;
mod handed_off;
pub mod handoff;
mod key;
mod owners;
mod policy;
mod pool;
mod request;
mod sabotage;
mod session;
mod set;
mod shard;
mod share;
mod sink;
mod slot;
mod sync;

pub use contributions::Originals;
pub use key::Key;
pub use pascaline_wire::RankSet;
pub use policy::{ConflictPolicy, Order, Policy, Region};
pub use pool::{Pool, PoolConfig, PoolConfigError};
pub use request::{Contribution, Gradient, Request, Rules, Shape, Terms, Verb};
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use session::{BURST, Burst, Session, SweepAction};
pub use share::{Shares, TENANTS, Tenant};
pub use sink::{Aggregate, BurstSink, Cause, Evicted, Partial, Rejection, Reminded, Sink};
