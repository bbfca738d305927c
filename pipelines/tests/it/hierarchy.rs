//! Appliances below appliances, over ports in memory: what goes up, what comes down, and what is lost on the
//! way.

mod backups;
mod commands;
mod formation;
mod hops;
mod next_hop;
mod sealed;
mod sums;
mod tree;
