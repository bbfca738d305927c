//! A safe layer over DPDK: environment, memory pools, packets, ports, queues, lcores, clock.
//!
//! Contract of this crate, bottom up; a module uses only those above it in this list:
//!
//! | module | idea |
//! |---|---|
//! | [`mod@error`] | DPDK's error numbers, with their texts |
//! | [`eal`] | DPDK's environment: started once per process, alive as long as anything made from it |
//! | [`clock`], [`lcore`] | time from the processor's counter; one thread per core |
//! | [`mempool`] | where packets come from, and when that memory may go |
//! | [`mbuf`] | a packet: [`Mbuf`] owned and writable, [`SharedMbuf`] read-only and counted |
//! | [`kernel`] | interfaces of the kernel's, through packet sockets that understand segmentation |
//! | [`port`] | a network device as a typestate, stopped or started |
//! | [`queue`] | [`RxQueue`], [`TxQueue`]: one holder each, a burst at a time |
//!
//! **Ownership.** Everything that needs the environment holds a count on it, so any order of drops is right:
//! a port closes with its last handle, a pool goes after the ports that fill their rings from it, and the
//! environment goes last.
//!
//! **Datapath.** Only [`queue`], [`mbuf`] and the allocations of [`mempool`] run per packet. They never
//! block, allocate from the heap or log; full and exhausted are ordinary results.
//!
//! **Unsafe** code for DPDK is here and nowhere else in the workspace.
#![allow(unsafe_code, reason = "DPDK is C")]

pub mod clock;
pub mod eal;
pub mod error;
pub mod kernel;
pub mod lcore;
pub mod mbuf;
pub mod mempool;
pub mod port;
pub mod queue;

pub use clock::Clock;
pub use eal::{Eal, EalConfig, EalError, Hugepages, LogLevel, Memory, version};
pub use error::Errno;
pub use lcore::{Lcore, LcoreHandle};
pub use mbuf::{Mbuf, SharedMbuf};
pub use mempool::{Mempool, PoolConfig, PoolError};
pub use port::{Device, OpenError, Port, PortConfig, PortStats, StartError, Started, StartedPort, Stopped};
pub use queue::{RxQueue, TxQueue};

// Types that may move between threads, and types that several may use at once. Examples that must not
// compile, beside the types, check the opposite.
const _: () = {
    const fn sent<T: Send>() {}
    const fn shared<T: Send + Sync>() {}
    sent::<Mbuf>();
    sent::<SharedMbuf>();
    sent::<RxQueue>();
    sent::<TxQueue>();
    shared::<Eal>();
    shared::<Lcore>();
    shared::<LcoreHandle<()>>();
    shared::<Mempool>();
    shared::<Port<Stopped>>();
    shared::<Port<Started>>();
    shared::<PortStats>();
};
