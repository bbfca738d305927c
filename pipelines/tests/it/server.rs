//! Between the packet path and a job's parameter server.

mod embedded;
mod external;
mod from_server;

use pascaline_aggregator::{ConflictPolicy, Policy};
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::header::{Flags, Header, Kind, Own};

use crate::common::appliance::{Bench, Plan, ToServer, four, job, kind, single_slot};

/// One job of four ranks with a server, and one slot.
fn plan(policy: Policy, server: ServerMode) -> Plan {
    let jobs = vec![JobSpec { kind: kind(policy, server), ..job(JOB, 4) }];
    Plan { jobs, pool: single_slot(), ..Plan::one_armed() }
}

/// Four ranks of a job with a server in the appliance.
fn embedded(policy: Policy) -> (Bench, Vec<Worker>) {
    four(&plan(policy, ServerMode::Embedded))
}

fn first_come() -> Policy {
    Policy { conflict: ConflictPolicy::FirstCome, ..Policy::default() }
}

/// What a rank contributes.
fn part(rank: u16) -> [i32; 2] {
    [10i32.pow(rank.into()), -1]
}

/// A gradient of this priority.
fn gradient(worker: &Worker, psn: u32, priority: u16) -> Vec<u8> {
    let header = Header { own: Own::sum(priority, 0), ..worker.header(Kind::Gradient, psn, 1) };
    worker.frame(&header, &pascaline_testkit::bytes(&part(worker.rank)))
}

/// Asserts what the server has got, apart from the values.
#[track_caller]
fn assert_header(got: &ToServer, worker: &Worker, kind: Kind, flags: Flags, psn: u32, count: u16) {
    let expected = Header {
        kind,
        flags,
        count,
        psn,
        rank: got.header.rank,
        own: got.header.own,
        ..worker.header(kind, psn, count)
    };
    assert_eq!(got.header, expected);
}
