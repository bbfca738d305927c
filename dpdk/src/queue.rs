//! Receiving and sending, a burst at a time.
//!
//! A queue has one holder: it is moved to the lcore that polls it, cannot be copied, and takes `&mut self`,
//! since DPDK forbids two threads in one queue. Both directions do a bounded amount of work per call and
//! never wait.

mod hook;
mod rx;
mod tx;

pub use rx::RxQueue;
pub use tx::TxQueue;

/// Most packets that one call receives. Larger bursts gain nothing, but spill the packets out of the first
/// cache.
pub const MAX_BURST: usize = 64;
