//! How the control plane's decisions reach the lcores.

use std::time::Duration;

use pascaline_pipelines::jobs::{Job, JobTable};
use pascaline_pipelines::membership::JobSpec;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::frame::Address;

use pascaline_buffer::HeapPool;
use pascaline_testkit::{Clock, JOB, MemoryIo, Worker};

use crate::common::appliance::{Appliance, Bench, Plan, assert_results, job};

#[test]
fn a_table_knows_its_jobs_and_no_others() {
    let job = |id| Job::new(id, 1, 0, 8, vec![None]);
    let table = JobTable::new((0..=u16::MAX).map(job).collect());
    assert_eq!(table.jobs().len(), 65_535);
    assert!(table.get(65_534).is_some_and(|job| job.id == 65_534));
    assert!(table.get(65_535).is_none(), "one too many");
    assert!(JobTable::default().get(0).is_none());
}

/// Holds R9.6 of protocol.md.
#[test]
fn packets_of_a_past_generation_are_refused_and_their_senders_told() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 2)], first_epoch: u16::MAX, ..Plan::one_armed() });
    let mut workers = vec![Worker::new(0, 2), Worker::new(1, 2)];
    bench.join(&mut workers);
    let old = workers[0];
    assert_eq!(old.epoch, u16::MAX);
    workers[1].session += 1;
    bench.join(&mut workers);
    assert_eq!(workers[0].epoch, 0);
    bench.clock.advance(2_000_000);
    bench.feed(0, [&old.gradient(1, &[1]), &old.reminder(1), &old.cached_result(1, &[1])]);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 3);
    let heard = bench.heard_by(&old);
    assert_eq!(heard.len(), 1);
    heard[0].assert_addressed_to(&old);
    let told = heard[0].objection();
    assert_eq!((told.status, told.expected, told.got), (Status::WrongEpoch, 0, 0xffff));
    assert_eq!((heard[0].header.epoch, heard[0].header.fan_in), (0, 2));
    bench.end();
}

/// What a stranger guesses is answered alike, or not at all.
/// Holds R14.2 of protocol.md.
#[test]
fn the_packet_path_tells_no_stranger_the_generation() {
    let told = |first_epoch: u16| {
        let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 2)], first_epoch, ..Plan::one_armed() });
        bench.join(&mut [Worker::new(0, 2)]);
        let mut told = Vec::new();
        for (rank, epoch) in [(0, 5), (0, 6), (1, 5), (1, 6)] {
            let address = Address::from_v4([10, 77, 0, 200]);
            let stranger = Worker { address, epoch, ..Worker::new(rank, 2) };
            for frame in [stranger.gradient(1, &[1; 64]), stranger.cached_result(1, &[1; 64])] {
                // Nothing is kept back for its sake.
                bench.clock.advance(2_000_000_000);
                bench.feed(0, [&frame]);
                told.push(bench.io().sent(0));
            }
        }
        bench.end();
        told
    };
    let [one, other] = [5, 6].map(told);
    assert_eq!(one, other);
    assert!(one.iter().any(|sent| !sent.is_empty()), "whoever names a free rank is told so");
}

#[test]
fn nobody_is_told_to_go_before_every_lcore_knows_the_members() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() });
    let mut worker = Worker::new(0, 1);
    bench.io().arrive(0, &worker.control(Action::Join));
    bench.appliance.lcores[0].turn();
    let turn = bench.appliance.control_turn();
    assert!(turn.published && !turn.settled, "published, and not yet picked up");
    bench.appliance.lcores[0].turn();
    assert!(bench.heard(0).is_empty());
    let turn = bench.appliance.control_turn();
    assert_eq!((turn.settled, turn.answers), (true, 1));
    bench.appliance.lcores[0].turn();
    let heard = bench.heard(0);
    assert_eq!(heard[0].control().status, Status::Ok);
    worker.epoch = heard[0].header.epoch;
    bench.feed(0, [&worker.gradient(0, &[3])]);
    assert_results(&mut bench, &[worker], 0, &[3]);
    bench.end();
}

/// An answer waits for the table of its own turn, not for all that follow.
#[test]
fn answers_leave_while_some_job_changes_in_every_turn() {
    let other = job(JOB + 1, 1);
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1), other], ..Plan::one_armed() });
    let (mut restless, newcomer) = (Worker::new(0, 1), Worker { job: JOB + 1, ..Worker::new(0, 1) });
    bench.join(core::slice::from_mut(&mut restless));
    bench.io().arrive(0, &newcomer.control(Action::Join));
    let mut answers = 0;
    for dscp in 1..=10 {
        restless.dscp = dscp;
        bench.io().arrive(0, &restless.control(Action::Join));
        bench.appliance.lcores[0].turn();
        let turn = bench.appliance.control_turn();
        assert!(turn.published && !turn.settled, "another table, and not yet picked up");
        answers += turn.answers;
    }
    assert_eq!(answers, 1 + 9, "but the last");
    bench.settle();
    bench.end();
}

/// One lcore never picks the table up: what waits for it is bounded.
#[test]
fn no_more_answers_wait_than_there_is_room_for() {
    let (pool, clock) = (HeapPool::new(), Clock::default());
    let plan = Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() };
    let ios = (0..2).map(|_| MemoryIo::new(1, &pool, &clock)).collect();
    let mut appliance = Appliance::new(&plan, ios);
    let ask = |appliance: &mut Appliance, worker: &Worker| {
        appliance.lcores[0].io().arrive(0, &worker.control(Action::Join));
        appliance.lcores[0].turn();
        appliance.control_turn()
    };
    assert!(ask(&mut appliance, &Worker::new(0, 1)).published);
    let asked = |number: u16| Worker { job: 99, udp_port: number, ..Worker::new(0, 1) };
    let decided: usize = (0..3000).map(|number| ask(&mut appliance, &asked(number)).decided.len()).sum();
    assert!((1000..=1100).contains(&decided), "{decided}");
    assert!(appliance.dropped(DropReason::ControlFull) > 900);
    // What waits again leaves once it may.
    appliance.lcores[1].turn();
    assert!(appliance.control_turn().settled && appliance.plane.is_behind());
    assert!(!appliance.control_turn().decided.is_empty());
}

