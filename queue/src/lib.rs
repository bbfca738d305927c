//! OlafQueue: an egress queue that combines the updates of a cluster while they wait (Olaf, sections 3, 4 and
//! 12.1), and the FIFO for comparison.
//!
//! In asynchronous training a worker sends an update whenever it has one. A newer update of a worker makes
//! its older one useless, and updates of different workers can be added up. So the queue holds at most one
//! waiting update per cluster, and overflows only when more clusters than segments are active.
//!
//! **An update's packet is its segment.** [`UpdateQueue`] needs none of the paper's lists of free and used
//! memory segments: it keeps the packets themselves in order. No payload is copied. Updates depart first in,
//! first out, so an update's number gives its place, and one table maps clusters to numbers.
//!
//! A pure state machine: updates and times go in, outcomes and departures come out. Every update has exactly
//! one [`EnqueueOutcome`], which is counted. Every packet is returned: recycled, as a departure, or when the
//! queue is dropped. Nothing allocates after [`UpdateQueue::new`].
//!
//! **Panics.** No received packet makes a function here panic.
//!
//! ```
//! use pascaline_buffer::combine::Kernels;
//! use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
//! use pascaline_queue::{Config, Update, UpdateQueue, EnqueueOutcome};
//! use pascaline_wire::Element;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = HeapPool::new();
//! let mut queue = UpdateQueue::<HeapBuf>::new(&Config::default(), &Kernels::detect())?;
//! for worker in [1, 2] {
//!     let update = Update {
//!         cluster: 7, worker, origin: 0, psn: 0, epoch: 0, count: 1, reward: 200.0, generated_ns: 10,
//!         element: Element::F32_SUM, offset: 0, len: 4, overflow: false,
//!     };
//!     let enqueued = queue.enqueue(20, update, pool.alloc(&1.5_f32.to_le_bytes(), 64));
//!     let expected = if worker == 1 { EnqueueOutcome::Appended } else { EnqueueOutcome::Aggregated };
//!     assert_eq!(enqueued.outcome, expected);
//! }
//! let departure = queue.dequeue().ok_or("two have become one")?;
//! assert_eq!((departure.update.count, departure.aggregations), (2, 1));
//! assert_eq!(departure.packet.bytes(), 3.0_f32.to_le_bytes());
//! assert!(queue.is_empty());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod clusters;
mod combine;
mod config;
mod counters;
mod outcome;
mod queue;
mod shaper;
mod update;
mod waiting;

pub use config::{Combine, Config, ConfigError, Discipline};
pub use counters::{Counters, UpdateCount};
pub use outcome::{EnqueueOutcome, Enqueued, UpdateRejection};
pub use queue::{Prediction, UpdateQueue};
pub use shaper::{InDebt, Shaper};
pub use update::{Departure, Update};
