//! The worker's side of an in-network allreduce.
//!
//! A [`Worker`] is one rank of a job. It sends a tensor once, packet by packet, to the appliance, and
//! receives the sum of all ranks' tensors once, into the same memory:
//!
//! ```no_run
//! use pascaline_worker::{Config, Worker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Rank 0 of the 4 ranks of job 1; waits until all of them have joined.
//! let mut worker = Worker::join(Config::new("10.77.0.254:16420".parse()?, 1, 0, 4))?;
//! let mut gradient = vec![1.0_f32; 1 << 20];
//! let report = worker.allreduce(&mut gradient)?;
//! println!("{} bytes in {:?}", report.bytes, report.elapsed);
//! worker.leave();
//! # Ok(())
//! # }
//! ```
//!
//! [`Worker::into_background`] hands it to a thread, so that several operations can be in flight. An
//! [`AsyncWorker`] trains asynchronously: it sends updates at its own pace and takes in weights as they come.
//! Whole programs are in `clients/worker/examples`.
//!
//! **Layers.** The core is a pure state machine: datagrams and times in, datagrams and events out; no socket,
//! no clock, no thread. The driver in [`udp`] runs it over a kernel UDP socket. A simulator, or a driver that
//! bypasses the kernel, runs the same core. [`pipeline`] has threads, [`narrow`] and [`masked`] look at the
//! clock, and [`masked`] also reads keys and draws random numbers.
//!
//! | module | idea |
//! |---|---|
//! | [`membership`], [`identity`] | joining a job |
//! | [`session`], [`allreduce`] | a member's life, and one operation of it |
//! | [`collective`] | reduce, broadcast, barrier, reduce_scatter, allgather |
//! | [`deal`] | an operation over several trees |
//! | [`window`] | which packets are in flight |
//! | [`congestion`] | how many may be in flight: four controls |
//! | [`rtt`], [`recovery`] | the timeout, and which packets are lost |
//! | [`cache`], [`partials`], [`answers`] | what other ranks may ask for |
//! | [`element`], [`narrow`], [`priority`] | types of elements; smaller ones on the wire; urgency |
//! | [`asynchronous`], [`pipeline`] | training without waiting |
//! | [`masked`] | sums that the appliance cannot read |
//! | [`pieces`] | what travels is made while it is sent |
//! | [`places`] | backup appliances: which one to turn to |
//! | [`inquiry`], [`probe`], [`path`] | asking who is missing, and which packets get through |
//! | [`counters`], [`rejection`] | what happened, and why the appliance said no |
//! | [`switchml`] | a client of SwitchML's UDP protocol |
//! | [`way`] | why packets do not get to the appliance |
//!
//! **Panics.** Nothing that is received makes any function here panic: a datagram either has its effect or is
//! counted by reason in [`counters`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

#[cfg(target_endian = "big")]
compile_error!("payloads are little endian, and tensors are sent as they lie in memory");

pub mod allreduce;
pub mod answers;
pub mod asynchronous;
pub mod cache;
pub mod collective;
pub mod congestion;
pub mod counters;
pub mod deal;
pub mod element;
pub mod identity;
pub mod inquiry;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod masked;
pub mod mean;
pub mod membership;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod narrow;
pub mod partials;
pub mod path;
pub mod pieces;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod pipeline;
pub mod places;
pub mod priority;
pub mod probe;
pub mod recovery;
pub mod rejection;
pub mod rtt;
pub mod session;
pub mod switchml;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod udp;
pub mod way;
pub mod window;

pub use allreduce::{Failure, Partial, Progress, Report, Request};
pub use asynchronous::{AsyncCounters, AsyncSession, Initial, Push, PushError, Settings, Slope};
pub use collective::{Collective, Parts};
pub use counters::{Counters, Ignored};
pub use element::{Element, MxFp8, MxInt8};
pub use half::{bf16, f16};
pub use identity::{Identity, Membership};
pub use inquiry::Missing;
pub use membership::{Join, JoinFailure, Left};
pub use narrow::{Feedback, Narrow, Narrowing};
pub use pascaline_seal::{Holder, KeyError, Protection, Secret};
pub use pascaline_wire::{CongestionControl, Op, RankSet};
pub use places::Places;
pub use priority::Hints;
pub use rejection::{Reason, Rejection};
pub use session::{Command, CommandFailure, Event, Session, StartError, Transmit};
pub use udp::{
    Addresses, AllreduceError, Appliances, AsyncConfig, AsyncJoinError, AsyncWorker, Background,
    CommandError, Config, ConfigError, Departure, Finished, Handle, Interrupt, JoinError, MAX_STREAMS,
    Notice, Sealed, Sealing, Seals, Streams, Submitted, TreeReport, Worker, session_number,
};
pub use way::{Obstacle, Unreachable};
