//! Receiving and sending, a burst at a time.
//!
//! A queue has one owner: it moves to the lcore that polls it, cannot be copied, and takes `&mut self`, since
//! DPDK forbids two threads in one queue. Each call does a bounded amount of work and never waits.

mod hook;
mod rx;
mod tx;

pub use rx::RxQueue;
pub use tx::TxQueue;

/// Most packets that one call receives. Larger bursts gain nothing, but push packets out of the first-level
/// cache.
pub const MAX_BURST: usize = 64;
