//! The packet path and the control plane, without I/O of their own.
//!
//! An [`Lcore`] takes bursts of packets from ports, brings each packet to its end and gives bursts back, all
//! on one thread. It never waits: no lock, no allocation, no system call, no log line. It is generic over
//! packet I/O ([`Io`]): DPDK ports in the appliance, queues in memory in tests, benches and the fault
//! harness.
//!
//! # A packet's way
//!
//! ```text
//! 1 receive  a burst from each port
//! 2 sort     ┬─ gradient on the fast path: one masked compare ──────────────────────────┐
//!            └─ any other frame: parse, classify ─┬─ gradient, reminder, cached result ──┤
//!                                                 ├─ control → queue to the control plane│
//!                                                 ├─ ARP, neighbour discovery, echo → answered in place
//!                                                 ├─ update → OlafQueue of the server's port
//!                                                 ├─ answer of the server → stamped, to the members
//!                                                 └─ anything else → the peer port, or dropped by reason
//! 3 add      the pool takes the burst ←──────────────────────────────────────────────────┘
//!            ├─ absorbed
//!            ├─ completed: a result, new or cached
//!            └─ no slot: dropped, or spilled to the parameter server
//! 4 emit     a frame for each member, in the stage of its port
//! 5 flush    stages → ports
//! ```
//!
//! # The control plane's turn
//!
//! ```text
//! lcores ─ requests ─→ membership decides ─→ new job table ─→ lcores, between two turns
//!                          └→ answers wait until every lcore has the table ─→ lcores ─→ workers
//! ```
//!
//! [`ControlPlane::turn`] takes requests and the time, and gives a [`Turn`]: what it decided and what
//! happened. A caller drives it: the appliance's main core, the fault harness, tests.
//!
//! # Modules in reading order
//!
//! 1. [`io`] and [`setup`]: what an lcore gets packets from, and what never changes.
//! 2. [`lcore`]: the turn, step by step; [`idle`]: what it does when nothing comes.
//! 3. [`classify`]: what a frame is, and what has to be done with it.
//! 4. [`emit`]: stages, header buffers and the frames of a result.
//! 5. [`updates`] and [`server`]: the ways to the parameter servers.
//! 6. [`jobs`]: what lcores know of jobs.
//! 7. [`membership`] and [`control_plane`]: who belongs to a job, and how lcores learn it; [`own_time`]: a
//!    process that was stopped takes nobody for silent.
//! 8. [`switchml`]: jobs of SwitchML's own clients.
//! 9. [`bridge`]: transit traffic between more than two ports; `announcements`: own addresses, told unasked.
//! 10. [`capture`]: the next packets of a job, for an operator.
#![forbid(unsafe_code)]

mod announcements;
pub mod bridge;
pub mod capture;
pub mod classify;
pub mod control_plane;
pub mod emit;
pub mod idle;
pub mod io;
pub mod jobs;
pub mod lcore;
pub mod membership;
mod meter;
mod overload;
pub mod own_time;
mod per_job;
mod seals;
pub mod server;
pub mod setup;
mod shared;
pub mod switchml;
pub mod updates;

pub use bridge::{Bridge, Ports};
pub use control_plane::{ControlPlane, Decided, Turn};
pub use emit::Marks;
pub use idle::{Idle, IdlePolicy};
pub use io::{BURST, Io, STAGE};
pub use jobs::{Job, JobTable, Member, Mode};
pub use lcore::{AHEAD, Lcore, LcoreParts};
pub use membership::{ControlRequest, Membership, Reply};
pub use own_time::OwnTime;
pub use server::ServerEnd;
pub use setup::{Passing, PortSetup, Setup};
pub use shared::LcoreEnd;
pub use updates::{PortQueue, QueueCounts, UpdateEnd};
