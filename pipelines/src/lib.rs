//! The run-to-completion packet path.
//!
//! Contract of this crate: an [`Lcore`] takes bursts of packets from ports, brings each packet to its end and gives
//! bursts back, all in one thread and without ever waiting: no lock, no allocation, no system call, no log line. It
//! is generic over where packets come from ([`Io`]): DPDK ports in the appliance, queues in memory in tests, benches
//! and simulations.
//!
//! ```text
//! receive → dissect → classify ─┬─ gradient, kept result, reminder → aggregator pool ─┬ absorbed
//!                               │                                                     └ result → fan-out to the members
//!                               ├─ update → the queue of the port towards the server ([`updates`]), with the lcore that owns it
//!                               ├─ Ack of the server → queue state stamped on it, fan-out to the members
//!                               ├─ control → queue to the control plane ([`membership`]); answers come back by queue
//!                               ├─ ARP, neighbour discovery, echo for an own address → answered in place
//!                               └─ anything else → the port's peer, or dropped by reason
//!                    every branch ends in a stage per port → transmit
//! ```
//!
//! What the control plane decides reaches lcores as an immutable [`JobTable`], picked up between bursts.
#![forbid(unsafe_code)]

pub mod capture;
pub mod classify;
pub mod control_plane;
pub mod emit;
pub mod idle;
pub mod io;
pub mod jobs;
pub mod lcore;
mod limits;
pub mod membership;
mod per_job;
pub mod server;
pub mod setup;
mod shared;
pub mod updates;

pub use control_plane::{ControlPlane, Decided, Turn};
pub use idle::{Idle, IdlePolicy};
pub use io::{BURST, Io, STAGE};
pub use jobs::{Job, JobTable, Member, Mode};
pub use lcore::{Lcore, LcoreParts};
pub use membership::{ControlRequest, Membership, Reply};
pub use server::ServerEnd;
pub use setup::{PortSetup, Setup};
pub use shared::LcoreEnd;
pub use updates::{PortQueue, QueueCounts, UpdateEnd};
