//! Appliances below appliances, over ports in memory: what goes up, what comes down, and what is lost on the
//! way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod backups;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod formation;
mod hops;
mod next_hop;
mod sums;
mod tree;
