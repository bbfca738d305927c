//! What is not of a cluster of this appliance.

use pascaline_aggregator::Policy;
use pascaline_pipelines::membership::JobSpec;
use pascaline_telemetry::{Counter, DropReason};

use super::{RANKS, plan, queue, server, update, worker};
use crate::common::appliance::{Bench, Plan, job, kind};
use pascaline_testkit::{JOB, Worker};

/// An update of no cluster, one of a synchronous job, one of somebody who has not joined, one in a member's
/// name.
fn strangers(bench: &mut Bench) -> Vec<(DropReason, Vec<u8>)> {
    let mut members: Vec<Worker> = (0..RANKS).map(|rank| worker(0, rank)).collect();
    bench.join(&mut members);
    let mut synchronous = [Worker { job: JOB + 50, fan_in: 1, ..worker(5, 0) }];
    bench.join(&mut synchronous);
    bench.clock.advance(2_000_000);
    let now = bench.clock.now();
    let frame = |from: Worker| update(&Worker { epoch: members[0].epoch, ..from }, 9, &[1, 2], 0.0, now);
    vec![
        (DropReason::UnknownJob, frame(Worker { job: 999, ..worker(0, 0) })),
        (DropReason::UnhandledKind, frame(synchronous[0])),
        (DropReason::NotMember, frame(worker(1, 0))),
        (DropReason::RankSpoofed, frame(Worker { udp_port: 7, ..worker(0, 0) })),
        (DropReason::RankOutOfRange, frame(Worker { rank: RANKS, ..worker(0, 0) })),
    ]
}

fn with_synchronous(peers: Vec<Option<usize>>) -> Plan {
    let mut plan = Plan { peers, ..plan(queue(8)) };
    plan.jobs.push(JobSpec { kind: kind(Policy::default(), server()), ..job(JOB + 50, 1) });
    plan
}

#[test]
fn in_line_it_passes_unchanged() {
    let mut bench = Bench::new(&with_synchronous(vec![Some(1), Some(0)]));
    for (reason, frame) in strangers(&mut bench) {
        let before = bench.appliance.get(Counter::Forwarded);
        bench.heard(0);
        bench.feed(0, [&frame]);
        assert_eq!(bench.io().sent(1), [frame], "{}", reason.name());
        assert_eq!(bench.appliance.get(Counter::Forwarded), before + 1);
        assert!(bench.heard(0).is_empty());
    }
    assert_eq!(bench.appliance.reading().dropped_total(), 0);
    bench.end();
}

#[test]
fn one_armed_it_is_dropped_for_what_it_is() {
    let mut bench = Bench::new(&with_synchronous(vec![None, None]));
    for (reason, frame) in strangers(&mut bench) {
        bench.feed(0, [&frame]);
        assert_eq!(bench.appliance.dropped(reason), 1, "{}", reason.name());
    }
    assert_eq!(bench.appliance.reading().dropped_total(), 5);
    bench.end();
}
