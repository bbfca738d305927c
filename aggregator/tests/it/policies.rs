//! The policies that a job can choose, one by one.

mod conflict;
mod copies;
mod elements;
mod fetch;
mod install;
mod order;
mod quota;
mod region;
mod release;
mod rounds;
mod share;
mod threshold;

use pascaline_aggregator::{ConflictPolicy, Key, Policy, Region};

use crate::common::{Event, Parcel, Who};

/// A PSN of job 1, generation 1.
const fn psn(psn: u32) -> Key {
    Key::new(1, 1, psn)
}

/// A job whose conflicts are settled like this, and that has a parameter server.
fn served(conflict: ConflictPolicy) -> Policy {
    Policy { conflict, server: true, ..Policy::default() }
}

/// A job with these sets of its own.
fn of_region(region: Region) -> Policy {
    Policy { region: Some(region), ..Policy::default() }
}

fn opened(key: Key, rank: u16) -> Event {
    Event::Opened(Who { key, rank })
}

/// A contribution of one of two ranks, worth 1 or 2.
fn half(key: Key, rank: u16, policy: &Policy) -> Parcel {
    Parcel::add(key, rank, 2, &[1 << rank]).under(policy)
}
