//! The parameter server: it completes aggregations that the appliance alone could not.
//!
//! DSA (section III.B and IV) calls it PS: a dictionary from (job, PSN) to {values, bitmap, time}.
//! Contributions that lose the conflict for a slot of the appliance, or are evicted from one, are added up
//! here. When an entry is late, or a worker reports it, the *reminder* mechanism collects the missing parts:
//! the partial that the appliance holds and the originals of the workers. A complete sum goes back to the
//! appliance, which passes it on to all ranks.
//!
//! Contract of this crate: a pure state machine. Packets and times go in, [`Action`]s come out; no socket, no
//! clock, no thread. A UDP driver, the appliance's control core and a fault harness run the same code. Memory
//! is bounded by [`Config`] and, per job, by [`JobParams::capacity`], which is reserved: no job can starve
//! another. Every packet ends in one counted [`Outcome`].
//!
//! **Panics.** No received packet makes any function here panic.
//!
//! An entry collects contributions, a cached result answers late ranks, a job holds both, and [`Server`] has
//! all jobs. [`asynchronous`] is a server for asynchronous training.
//!
//! ```
//! use core::time::Duration;
//! use pascaline_ps::{Config, Destination, JobParams, Outcome, Server};
//! use pascaline_wire::{Element, Header, Kind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = Server::new(Config::default());
//! server.witness(1); // It has been there since generation 7 began; otherwise it would ask the ranks first.
//! server.set_job(1, JobParams::new(2, 7))?;
//! for rank in 0..2 {
//!     let about = Header::about(Kind::Gradient, Element::F32_SUM, 1, 7);
//!     let header = Header { rank, fan_in: 2, count: 1, ..about };
//!     assert_eq!(server.handle(Duration::ZERO, &header, &1.5_f32.to_le_bytes()), Outcome::Added);
//! }
//! let result = server.poll_action().ok_or("complete")?;
//! assert_eq!(result.to, Destination::Appliance);
//! assert_eq!(result.payload, 3.0_f32.to_le_bytes());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod action;
mod agenda;
pub mod asynchronous;
mod cached;
mod check;
pub mod combine;
pub mod config;
pub mod counters;
mod entry;
mod job;
pub mod outcome;
mod server;
pub mod timeout;

pub use action::{Action, Destination};
pub use config::{Capacity, Completion, Config, JobParams, Order, SetJobError};
pub use counters::Counters;
pub use outcome::{Answer, Outcome, RejectReason};
pub use server::{Server, Usage};
