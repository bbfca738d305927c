//! The worker against an adversary under a virtual clock, and over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "that is how tests fail")]

mod adversary;
mod aggregator;
mod asking;
mod asynchronous;
mod background;
mod backup;
mod collectives;
mod commanding;
mod datagrams;
mod driver;
mod gather;
mod generation;
mod inherited;
mod inquiry;
mod job;
mod leaving;
mod membership;
mod multicast;
mod narrow;
mod notices;
mod payloads;
mod pipeline;
mod priority;
mod rank;
mod refused;
mod requests;
mod resume;
mod simulation;
mod streams;
mod texts;
mod trees;
mod units;
mod values;
mod world;
