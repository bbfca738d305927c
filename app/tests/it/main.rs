//! The command as its users run it: as processes, on real DPDK ports where traffic matters.
//!
//! - [`admin`]: the admin API of a running appliance
//! - [`appliance`]: an appliance and workers, each in a network namespace
//! - [`check`]: `pascaline check`: what a configuration amounts to
//! - [`cli`]: mistakes on the command line: clear messages and exit codes
//! - [`doctor`]: `pascaline doctor` finds each defect of a machine, with a remedy
//! - [`init`]: `pascaline init` writes an accepted configuration and overwrites nothing
//! - [`inline`]: an appliance in the path between two hosts, and one with two lcores
//! - [`manual`]: completions and manual pages of every command
//! - [`olaf`]: asynchronous updates between workers and a server on kernel sockets
//! - [`own_address`]: the appliance's own address in a VLAN
//! - [`pipeline`]: asynchronous training without a server (iSwitch)
//! - [`ps`]: `pascaline ps` as a process, with a double of the appliance
//! - [`rooms`]: the modules of this crate form no circle
//! - [`server_life`]: a parameter server that never starts, dies, or starts again
//! - [`wire_abuse`]: bad frames on a real port are dropped, counted, and disturb nothing
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod appliance;
mod check;
mod cli;
mod common;
mod doctor;
mod init;
mod inline;
mod manual;
mod olaf;
mod own_address;
mod pipeline;
mod ps;
mod rooms;
mod server_life;
mod wire_abuse;
