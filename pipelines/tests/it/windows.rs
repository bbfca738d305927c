//! What a member's address can send that is not under way, and what becomes of it.

use pascaline_aggregator::{Order, PoolConfig, Region};
use pascaline_pipelines::membership::{JobKind, JobSpec};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, OWN_V4, Worker};
use pascaline_wire::control::Action;
use pascaline_wire::header::Kind;

use crate::common::appliance::{Bench, Plan, assert_results, four, job};

const WINDOW: u16 = 16;

/// A job of four ranks with a region of twice its window.
fn region() -> Plan {
    let slots = 2 * usize::from(WINDOW);
    let kind = JobKind::Region { place: Region { first: 0, sets: 8 }, order: Order::Arrival };
    let pool = PoolConfig { slots, reserved: slots, ways: 4, ..PoolConfig::default() };
    Plan { jobs: vec![JobSpec { window: WINDOW, kind, ..job(JOB, 4) }], pool, ..Plan::one_armed() }
}

fn complete(bench: &mut Bench, workers: &[Worker], psn: u32) {
    workers.iter().for_each(|worker| bench.feed(0, [&worker.gradient(psn, &[1])]));
    assert_results(bench, workers, psn, &[4]);
}

#[test]
fn forged_psns_ahead_do_not_stop_a_job_in_its_region() {
    let (mut bench, workers) = four(&region());
    for psn in 0..200 {
        // In the set of the next PSN, which they would fill.
        let apart = (3..40).map(|turn| psn + 8 * turn);
        let forged: Vec<Vec<u8>> = apart.map(|psn| workers[1].gradient(psn, &[666])).collect();
        bench.feed(0, &forged);
        complete(&mut bench, &workers, psn);
    }
    assert!(bench.appliance.dropped(DropReason::OutsideWindow) > 200 * 30);
    assert_eq!(bench.appliance.dropped(DropReason::Stale), 0);
    bench.end();
}

/// Holds R10.3 of protocol.md.
#[test]
fn what_is_not_under_way_opens_no_slot_under_any_policy() {
    for plan in [Plan::one_armed(), region()] {
        let (mut bench, workers) = four(&plan);
        let window = u32::from(plan.jobs[0].window);
        complete(&mut bench, &workers, 0);
        let opened = bench.appliance.get(Counter::Opened);
        for psn in [window + 1, 100_000, 1 << 31, u32::MAX] {
            let worker = &workers[1];
            bench.feed(0, [&worker.gradient(psn, &[666]), &worker.reminder(psn)]);
            bench.feed(0, [&worker.cached_result(psn, &[666]), &worker.about(Action::Help, psn)]);
        }
        assert_eq!(bench.appliance.dropped(DropReason::OutsideWindow), 16);
        assert_eq!(bench.appliance.get(Counter::Opened), opened);
        assert!(bench.heard(0).is_empty(), "nobody is asked, told or sent anything");
        bench.feed(0, [&workers[1].gradient(window, &[1])]);
        assert_eq!(bench.appliance.get(Counter::Opened), opened + 1, "the last one that may be under way");
        bench.end();
    }
}

#[test]
fn a_partial_in_a_region_that_nobody_waits_for_goes_and_one_that_is_waited_for_stays() {
    let (mut bench, workers) = four(&region());
    bench.feed(0, [&workers[1].gradient(3, &[1]), &workers[2].gradient(4, &[1])]);
    for _ in 0..8 {
        bench.clock.advance(400_000_000);
        // Rank 2 waits; nothing comes of rank 1.
        bench.feed(0, [&workers[2].gradient(0, &[1])]);
        (0..200).for_each(|_| bench.settle());
    }
    let open = |bench: &Bench| bench.appliance.reading().open_slots();
    assert_eq!(open(&bench), 2, "those of rank 2");
    bench.clock.advance(2_000_000_000);
    (0..200).for_each(|_| bench.settle());
    assert_eq!(open(&bench), 0);
    bench.end();
}

#[test]
fn a_member_gets_back_and_causes_no_more_than_its_limit_lets_it() {
    let (mut bench, workers) = four(&region());
    for psn in 0..4 {
        complete(&mut bench, &workers, psn);
    }
    let reminders = |bench: &mut Bench, count: usize| {
        bench.feed(0, vec![&workers[1].reminder(3); count]);
        bench.heard(0).len()
    };
    let burst = 2 * usize::from(WINDOW);
    assert_eq!(reminders(&mut bench, 200), burst, "of one result");
    assert_eq!(bench.appliance.dropped(DropReason::TooOften), 200 - burst as u64);
    bench.clock.advance(2_000_000);
    assert_eq!(reminders(&mut bench, 200), 4, "one in 500 µs");
    // Kept results, each of which goes to all, count likewise; what others ask for does not.
    bench.clock.advance(1_000_000);
    let kept: Vec<Vec<u8>> = (4..12).map(|psn| workers[1].cached_result(psn, &[7])).collect();
    bench.feed(0, &kept);
    assert_eq!(bench.heard(0).len(), 2 * 4);
    bench.feed(0, [&workers[2].reminder(3)]);
    assert_eq!(bench.heard(0).len(), 1);
    // Contributions are not counted against it.
    complete(&mut bench, &workers, 12);
    bench.end();
}

/// Holds R14.1 of protocol.md.
#[test]
fn a_stranger_gets_back_no_more_than_it_has_sent_and_learns_nothing() {
    let (mut bench, workers) = four(&Plan::one_armed());
    for (values, told) in [(1, 0), (17, 0), (18, 1), (250, 1)] {
        for job in [JOB, JOB + 7] {
            bench.clock.advance(2_000_000);
            let stranger = Worker { job, epoch: workers[0].epoch.wrapping_add(9), ..Worker::new(3, 4) };
            let stranger = Worker { udp_port: stranger.udp_port ^ 1, ..stranger };
            let sent = stranger.gradient(0, &vec![1; values]);
            bench.feed(0, [&sent]);
            let frames = bench.io().sent(0);
            // Whoever names a member's rank hears nothing at all.
            assert_eq!(frames.len(), if job == JOB { 0 } else { told }, "{values} values");
            for frame in frames {
                assert!(frame.len() <= sent.len());
                let heard = pascaline_testkit::Heard::parse(&frame);
                assert_eq!((heard.header.epoch, heard.control().expected), (stranger.epoch, 0));
            }
        }
    }
    bench.end();
}

/// Holds R14.3 of protocol.md.
#[test]
fn a_stranger_gets_no_result_and_has_no_rank_reminded() {
    let (mut bench, workers) = four(&Plan::one_armed());
    complete(&mut bench, &workers, 0);
    bench.feed(0, [&workers[0].gradient(1, &[1])]);
    assert!(bench.heard(0).is_empty());
    for rank in [1, 3, 4] {
        for stranger in [Worker { udp_port: 9, ..workers[1] }, Worker { address: OWN_V4, ..workers[1] }] {
            let stranger = Worker { rank, ..stranger };
            for psn in [0, 1, 2] {
                bench.clock.advance(2_000_000);
                bench.feed(0, [&stranger.reminder(psn), &stranger.about(Action::Help, psn)]);
                bench.feed(0, [&stranger.gradient(psn, &[1])]);
                assert!(bench.heard(0).iter().all(|heard| heard.header.kind == Kind::Control));
            }
        }
    }
    bench.feed(0, [&workers[1].reminder(0)]);
    assert_eq!(bench.heard(0).len(), 1, "a member gets it");
    bench.end();
}
