//! OlafQueue: an egress queue in which updates of a cluster are combined while they wait (Olaf, sections 3, 4
//! and 12.1), and the FIFO that it is compared with.
//!
//! In asynchronous training every worker sends an update whenever it has one. Where they queue, those of one
//! cluster need not all leave: a worker's newer update knows all that its older one knew, and updates of
//! different workers can be added up. So a queue holds at most one waiting update per cluster, it only
//! overflows when more clusters than segments are active, and what leaves is fresh.
//!
//! **An update's packet is its segment.** Where the paper has memory segments, a list of free ones, a list of
//! those to be sent and four pointers into the lists, [`UpdateQueue`] keeps the packets themselves in order:
//! enqueueing takes the packet, replacing exchanges packets, aggregating adds the payload of one into the
//! other and gives back the one that is spent. No payload is copied. Because departure is first in, first
//! out, an update's number says where it waits, and a table from clusters to numbers is all there is to look
//! up.
//!
//! Contract of this crate: a pure state machine. Updates and times go in, verdicts and departures come out:
//! no port, no clock, no thread. Every update has exactly one [`Verdict`], which is counted, and every packet
//! comes back out: as spent, as a departure, or when the queue is dropped. After [`UpdateQueue::new`] nothing
//! is allocated.
//!
//! **Panics.** Nothing that is received makes any function here panic.
//!
//! Modules: `config` says what can be chosen, `update` what the queue knows of a packet, `verdict` what
//! becomes of it, `counters` what became of all; `clusters` finds the waiting one of a cluster, `waiting` is
//! that one, `combine` knows the kernels, `queue` puts them together; [`Shaper`] says when the head may
//! leave.
//!
//! ```
//! use pascaline_buffer::combine::Kernels;
//! use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
//! use pascaline_queue::{Config, Update, UpdateQueue, Verdict};
//! use pascaline_wire::Element;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = HeapPool::new();
//! let mut queue = UpdateQueue::<HeapBuf>::new(&Config::default(), &Kernels::detect())?;
//! for worker in [1, 2] {
//!     let update = Update {
//!         cluster: 7, worker, psn: 0, epoch: 0, count: 1, reward: 200.0, generated_ns: 10, element: Element::F32_SUM, offset: 0, len: 4,
//!         overflow: false,
//!     };
//!     let enqueued = queue.enqueue(20, update, pool.alloc(&1.5_f32.to_le_bytes(), 64));
//!     assert_eq!(enqueued.verdict, if worker == 1 { Verdict::Appended } else { Verdict::Aggregated });
//! }
//! let departure = queue.dequeue().ok_or("two have become one")?;
//! assert_eq!((departure.update.count, departure.aggregations), (2, 1));
//! assert_eq!(departure.packet.bytes(), 3.0_f32.to_le_bytes());
//! assert!(queue.is_empty());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod clusters;
mod combine;
mod config;
mod counters;
mod queue;
mod shaper;
mod update;
mod verdict;
mod waiting;

pub use config::{Combine, Config, ConfigError, Discipline};
pub use counters::{Counters, Tally};
pub use queue::{Foreseen, UpdateQueue};
pub use shaper::{InDebt, Shaper};
pub use update::{Departure, Update};
pub use verdict::{Enqueued, Refusal, Verdict};
