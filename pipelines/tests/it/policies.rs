//! What a job's policy makes of its packets, through real frames. Jobs with a parameter server are in
//! `server`.

mod arithmetic;
mod threshold;

use core::time::Duration;
use pascaline_aggregator::{Policy, PoolConfig, Region};
use pascaline_pipelines::classify::Objection;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Heard, JOB, Worker, bytes, trailer, values};
use pascaline_wire::control::{Action, Status};
use pascaline_wire::header::{Flags, Header, Kind};

use crate::common::appliance::{Bench, Plan, assert_results, four, job, kind};

const MS: u64 = 1_000_000;

fn plan(policy: Policy) -> Plan {
    Plan { jobs: vec![JobSpec { kind: kind(policy, ServerMode::None), ..job(JOB, 4) }], ..Plan::one_armed() }
}

const PLACE: Region = Region { first: 60, sets: 4 };

/// A job with four sets of one way of its own.
fn region() -> Plan {
    let region = Some(PLACE);
    let pool = PoolConfig { slots: 64, reserved: 4, ways: 1, ..PoolConfig::default() };
    Plan { pool, ..plan(Policy { region, ..Policy::default() }) }
}

/// The same where so many contributions complete a PSN.
fn threshold(needed: u16, partial_after: u64) -> Plan {
    let mut plan = region();
    let partial_after = (partial_after > 0).then(|| Duration::from_nanos(partial_after));
    plan.jobs[0].kind = JobKind::Early { place: PLACE, needed, partial_after };
    plan
}

/// Lets these ranks contribute a power of ten each.
fn contribute(bench: &mut Bench, workers: &[Worker], ranks: &[u16], psn: u32) {
    for &rank in ranks {
        let worker = &workers[usize::from(rank)];
        bench.feed(worker.port, [&worker.gradient(psn, &[10i32.pow(rank.into()), -1])]);
    }
}

/// Nothing arrives for so long that every slot is looked at, and the counters are published.
fn idle(bench: &mut Bench) {
    (0..100).for_each(|_| bench.settle());
}

/// Asserts that these have heard one partial result each, of the ranks `inside`, and that nobody has heard
/// anything else.
#[track_caller]
fn assert_partials(bench: &mut Bench, to: &[Worker], psn: u32, inside: &[u16]) {
    let ports = bench.io().ports.len();
    let heard: Vec<Heard> = (0..ports).flat_map(|port| bench.heard(port)).collect();
    assert_eq!(heard.len(), to.len(), "{heard:?}");
    let sum = inside.iter().map(|&rank| 10i32.pow(rank.into())).sum();
    let count = u16::try_from(inside.len()).unwrap();
    for worker in to {
        let result = heard.iter().find(|heard| heard.to == (worker.address, worker.udp_port)).unwrap();
        result.assert_addressed_to(worker);
        let Header { kind, flags, psn: of, fan_in, count: said, epoch, .. } = result.header;
        assert_eq!((kind, flags, of, epoch), (Kind::Result, Flags::TRAILER, psn, worker.epoch));
        assert_eq!((fan_in, said), (4, count));
        assert_eq!(result.contents(), (vec![sum, -i32::from(count)], Some(inside.to_vec())));
    }
}

/// Asserts that this worker, and nobody else, is told what was wrong with the packet about this PSN.
#[track_caller]
fn assert_told(bench: &mut Bench, worker: &Worker, psn: u32, status: Status, expected: u32, got: u32) {
    let heard = bench.heard(0);
    let [told] = &heard[..] else { panic!("{heard:?}") };
    told.assert_addressed_to(worker);
    assert_eq!(told.header.psn, psn);
    assert_eq!(told.objection(), Objection { status, expected, got });
    bench.clock.advance(2 * MS);
}

#[test]
fn beyond_its_quota_a_job_is_refused_and_sends_again() {
    let (mut bench, workers) = four(&plan(Policy { quota: 1, ..Policy::default() }));
    contribute(&mut bench, &workers, &[0, 1], 1);
    contribute(&mut bench, &workers, &[0, 1, 2, 3], 2);
    assert_eq!(bench.appliance.dropped(DropReason::Quota), 4);
    assert!(bench.heard(0).is_empty(), "it is nothing to complain of");
    contribute(&mut bench, &workers, &[2, 3], 1);
    assert_results(&mut bench, &workers, 1, &[1111, -4]);
    contribute(&mut bench, &workers, &[0, 1, 2, 3], 2);
    assert_results(&mut bench, &workers, 2, &[1111, -4]);
    bench.end();
}

