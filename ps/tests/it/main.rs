//! The parameter server against DSA's cases, an oracle, and hostile input.
//!
//! - [`asynchronous`]: the asynchronous server's rules, replies and bad input
//! - [`elements`]: every element type and operation, in both orders
//! - [`interleavings`]: random packets against an oracle of sets, and against "no panic"
//! - [`limits`]: memory is bounded, and no job takes another's
//! - [`losses`], [`storms`]: each way to lose a packet, by name and at random
//! - [`rejections`]: each rejection has its reason and answer, and changes nothing
//! - [`requests`]: when, which ranks and how often the server asks
//! - [`task_types`]: DSA's task types I to III without loss
//! - [`units`]: the parts by themselves
//! - [`votes`]: a sum that may not be the only one is voted on before it is sent
//!
//! The rest is shared: a model [`appliance`], [`packets`], and a [`world`] under a virtual clock.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

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
