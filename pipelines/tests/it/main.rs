//! Lcores and the control plane around them, as an appliance puts them together, over ports in memory.
//!
//! - [`accounting`]: every packet is accounted for, whatever arrives and whatever runs out
//! - [`aggregation`]: sums, from the ranks' contributions to each member's result
//! - [`allocation`]: the packet path neither allocates nor frees, and copies no payload
//! - [`bad_input`]: the smallest change to a good frame for each drop reason
//! - [`bridge`]: a bridge between three ports beside the appliance's own work
//! - [`former`]: workers of the version before this one hear what to do
//! - [`hierarchy`]: appliances below appliances
//! - [`in_line`]: two ports in line: transit traffic does not wait for the appliance's own work
//! - [`job_counts`]: what lcores count for a job, and how busy they are
//! - [`lcores`]: two lcores on two threads share one pool
//! - [`marks`]: congestion marks, and the room that is left
//! - [`membership`]: members of jobs: the control plane's decisions, and how they reach the lcores
//! - [`multicast`]: results to a job's multicast group
//! - [`operating`]: why a job is aggregated or not, copies of its packets, other terms while it works
//! - [`own_address`]: answers for the appliance's own address
//! - [`policies`]: each policy of a job, through real frames
//! - [`recognition`]: which packets belong to the appliance: by UDP port and by DSCP
//! - [`server`]: between the packet path and a job's parameter server
//! - [`shares`]: what a job gets does not depend on other jobs
//! - [`switchml`]: exact sums for SwitchML's clients under loss, repetition and reordering
//! - [`updates`]: asynchronous updates to a cluster's server, and its answers
//! - [`windows`]: packets from a member's address that are outside its window
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounting;
mod aggregation;
mod allocation;
mod bad_input;
mod bridge;
mod common;
mod former;
mod hierarchy;
mod in_line;
mod job_counts;
mod lcores;
mod marks;
mod membership;
mod multicast;
mod operating;
mod own_address;
mod policies;
mod recognition;
mod refused_port;
mod sealed;
mod server;
mod shares;
mod switchml;
mod updates;
mod windows;