/// A late duplicate can open a slot that nobody will ever complete. It must not use up the quota for ever.
#[test]
fn what_nobody_waits_for_leaves_the_quota() {
    let (mut bench, workers) = four(&plan(Policy { quota: 1, ..Policy::default() }));
    contribute(&mut bench, &workers, &[0], 1);
    for _ in 0..10 {
        // As long as its rank sends again, it is waited for.
        bench.clock.advance(400 * MS);
        contribute(&mut bench, &workers, &[0], 1);
        contribute(&mut bench, &workers, &[1], 2);
    }
    assert_eq!(bench.appliance.dropped(DropReason::Quota), 10);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 0);
    // With losses its rank may be silent for longer than the age limit.
    bench.clock.advance(799 * MS);
    idle(&mut bench);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 0);
    bench.clock.advance(2 * MS);
    idle(&mut bench);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 1);
    contribute(&mut bench, &workers, &[0, 1, 2, 3], 2);
    assert_results(&mut bench, &workers, 2, &[1111, -4]);
    bench.end();
}

/// It keeps older PSNs out, which must not be completed a second time by others than before.
#[test]
fn where_fewer_ranks_complete_a_psn_what_is_in_a_region_stays() {
    let (mut bench, workers) = four(&threshold(3, 0));
    contribute(&mut bench, &workers, &[0], 5);
    bench.clock.advance(5001 * MS);
    idle(&mut bench);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 0);
    contribute(&mut bench, &workers, &[1, 2], 5);
    assert_partials(&mut bench, &workers, 5, &[0, 1, 2]);
    bench.end();
}

#[test]
fn in_a_region_an_older_psn_is_stale_and_a_younger_one_a_conflict() {
    let (mut bench, workers) = four(&region());
    for psn in [0, 4] {
        contribute(&mut bench, &workers, &[0, 1, 2, 3], psn);
        assert_results(&mut bench, &workers, psn, &[1111, -4]);
    }
    contribute(&mut bench, &workers, &[2], 0);
    assert_eq!(bench.appliance.dropped(DropReason::Stale), 1);
    contribute(&mut bench, &workers, &[2], 8);
    contribute(&mut bench, &workers, &[2], 12);
    assert_eq!(bench.appliance.dropped(DropReason::Conflict), 1);
    assert!(bench.heard(0).is_empty());
    // Whoever lacks the result of a stale PSN gets it from the others.
    bench.feed(0, [&workers[2].reminder(0)]);
    let reminded: Vec<u16> = bench.heard(0).iter().map(|heard| heard.header.rank).collect();
    assert_eq!(reminded, [0, 1, 3]);
    bench.feed(0, [&workers[1].cached_result(0, &[1111, -4])]);
    assert_results(&mut bench, &workers, 0, &[1111, -4]);
    assert_eq!(bench.appliance.get(Counter::PassedOn), 1);
    // The window goes round.
    contribute(&mut bench, &workers, &[0, 1, 3], 8);
    assert_results(&mut bench, &workers, 8, &[1111, -4]);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    bench.end();
}

#[test]
fn a_halted_job_is_refused_until_it_is_reset() {
    let (mut bench, mut workers) = four(&Plan::one_armed());
    contribute(&mut bench, &workers, &[0], 1);
    bench.feed(0, [&workers[1].control(Action::Halt)]);
    assert_eq!(bench.heard(0)[0].control().status, Status::Ok);
    bench.clock.advance(2 * MS);
    let refused = [
        workers[1].gradient(1, &[10, -1]),
        workers[1].reminder(1),
        workers[1].cached_result(1, &[10, -1]),
        workers[1].about(Action::Help, 1),
    ];
    for (count, frame) in (1..).zip(&refused) {
        bench.feed(0, [frame]);
        assert_eq!(bench.appliance.dropped(DropReason::Halted), count);
        assert_told(&mut bench, &workers[1], 1, Status::Halted, 0, 0);
    }
    bench.feed(0, [&workers[2].control(Action::Reset)]);
    bench.heard(0);
    bench.join(&mut workers);
    contribute(&mut bench, &workers, &[0, 1, 2, 3], 1);
    assert_results(&mut bench, &workers, 1, &[1111, -4]);
    assert_eq!(bench.appliance.dropped(DropReason::Halted), 4);
    bench.end();
}

