//! Marks of congestion, and how much room there is: from contributions into results, and the appliance's own
//! (PANAMA, section 4.2.2).

use pascaline_pipelines::Marks;
use pascaline_testkit::{Heard, JOB, Worker};
use pascaline_wire::header::{Flags, Kind};
use pascaline_wire::{CongestionControl, checksum, ecn};

use crate::common::appliance::{Bench, Plan, four, job};

/// The frame as a congested queue leaves it, untagged or with one tag.
fn marked(worker: &Worker, mut frame: Vec<u8>) -> Vec<u8> {
    let l3 = 14 + worker.vlan.wire_len();
    if worker.address.as_v4().is_none() {
        frame[l3 + 1] |= ecn::MARKED << 4;
        return frame;
    }
    let ip = &mut frame[l3..l3 + 20];
    ip[1] |= ecn::MARKED;
    ip[10..12].fill(0);
    let sum = checksum::finish(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn echoes(heard: &[Heard]) -> Vec<bool> {
    let results = heard.iter().filter(|heard| heard.header.kind == Kind::Result);
    results.map(|heard| heard.header.flags.has(Flags::ECN_ECHO)).collect()
}

/// What all ranks but one send is not marked, whatever way that one comes.
#[test]
fn one_marked_contribution_marks_the_result_for_all() {
    let ways = [Worker::new(3, 4), Worker::new(3, 4).v6(), Worker::new(3, 4).tagged(0x8100, 42)];
    for (way, last) in ways.into_iter().enumerate() {
        let mut bench = Bench::new(&Plan::one_armed());
        let mut workers: Vec<Worker> = (0..3).map(|rank| Worker::new(rank, 4)).chain([last]).collect();
        bench.join(&mut workers);
        bench.heard(0);
        for (psn, whose) in [(0, None), (1, Some(3)), (2, None), (3, Some(0)), (4, None)] {
            for (rank, worker) in workers.iter().enumerate() {
                let frame = worker.gradient(psn, &[1, 2, 3]);
                let frame = if whose == Some(rank) { marked(worker, frame) } else { frame };
                bench.feed(0, [&frame]);
            }
            assert_eq!(echoes(&bench.heard(0)), [whose.is_some(); 4], "way {way}, PSN {psn}");
        }
        // Whoever asks again for a result is told again.
        bench.feed(0, [&workers[1].gradient(3, &[1, 2, 3]), &workers[1].gradient(4, &[1, 2, 3])]);
        assert_eq!(echoes(&bench.heard(0)), [true, false], "way {way}");
        bench.end();
    }
}

/// As another appliance says it, which has added up before.
#[test]
fn a_contribution_that_says_so_marks_the_result_as_well() {
    let (mut bench, workers) = four(&Plan::one_armed());
    for worker in &workers {
        let mut header = worker.header(Kind::Gradient, 0, 1);
        header.flags = if worker.rank == 2 { Flags::ECN_ECHO } else { Flags::NONE };
        bench.feed(0, [&worker.frame(&header, &[0; 8])]);
    }
    assert_eq!(echoes(&bench.heard(0)), [true; 4]);
    bench.end();
}

/// Only those who heed marks are sent packets that may be marked instead of dropped (RFC 3168, section 5).
#[test]
fn results_may_be_marked_where_workers_heed_it() {
    for control in CongestionControl::ALL {
        let mut plan = Plan::one_armed();
        plan.jobs[0].congestion = Some(control);
        let (mut bench, workers) = four(&plan);
        bench.heard(0);
        workers.iter().for_each(|worker| bench.feed(0, [&worker.gradient(0, &[5])]));
        let classes: Vec<u8> = bench.io().sent(0).iter().map(|frame| frame[15] & ecn::MASK).collect();
        let expected = if control.reacts_to_marks() { ecn::CAPABLE } else { 0 };
        assert_eq!(classes, [expected; 4], "{}", control.name());
        bench.end();
    }
}

/// The frames that a port does not take tell of congestion, until it has taken them.
#[test]
fn a_queue_marks_from_its_threshold_on() {
    let plan = Plan { marks: Marks { frames: 8, ..Marks::NEVER }, ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    bench.heard(0);
    bench.io().ports[0].room = 0;
    // Two results to four ranks each wait; the third one knows.
    for psn in 0..3 {
        workers.iter().for_each(|worker| bench.feed(0, [&worker.gradient(psn, &[5])]));
    }
    bench.io().ports[0].room = usize::MAX;
    bench.settle();
    let expected = [[false; 8], [true; 8]].concat();
    assert_eq!(echoes(&bench.heard(0)), expected[..12]);
    workers.iter().for_each(|worker| bench.feed(0, [&worker.gradient(3, &[5])]));
    assert_eq!(echoes(&bench.heard(0)), [false; 4]);
    bench.end();
}

/// So do those that wait behind what passes, where the appliance is in line.
#[test]
fn a_queue_behind_passing_traffic_marks_as_well() {
    let marks = Marks { frames: 8, ..Marks::NEVER };
    let mut bench = Bench::new(&Plan { marks, jobs: vec![job(JOB, 1)], ..Plan::inline() });
    let mut workers = [Worker::new(0, 1)];
    bench.join(&mut workers);
    let [worker] = workers;
    bench.heard(0);
    (bench.io().ports[0].room, bench.io().ports[0].passing_room) = (0, Some(0));
    // From the other side, to a host behind the port of the worker.
    let mut through = [&[2, 0, 0, 0, 7, 1], &[2, 0, 0, 0, 7, 99][..], &[0x88, 0xb5]].concat();
    through.resize(60, 0);
    bench.feed(1, [&through]);
    (0..12).for_each(|psn| bench.feed(0, [&worker.gradient(psn, &[5])]));
    (bench.io().ports[0].room, bench.io().ports[0].passing_room) = (usize::MAX, None);
    bench.settle();
    let sent = bench.io().sent(0);
    assert_eq!(sent.first(), Some(&through), "what passes goes first");
    let heard: Vec<Heard> = sent[1..].iter().map(|frame| Heard::parse(frame)).collect();
    assert_eq!(echoes(&heard), [[false; 8].as_slice(), &[true; 4]].concat());
    bench.end();
}

/// While most slots hold partials, results are marked.
#[test]
fn a_pool_marks_from_its_threshold_on() {
    let plan = Plan { marks: Marks { slots: 500, ..Marks::NEVER }, ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    bench.heard(0);
    for (few, expected) in [(8, false), (48, true)] {
        (0..few).for_each(|psn| bench.feed(0, [&workers[0].gradient(psn, &[5])]));
        // It looks when it has nothing else to do.
        (0..4).for_each(|_| bench.settle());
        bench.heard(0);
        workers[1..].iter().for_each(|worker| bench.feed(0, [&worker.gradient(few - 1, &[5])]));
        assert_eq!(echoes(&bench.heard(0)), [expected; 4], "{few} partials in 64 slots");
    }
    bench.end();
}

/// Each result says how many packets of a worker there is room for: the job's part of the slots.
#[test]
fn results_tell_the_jobs_part_of_the_slots() {
    let mut plan = Plan::one_armed();
    plan.jobs = vec![job(JOB, 1), job(JOB + 1, 1)];
    (plan.jobs[0].share, plan.jobs[1].share) = (3, 1);
    plan.jobs.iter_mut().for_each(|job| job.slots = 64);
    let mut bench = Bench::new(&plan);
    let mut first = [Worker::new(0, 1)];
    bench.join(&mut first);
    let cap = |bench: &mut Bench, worker: &Worker, psn| {
        bench.heard(0);
        bench.feed(0, [&worker.gradient(psn, &[5])]);
        bench.heard(0)[0].header.own.wnd_cap()
    };
    assert_eq!(cap(&mut bench, &first[0], 0), 64, "alone");
    let mut second = [Worker { job: JOB + 1, ..Worker::new(0, 1) }];
    bench.join(&mut second);
    assert_eq!(cap(&mut bench, &first[0], 1), 48, "three of four shares");
    assert_eq!(cap(&mut bench, &second[0], 0), 16, "one of them");
    bench.end();
}
