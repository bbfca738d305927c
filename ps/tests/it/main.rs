//! The parameter server against DSA's cases, an oracle, and hostile input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "that is how tests fail")]

mod appliance;
mod asynchronous;
mod elements;
mod interleavings;
mod limits;
mod losses;
mod packets;
mod rejections;
mod requests;
mod storms;
mod task_types;
mod units;
mod votes;
mod world;