#[test]
fn fbcast_sends_out_what_there_is() {
    let (mut bench, workers) = four(&threshold(4, 0));
    contribute(&mut bench, &workers, &[0, 2], 1);
    bench.feed(0, [&workers[3].about(Action::FBcast, 1)]);
    assert_partials(&mut bench, &workers, 1, &[0, 2]);
    // Once: asked for again, it is a result like any other.
    bench.feed(0, [&workers[1].about(Action::FBcast, 1)]);
    assert_partials(&mut bench, &workers[1..2], 1, &[0, 2]);
    assert_eq!(bench.appliance.get(Counter::Released), 1);
    assert_eq!(bench.appliance.get(Counter::Absorbed), 2 + 1);
    bench.end();
}

/// Holds R10.3 of protocol.md.
#[test]
fn fbcast_of_an_unknown_psn_is_answered_so() {
    let (mut bench, workers) = four(&threshold(4, 0));
    bench.clock.advance(2 * MS);
    contribute(&mut bench, &workers, &[0, 2], 1);
    bench.feed(0, [&workers[3].about(Action::FBcast, 77)]);
    assert_eq!(bench.appliance.dropped(DropReason::UnknownPsn), 1);
    assert_told(&mut bench, &workers[3], 77, Status::UnknownPsn, 0, 77);
    bench.feed(0, [&workers[3].about(Action::FBcast, 100_000)]);
    assert_eq!(bench.appliance.dropped(DropReason::OutsideWindow), 1);
    assert!(bench.heard(0).is_empty(), "of one that no rank is near");
    assert_eq!(bench.appliance.get(Counter::Released), 0);
    bench.end();
}

/// Holds R9.15 of protocol.md.
#[test]
fn fbcast_is_for_members_of_jobs_that_take_partial_results() {
    for plan in [Plan::one_armed(), region()] {
        let (mut bench, workers) = four(&plan);
        bench.clock.advance(2 * MS);
        contribute(&mut bench, &workers, &[0, 2], 1);
        bench.feed(0, [&workers[3].about(Action::FBcast, 1)]);
        assert_eq!(bench.appliance.dropped(DropReason::Control), 1);
        assert_told(&mut bench, &workers[3], 1, Status::Unsupported, 0, Action::FBcast as u32);
        contribute(&mut bench, &workers, &[1, 3], 1);
        assert_results(&mut bench, &workers, 1, &[1111, -4]);
        bench.end();
    }
    let (mut bench, workers) = four(&threshold(4, 0));
    bench.clock.advance(2 * MS);
    contribute(&mut bench, &workers, &[0, 2], 1);
    bench.feed(0, [&Worker { udp_port: 1, ..workers[3] }.about(Action::FBcast, 1)]);
    assert_eq!(bench.appliance.dropped(DropReason::RankSpoofed), 1);
    assert!(bench.heard(0).is_empty());
    let old = Worker { epoch: workers[3].epoch - 1, ..workers[3] };
    bench.feed(0, [&old.about(Action::FBcast, 1)]);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 1);
    assert_told(&mut bench, &workers[3], 1, Status::WrongEpoch, workers[3].epoch.into(), old.epoch.into());
    assert_eq!(bench.appliance.get(Counter::Released), 0);
    bench.end();
}

#[test]
fn help_is_another_word_for_reminder() {
    let (mut bench, workers) = four(&Plan::one_armed());
    let reminded = |bench: &mut Bench| -> Vec<u16> {
        let heard = bench.heard(0);
        assert!(heard.iter().all(|heard| (heard.header.kind, heard.header.psn) == (Kind::Reminder, 1)));
        heard.iter().map(|heard| heard.header.rank).collect()
    };
    let help = workers[1].about(Action::Help, 1);
    bench.feed(0, [&help]);
    assert_eq!(reminded(&mut bench), [0, 2, 3]);
    contribute(&mut bench, &workers, &[0, 1], 1);
    bench.feed(0, [&help]);
    assert_eq!(reminded(&mut bench), [2, 3]);
    contribute(&mut bench, &workers, &[2, 3], 1);
    bench.heard(0);
    bench.feed(0, [&help]);
    assert_results(&mut bench, &workers[1..2], 1, &[1111, -4]);
    assert_eq!(bench.appliance.get(Counter::RemindersReceived), 3);
    bench.end();
}

