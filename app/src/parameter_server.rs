//! The parameter server at work: drivers of the state machine in `pascaline-ps`.
//!
//! [`ServerLoop`] is what all drivers share: jobs, datagrams and the time go in, datagrams come out.
//! [`embedded`] is a thread of the appliance, between two queues of packets; [`process`] is `pascaline ps`, a
//! process of its own over kernel UDP, which finds out from the appliance, through [`registrar`], what there
//! is to serve. Neither waits for an lcore, nor does an lcore for it.
//!
//! The server talks to appliances only, and tells nobody why it has refused a packet: the sender is an
//! appliance that has passed it on, and the rank that made it would take the answer for its appliance's.
//! Refusals are counted.

use std::time::Duration;

mod asynchronous;
mod checkpoints;
pub(crate) mod embedded;
mod process;
mod registrar;
mod seals;
mod serving;
mod snapshot;
mod socket;

pub(crate) use process::{PsArgs, run};
pub(crate) use serving::ServerLoop;
pub(crate) use snapshot::Snapshot;

/// The earlier of two times, either of which may be never.
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
