//! The fault harness: real workers and the real appliance against a seeded adversary, under a virtual clock.
//!
//! A *schedule* is one run of one to three jobs, or of one at several appliances; every fifth has an
//! asynchronous job, too, and some have one of SwitchML's clients. Its seed decides everything:
//! - the jobs: listed or formed by Joins, their policies, quotas and thresholds, and whether they survive a
//!   death;
//! - the pool: tiny, so that conflicts and evictions are frequent;
//! - the lcores, the parameter servers, the network and the members' commands (SetH, FBcast, Halt, Reset);
//! - the faults.
//!
//! The workers are the cores of `pascaline-worker`. The appliance is the lcores and the control plane of
//! `pascaline-pipelines`, over the pool of `pascaline-aggregator` and the queues of `pascaline-queue`. The
//! parameter servers are those of `pascaline-ps`. Only the wire, the sockets and the clock are simulated;
//! frames pass as bytes.
//!
//! **What must hold** ([`Violation`]):
//! - a finished allreduce has the sum of exactly one contribution of each rank of its generation;
//! - every operation with a deadline ends by it, with a result or a typed error;
//! - a job that suffers only bounded losses, duplicates, delays, corruption and starvation finishes
//!   everything;
//! - so does one whose appliance or parameter server restarts, if all its ranks have the same generation;
//! - a rank learns that it cannot resume a generation only if some rank has started anew or did not have that
//!   generation;
//! - received = forwarded + absorbed + answered + dropped, at each end of the appliance's life;
//! - slots hold all live packet buffers; none is left once the appliance is gone;
//! - a sum of SwitchML's clients is that of one contribution of each in its present life, and comes in time;
//! - a worker says that its job's multicast group reaches it only if that is so;
//! - an asynchronous worker's model is made of its own cluster's updates, and its updates are acknowledged;
//! - nothing panics; every schedule ends.
//!
//! **Not covered.** Lcores take turns on one thread, so hand-offs never race: the aggregator's loom models
//! and thread tests cover that.
//!
//! **Modules.** `plan` draws a schedule and `world` runs it. `link` and `corruption` are the adversary on the
//! wire; `clock` has the clocks. `io`, `appliance`, `host`, `worker`, `server`, `outside`, `cluster` and
//! `clients` surround the real code. `oracle` finds violations, and [`Sabotage`] shows that it does. `wheel`
//! is the calendar of events in virtual time. `campaign` runs many schedules. Without an adversary run
//! [`bottleneck`], links with rates and queues that jobs share, and [`hierarchy`], tens of thousands of
//! workers below levels of appliances, with `centre` and `rank`.
//!
//! ```
//! use pascaline_sim::{Campaign, Sabotage, Shape};
//!
//! let shape = Shape::Levels(1);
//! let campaign = Campaign { shape, seed: 1, runs: 20, threads: 1, sabotage: Sabotage::None };
//! let report = campaign.run(&|_, _| {});
//! assert_eq!((report.schedules, report.violations), (20, 0));
//! ```
#![forbid(unsafe_code)]

mod appliance;
mod attacker;
pub mod bottleneck;
mod campaign;
mod centre;
mod clients;
mod clock;
mod cluster;
mod corruption;
pub mod fabric;
mod faults;
pub mod hierarchy;
mod host;
mod io;
mod link;
mod oracle;
mod outside;
mod plan;
pub mod random;
mod rank;
mod sabotage;
mod server;
mod trace;
mod violation;
pub mod wheel;
mod worker;
mod world;

pub use campaign::{Campaign, Finding, Report, Shape, schedule, shaped_schedule};
pub use faults::{Fault, Faults, Reach, Reached};
pub use plan::Cell;
pub use sabotage::Sabotage;
pub use violation::Violation;
pub use world::runs::{Runs, runs};
pub use world::script::scripted;