#[test]
fn what_has_waited_too_long_is_sent_out() {
    let (mut bench, workers) = four(&threshold(4, 10 * MS));
    contribute(&mut bench, &workers, &[1], 1);
    bench.clock.advance(6 * MS);
    contribute(&mut bench, &workers, &[2, 3], 2);
    bench.clock.advance(4 * MS);
    idle(&mut bench);
    assert!(bench.heard(0).is_empty(), "not yet");
    bench.clock.advance(1);
    idle(&mut bench);
    assert_partials(&mut bench, &workers, 1, &[1]);
    bench.clock.advance(6 * MS);
    idle(&mut bench);
    assert_partials(&mut bench, &workers, 2, &[2, 3]);
    assert_eq!(bench.appliance.get(Counter::Released), 2);
    bench.clock.advance(100 * MS);
    idle(&mut bench);
    assert!(bench.heard(0).is_empty(), "once each");
    bench.end();
}

#[test]
fn a_partial_result_that_a_rank_has_kept_is_fanned_out_with_its_bitmap() {
    for padding in [0, 1, 6] {
        let (mut bench, workers) = four(&threshold(3, 0));
        let mut kept = workers[2].cached_result_of(&[0, 2, 3], 1, &[1101, -3]);
        // Bytes behind the datagram belong to nobody.
        kept.extend(vec![0xee; padding]);
        contribute(&mut bench, &workers, &[1], 1);
        bench.feed(0, [&kept]);
        assert_partials(&mut bench, &workers, 1, &[0, 2, 3]);
        contribute(&mut bench, &workers, &[1], 1);
        assert_partials(&mut bench, &workers[1..2], 1, &[0, 2, 3]);
        assert_eq!(bench.appliance.get(Counter::Installed), 1);
        bench.end();
    }
}

#[test]
fn a_partial_result_that_contradicts_itself_is_refused() {
    let (mut bench, workers) = four(&threshold(3, 0));
    let header = |count| Header { flags: Flags::TRAILER, ..workers[2].header(Kind::Result, 1, count) };
    let body = |inside: &[u16]| [bytes(&[5, 5]), trailer(inside, 4)].concat();
    let cases = [
        (header(2), body(&[0, 2, 3])),
        (header(4), body(&[0, 1, 2, 3])),
        (header(3), body(&[0, 2, 9])),
        (header(0), body(&[])),
        (Header { flags: Flags::NONE, ..header(3) }, bytes(&[5, 5])),
    ];
    for (count, (header, body)) in (1..).zip(&cases) {
        bench.feed(0, [&workers[2].frame(header, body)]);
        assert_eq!(bench.appliance.dropped(DropReason::BadCount), count);
    }
    assert!(bench.heard(0).is_empty());
    contribute(&mut bench, &workers, &[0, 1, 3], 1);
    assert_partials(&mut bench, &workers, 1, &[0, 1, 3]);
    bench.end();
}

#[test]
fn policies_are_each_jobs_own() {
    let mut plan = threshold(2, 0);
    plan.jobs.push(job(JOB + 1, 4));
    let (mut bench, workers) = four(&plan);
    let mut others: Vec<Worker> = workers.iter().map(|worker| Worker { job: JOB + 1, ..*worker }).collect();
    bench.join(&mut others);
    contribute(&mut bench, &others, &[0, 1], 1);
    contribute(&mut bench, &workers, &[3, 1], 1);
    assert_partials(&mut bench, &workers, 1, &[1, 3]);
    contribute(&mut bench, &others, &[2, 3], 1);
    let heard = bench.heard(0);
    assert!(heard.iter().all(|heard| (heard.header.job, heard.header.flags) == (JOB + 1, Flags::NONE)));
    assert_eq!(values(&heard[0].body), [1111, -4]);
    bench.end();
}

#[test]
fn an_operator_has_a_psn_sent_out_and_asked_for() {
    use pascaline_pipelines::membership::Command;
    let (mut bench, workers) = four(&threshold(4, 0));
    contribute(&mut bench, &workers, &[0, 2], 1);
    let order = |bench: &mut Bench, command| {
        bench.appliance.plane.command(std::time::Duration::ZERO, workers[0].job, command).unwrap();
        bench.settle();
    };
    bench.clock.advance(2 * MS);
    order(&mut bench, Command::Help(1));
    let asked: Vec<u16> = bench.heard(0).iter().map(|heard| heard.header.rank).collect();
    assert_eq!(asked, [1, 3], "those that the PSN lacks");
    order(&mut bench, Command::FBcast(1));
    assert_partials(&mut bench, &workers, 1, &[0, 2]);
    assert_eq!(bench.appliance.get(Counter::Released), 1);
    bench.end();
}
