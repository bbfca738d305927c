//! The pool from outside. Models for loom and shuttle are programs apart: `tests/loom.rs`, `tests/shuttle`.
//!
//! - [`burst`]: a burst on the fast path gives the same result as whole requests, one by one
//! - [`combined`]: contributions combined on the way to the lcore that owns their set
//! - [`handoff`]: packets of another lcore's sets, step by step on one thread
//! - [`invariants`]: the design's invariants, without policies; each sabotage of the pool breaks one
//! - [`memory`]: a pool takes as much memory as it says
//! - [`model`]: random traces against a slow, obvious model
//! - [`policies`]: each policy of a job by itself
//! - [`policy_model`]: the design's invariants under every mixture of policies
//! - [`pool`]: which slot a PSN gets, and which PSN has to leave
//! - [`recovery`]: reminders, and results that a rank gives back
//! - [`refusals`]: the smallest change to a good packet for each refusal
//! - [`slot`]: the life of a slot: accumulator, result, replay
//! - [`threads`]: one pool under real threads
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod burst;
mod combined;
mod common;
mod handoff;
mod invariants;
mod memory;
mod model;
mod policies;
mod policy_model;
mod pool;
mod recovery;
mod refusals;
mod slot;
mod threads;
