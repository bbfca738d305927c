//! The fault harness: real workers and appliances, a seeded adversary, virtual time.
//!
//! - [`apart`]: schedules of a job over several trees
//! - [`backup`]: schedules of a job whose appliance has a backup
//! - [`bottleneck`]: congestion control over links with queues
//! - [`known`]: faults that the harness has found, each as small as possible
//! - [`runs`]: a thousand runs in a row, with ranks that start late, give up, die and return
//! - [`sabotage`]: the oracle finds every deliberate defect
//! - [`schedules`]: schedules from fixed seeds keep every promise and are reproducible
//! - [`trees`]: schedules below several levels of appliances
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod apart;
mod backup;
mod bottleneck;
mod known;
mod runs;
mod sabotage;
mod schedules;
mod sealed;
mod trees;
