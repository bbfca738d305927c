//! The worker's side of an in-network allreduce.
//!
//! Two layers. The core ([`membership`], [`session`] and what they are made of) is a pure state machine:
//! datagrams and times in, datagrams and events out; no socket, no clock, no thread. The driver ([`udp`])
//! runs it over a kernel UDP socket; a simulator or a faster driver runs the same core.
//!
//! From the inside out: [`rtt`] estimates the timeout, [`window`] knows what is in flight, [`recovery`]
//! decides what is lost; [`kept`], [`partials`] and [`answers`] help other ranks; [`op`] divides sums,
//! [`priority`] says how urgent they are; [`allreduce`] is one operation, [`session`] a member's life.
//! [`asynchronous`] is the same for training in which nobody waits for anybody.
//!
//! **Panics.** Nothing that is received makes any function here panic: a datagram either has its effect or is
//! counted by reason in [`counters`].
//!
//! ```no_run
//! use pascaline_worker::{Config, Worker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut worker = Worker::join(Config::new("10.77.0.254:16420".parse()?, 1, 0, 4))?;
//! let mut gradient = vec![1.0_f32; 1 << 20];
//! let report = worker.allreduce(&mut gradient)?;
//! println!("{} bytes in {:?}", report.bytes, report.elapsed);
//! worker.leave();
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("payloads are little endian, and tensors are sent as they lie in memory");

pub mod allreduce;
pub mod answers;
pub mod asynchronous;
pub mod cache;
pub mod counters;
pub mod identity;
pub mod membership;
pub mod op;
pub mod partials;
pub mod pipeline;
pub mod priority;
pub mod recovery;
pub mod rejection;
mod requests;
pub mod rtt;
pub mod session;
pub mod udp;
pub mod window;

pub use allreduce::{Failure, Partial, Progress, Report, Request};
pub use asynchronous::{AsyncCounters, AsyncSession, Initial, Push, PushError, Settings, Slope};
pub use counters::{Counters, Ignored};
pub use half::{bf16, f16};
pub use identity::{Identity, Membership};
pub use membership::{Join, JoinFailure, Left};
pub use op::Op;
pub use pascaline_wire::RankSet;
pub use priority::Hints;
pub use rejection::{Reason, Rejection};
pub use session::{Event, Session, StartError, Transmit};
pub use udp::{
    AllreduceError, AsyncConfig, AsyncJoinError, AsyncWorker, Config, ConfigError, Departure, Element,
    JoinError, Worker, session_number,
};