/// Whoever floods the appliance fills the strangers' queue.
#[test]
fn a_flood_of_strangers_does_not_take_the_turn_of_members() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() });
    let mut member = Worker::new(0, 1);
    bench.join(core::slice::from_mut(&mut member));
    // Some say that they are the member, whose session they do not know.
    for number in 0..3000 {
        let stranger = Worker { session: 9_000 + number, ..member };
        let elsewhere = Worker { udp_port: 9, ..stranger };
        let frame = if number % 2 == 0 { stranger } else { elsewhere }.control(Action::Leave);
        bench.io().arrive(0, &frame);
    }
    bench.io().arrive(0, &member.control(Action::Join));
    while !bench.io().ports[0].rx.is_empty() {
        bench.appliance.lcores[0].turn();
    }
    assert!(bench.appliance.dropped(DropReason::ControlFull) > 1900);
    let turn = bench.appliance.control_turn();
    assert_eq!(turn.decided[0].request.control.session, member.session, "the first of all");
    assert!(turn.decided.len() > 1, "strangers have their turn as well");
    assert!(bench.appliance.plane.is_behind());
    bench.settle();
    bench.end();
}

#[test]
fn answers_that_find_no_buffer_are_lost_and_asked_for_again() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() });
    bench.io().headers = 0;
    let worker = Worker::new(0, 1);
    bench.feed(0, [&worker.control(Action::Join)]);
    assert!(bench.heard(0).is_empty());
    assert_eq!(bench.appliance.get(Counter::NoBuffer), 1);
    bench.io().headers = 1;
    bench.feed(0, [&worker.control(Action::Join)]);
    assert_eq!(bench.heard(0)[0].control().status, Status::Ok);
    bench.end();
}

#[test]
fn an_unknown_source_is_answered_where_it_is() {
    let mut bench = Bench::new(&Plan::one_armed());
    let stranger =
        Worker { job: 99, address: Address::from_v4([192, 0, 2, 1]), ..Worker::new(0, 4) }.tagged(0x8100, 5);
    bench.feed(0, [&stranger.control(Action::Join)]);
    let heard = bench.heard(0);
    heard[0].assert_addressed_to(&stranger);
    assert_eq!(heard[0].control().status, Status::UnknownJob);
    bench.end();
}

/// An answer that is longer than a header buffer: most of 1,024 ranks are lost.
#[test]
fn the_names_of_many_lost_ranks_reach_the_worker() {
    let spec = JobSpec { dead_after: Some(Duration::from_secs(60)), ..job(JOB, 1024) };
    let mut bench = Bench::new(&Plan { jobs: vec![spec], ..Plan::one_armed() });
    let host = |rank| Worker { rank, udp_port: 20_000 + rank, fan_in: 1024, ..Worker::new(0, 1) }.v6();
    bench.appliance.step = Duration::from_millis(1);
    for rank in 0..1024 {
        bench.feed(0, [&host(rank).control(Action::Join)]);
        assert_eq!(bench.heard(0).len(), 1);
    }
    bench.appliance.now += Duration::from_secs(120);
    let worker = host(1000);
    bench.feed(0, [&worker.control(Action::Join)]);
    assert_eq!(bench.heard(0)[0].control().status, Status::Ok);
    assert_eq!(bench.appliance.control_turn().events.len(), 1);
    bench.feed(0, [&worker.control(Action::Join)]);
    let heard = bench.heard(0);
    heard[0].assert_addressed_to(&worker);
    let (control, trailer) = Control::parse_with_trailer(&heard[0].header, &heard[0].body).unwrap();
    assert_eq!((control.status, control.expected, control.got), (Status::RankLost, 1023, 0));
    assert_eq!(trailer.and_then(|trailer| trailer.bitmap).map(|lost| lost.count()), Some(1023));
    // Where there is no buffer for it, it is asked for again.
    bench.io().frames = 0;
    bench.feed(0, [&worker.control(Action::Join)]);
    assert!(bench.heard(0).is_empty());
    assert_eq!(bench.appliance.get(Counter::NoBuffer), 1);
    bench.end();
}

/// Who joins with a packet as long as a full one learns that such packets come back as well.
#[test]
fn the_answer_to_a_join_is_as_long_as_the_join() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 2)], ..Plan::one_armed() });
    for worker in [Worker::new(0, 2), Worker::new(1, 2).v6()] {
        let join = worker.control(Action::Join);
        let padded = worker.padded(Action::Join, 300);
        assert_eq!(padded.len(), join.len() + 300);
        bench.feed(0, [&padded]);
        let heard = bench.heard(0);
        heard[0].assert_addressed_to(&worker);
        assert_eq!(heard[0].body.len(), control::LEN + 300);
        assert_eq!(heard[0].control().answers, Some(Action::Join));
        bench.feed(0, [&join]);
        assert_eq!(bench.heard(0)[0].body.len(), control::LEN);
    }
    // Nothing else may be longer than it is.
    let dropped = bench.appliance.dropped(DropReason::Control);
    bench.feed(0, [&Worker::new(0, 2).padded(Action::Leave, 8)]);
    assert_eq!(bench.appliance.dropped(DropReason::Control), dropped + 1);
    assert!(bench.heard(0).is_empty());
    bench.end();
}
