//! Jobs that are formed by their workers' Joins alone.

use std::time::Duration;

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{Admission, Event, JobSpec, OnDeath, Secret};
use pascaline_telemetry::Moment;
use pascaline_wire::control::{ASK, Action, Status, generation};
use pascaline_wire::frame::Address;
use pascaline_wire::trailer::Sentence;

use super::plane::{Plane, lcores, millis, secs, told};
use Action::{Join, Leave};
use Status::{
    FanInMismatch, JobsOfHost, NotMember, Objective, Ok, Pending, Quota, RanksOfHost, SourceRefused,
    UnknownJob, WrongEpoch,
};
use pascaline_testkit::{JOB, Worker};

pub(super) fn admission() -> Admission {
    Admission {
        jobs: 1000..=1999,
        from: vec!["10.77.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
        max_jobs: 2,
        max_jobs_per_host: usize::MAX,
        max_fan_in: 16,
        like: JobSpec { window: 32, max_payload: 2048, ..JobSpec::new(0, 0) },
        idle: secs(600),
    }
}

fn plane() -> Plane {
    Plane::with_admission(vec![JobSpec::new(JOB, 2), JobSpec::new(1500, 2)], admission())
}

pub(super) fn worker(job: u16, rank: u16, fan_in: u16) -> Worker {
    Worker { job, epoch: 7, ..Worker::new(rank, fan_in) }
}

pub(super) fn exists(plane: &Plane, job: u16) -> bool {
    plane.membership.status().iter().any(|status| status.id == job)
}

#[test]
fn the_first_join_forms_the_job() {
    let mut plane = plane();
    let [a, b] = [0, 1].map(|rank| worker(1000, rank, 2));
    plane.expect(&a, Join, (Pending, 7, 1, true));
    let answer = plane.ask(&b.v6(), Join, 0, 0);
    assert_eq!((told(&answer), answer.header.fan_in), ((Ok, 7, 0, 0), 2));
    assert_eq!((answer.control.window, answer.control.payload), (32, 1024));
    assert_eq!(plane.members(1000), [0, 1]);
    // From then on its fan-in is what it is, as long as a member gives signs of life.
    let rival = worker(1000, 0, 3);
    assert_eq!(plane.ask(&rival, Join, 0, 0).control.status, Pending);
    assert_eq!(plane.pass(millis(700)).events, []);
    plane.heartbeat(&a);
    plane.refuses(&rival, Join, FanInMismatch, 2, 3);
}

/// A program goes on with fewer processes after some have died: its job is formed anew as soon as the silence
/// of the others proves that they are gone.
#[test]
fn fewer_ranks_form_the_job_of_dead_ones_anew() {
    let like = JobSpec { dead_after: Some(secs(4)), ..admission().like };
    let mut plane = Plane::with_admission(Vec::new(), Admission { like, ..admission() });
    for rank in 0..4 {
        plane.join(&worker(1000, rank, 4));
    }
    assert_eq!(plane.members(1000), [0, 1, 2, 3]);
    let newcomers = [0, 1, 2].map(|rank| Worker { session: 99, ..worker(1000, rank, 3) }.v6());
    let ask = |plane: &mut Plane| newcomers.map(|newcomer| plane.ask(&newcomer, Join, 0, 0));
    let begun = plane.now;
    while plane.members(1000) != [0, 1, 2] {
        assert!(plane.now < begun + secs(5), "the job is not given up");
        for answer in ask(&mut plane) {
            assert_eq!(answer.header.fan_in, 3);
            assert!(matches!(answer.control.status, Pending | Ok), "{:?}", answer.control.status);
        }
        let _ = plane.pass(millis(100));
    }
    assert!(plane.now >= begun + secs(4), "silence was taken for death too early");
    assert_eq!(ask(&mut plane).map(|answer| (answer.control.status, answer.header.epoch)), [(Ok, 8); 3]);
}

#[test]
fn a_rank_that_died_while_nobody_waited_is_missed_as_soon_as_somebody_waits() {
    let like = JobSpec { dead_after: Some(secs(2)), ..admission().like };
    let mut plane = Plane::with_admission(Vec::new(), Admission { like, ..admission() });
    let [a, b] = [0, 1].map(|rank| worker(1000, rank, 2));
    plane.expect(&a, Join, (Pending, 7, 1, true));
    plane.expect(&b, Join, (Ok, 7, 2, true));
    assert_eq!(plane.pass(secs(3)).events, []);
    let lost = Event::Lost { job: 1000, epoch: 7, ranks: vec![1], on_death: OnDeath::Fail };
    assert_eq!(plane.wait(&[a], millis(300)).events, [lost]);
}

#[test]
fn a_question_forms_no_job() {
    let mut plane = plane();
    let a = worker(1000, 0, 2);
    let answer = plane.ask(&a, Join, 0, ASK);
    assert_eq!((told(&answer), answer.header.fan_in, answer.control.joined), ((Pending, 7, 0, 0), 2, 0));
    plane.refuses_values(&a, Join, (0, generation(200)), (WrongEpoch, 7, 200));
    assert!(!exists(&plane, 1000));
    assert_eq!(told(&plane.join(&a)), (Pending, 7, 0, 0));
    assert!(exists(&plane, 1000));
}

#[test]
fn what_is_beyond_the_quotas_is_refused() {
    let mut plane = plane();
    plane.refuses(&worker(999, 0, 2), Join, UnknownJob, 0, 999);
    plane.refuses(&worker(2000, 0, 2), Join, UnknownJob, 0, 2000);
    plane.refuses(&worker(1000, 0, 17), Join, Quota, 16, 17);
    plane.refuses(&worker(1000, 0, u16::MAX), Join, Quota, 16, u32::from(u16::MAX));
    plane.refuses(&worker(1000, 2, 2), Join, Status::RankOutOfRange, 2, 2);
    plane.refuses(&Worker { fan_in: 0, ..worker(1000, 0, 2) }, Join, Status::RankOutOfRange, 0, 0);
    plane.refuses(&Worker { payload: 4096, ..worker(1000, 0, 2) }, Join, Status::PayloadMismatch, 2048, 4096);
    for action in [Action::Reset, Action::SetH, Action::Halt, Action::Serve] {
        plane.refuses(&worker(1000, 0, 2), action, UnknownJob, 0, 1000);
    }
    // Such a worker comes from an earlier life of the appliance, and is told that this is another generation.
    plane.refuses(&worker(1000, 1, 2), Leave, NotMember, 0, 1);
    let ghost = worker(1000, 1, 2);
    assert_ne!(plane.ask(&ghost, Leave, 0, 0).header.epoch, ghost.epoch);
    plane.refuses(&worker(999, 0, 2), Leave, UnknownJob, 0, 999);
    plane.refuses(&worker(1000, 0, 17), Leave, Quota, 16, 17);
    for job in [1000, 1001] {
        plane.expect(&worker(job, 0, 2), Join, (Pending, 7, 1, true));
    }
    plane.refuses(&worker(1002, 0, 2), Join, Quota, 0, 1);
    let counted = [Quota, UnknownJob, Status::RankOutOfRange].map(|status| plane.membership.answered(status));
    assert_eq!(counted, [4, 7, 2]);
    // Those of the configuration do not count, even if their numbers lie in the range.
    plane.expect(&worker(1500, 0, 2), Join, (Pending, 7, 1, true));
}

#[test]
fn one_host_has_no_more_ranks_than_it_may() {
    let mut plane = Plane::new(JobSpec { max_ranks_per_host: 2, ..JobSpec::new(1, 4) });
    let there = Worker { address: Address::from_v4([10, 77, 0, 99]), session: 98, ..worker(1, 0, 4) };
    let other = |rank| Worker { rank, ..there };
    let own = |rank| Worker { rank, ..worker(1, 0, 4) };
    for (rank, joined) in [(0, 1), (1, 2)] {
        plane.expect(&own(rank), Join, (Pending, 7, joined, true));
    }
    plane.refuses(&own(2), Join, RanksOfHost, 2, 2);
    // What it has it keeps, and may have anew.
    plane.expect(&own(1), Join, (Pending, 7, 2, false));
    plane.expect(&own(1), Leave, (Pending, 7, 1, true));
    plane.expect(&Worker { session: 99, ..own(3) }, Join, (Pending, 7, 2, true));
    for (rank, joined) in [(1, 3), (2, 4)] {
        let answer = if joined == 4 { Ok } else { Pending };
        plane.expect(&other(rank), Join, (answer, 7, joined, true));
    }
}

#[test]
fn one_host_leaves_room_for_others() {
    let mut plane =
        Plane::with_admission(vec![], Admission { max_jobs: 3, max_jobs_per_host: 2, ..admission() });
    let other = |job| Worker { address: Address::from_v4([10, 77, 0, 99]), ..worker(job, 0, 2) };
    for job in [1000, 1001] {
        plane.expect(&worker(job, 0, 2), Join, (Pending, 7, 1, true));
    }
    for again in 1..=2 {
        plane.refuses(&worker(1002, 0, 2), Join, JobsOfHost, 2, 2);
        assert_eq!(plane.membership.answered(JobsOfHost), again);
    }
    // What others have formed it may join, and they may form theirs.
    plane.expect(&other(1002), Join, (Pending, 7, 1, true));
    let joins = Worker { rank: 1, ..worker(1002, 0, 2) };
    plane.expect(&joins, Join, (Ok, 7, 2, true));
    plane.refuses(&other(1003), Join, Quota, 0, 1);
    // One that it has ended makes room, for it and for others.
    plane.expect(&worker(1000, 0, 2), Leave, (Ok, 7, 0, true));
    plane.expect(&worker(1003, 0, 2), Join, (Pending, 7, 1, true));
}

#[test]
fn only_admitted_networks_form_and_join_jobs() {
    let mut plane = plane();
    let stranger = |rank| Worker { address: Address::from_v4([10, 78, 0, 1]), ..worker(1000, rank, 2) };
    plane.refuses(&stranger(0), Join, SourceRefused, 0, 0);
    plane.refuses(&Worker { fan_in: 99, ..stranger(0) }, Join, SourceRefused, 0, 0);
    plane.expect(&worker(1000, 0, 2), Join, (Pending, 7, 1, true));
    plane.refuses(&stranger(1), Join, SourceRefused, 0, 1);
    // A configured job has its own rules.
    plane.expect(&Worker { job: JOB, ..stranger(1) }, Join, (Pending, 7, 1, true));
}

#[test]
fn without_admission_there_are_no_other_jobs() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    plane.refuses(&worker(1000, 0, 2), Join, UnknownJob, 0, 1000);
}

#[test]
fn a_job_that_all_have_left_is_forgotten_and_begins_with_another_epoch() {
    let mut plane = plane();
    let [a, b] = [0, 1].map(|rank| worker(1000, rank, 2));
    let _ = (plane.ask(&a, Join, 0, 0), plane.ask(&b, Join, 0, 0));
    plane.expect(&a, Leave, (Pending, 7, 1, false));
    plane.expect(&b, Leave, (Ok, 7, 0, true));
    assert!(!exists(&plane, 1000));
    // Its answer may have got lost.
    let told = plane.ask(&a, Leave, 0, 0);
    assert_eq!((told.control.status, told.changed), (Ok, false));
    // Packets from before are not taken for those of the next.
    plane.refuses_values(&a, Join, (0, generation(7)), (WrongEpoch, 8, 7));
    plane.expect(&a, Join, (Pending, 8, 1, true));
    plane.expect(&worker(1001, 0, 2), Join, (Pending, 7, 1, true));
}

#[test]
fn a_configured_job_stays() {
    let mut plane = plane();
    let a = Worker { job: 1500, ..worker(1500, 0, 2) };
    plane.expect(&a, Join, (Pending, 7, 1, true));
    plane.expect(&a, Leave, (Ok, 7, 0, true));
    let _ = plane.pass(secs(3600));
    assert!(exists(&plane, 1500) && exists(&plane, JOB));
    plane.refuses(&a, Leave, NotMember, 0, 0);
}

#[test]
fn a_job_that_nobody_waits_to_form_any_more_is_forgotten() {
    for dead_after in [Some(JobSpec::DEAD_AFTER), None] {
        let like = JobSpec { dead_after, ..admission().like };
        let mut plane = Plane::with_admission(vec![], Admission { like, ..admission() });
        plane.expect(&worker(1000, 0, 2), Join, (Pending, 7, 1, true));
        let (mut events, began) = (Vec::new(), plane.now);
        while exists(&plane, 1000) {
            let elapsed = plane.pass(millis(500));
            assert_eq!(elapsed.changed, !elapsed.events.is_empty());
            events.extend(elapsed.events);
        }
        assert_eq!(events, [Event::GaveUp { job: 1000, rank: 0 }, Event::Forgotten { job: 1000 }]);
        match dead_after {
            Some(limit) => assert!(plane.now - began < 2 * limit),
            None => assert!(plane.now - began < secs(11)),
        }
        plane.expect(&worker(1000, 0, 2), Join, (Pending, 8, 1, true));
    }
}

#[test]
fn a_job_of_which_nothing_is_heard_is_forgotten() {
    let mut plane = plane();
    let workers = [0, 1].map(|rank| worker(1000, rank, 2));
    workers.iter().for_each(|worker| _ = plane.ask(worker, Join, 0, 0));
    let nothing = |plane: &mut Plane, time: Duration| assert!(plane.pass(time).events.is_empty());
    nothing(&mut plane, secs(500));
    let _ = plane.heartbeat(&workers[1]);
    nothing(&mut plane, secs(500));
    let _ = plane.heartbeat(&workers[0]);
    let _ = plane.heartbeat(&workers[1]);
    nothing(&mut plane, secs(500));
    // What is refused keeps no job alive.
    let _ = plane.ask(&worker(1000, 0, 3), Join, 0, 0);
    assert_eq!(plane.pass(secs(101)).events, [Event::Forgotten { job: 1000 }]);
}

/// Whoever has its results within a heartbeat's time says nothing else.
#[test]
fn contributions_keep_a_job_alive() {
    let membership = Membership::new(Vec::new(), Secret::NONE, 7).with_admission(admission()).counted_by(1);
    let mut plane = Plane { membership, now: secs(1000) };
    let workers = [0, 1].map(|rank| worker(1000, rank, 2));
    workers.iter().for_each(|worker| _ = plane.ask(worker, Join, 0, 0));
    let cells = plane.membership.counts_of(1000).unwrap();
    for _ in 0..3 {
        assert!(plane.pass(secs(500)).events.is_empty());
        assert!(cells.ranks_of(0).heard(1, 0, Moment::at(lcores(plane.now))));
    }
    // It is looked at when the job would be forgotten.
    assert!(plane.pass(secs(100)).events.is_empty());
    assert!(plane.pass(secs(499)).events.is_empty());
    assert_eq!(plane.pass(secs(1)).events, [Event::Forgotten { job: 1000 }]);
}

/// A rank is stopped, taken for dead and left behind; the others end. When it goes on, the job is forgotten.
#[test]
fn who_was_left_behind_does_not_resume_a_job_that_was_forgotten() {
    let like = JobSpec { dead_after: Some(secs(1)), on_death: OnDeath::Continue, ..admission().like };
    let mut plane = Plane::with_admission(vec![], Admission { like, ..admission() });
    let [mut a, b] = [0, 1].map(|rank| worker(1000, rank, 2));
    [a, b].iter().for_each(|worker| _ = plane.ask(worker, Join, 0, 0));
    assert!(!plane.wait(&[a], secs(2)).events.is_empty(), "rank 1 is lost");
    assert_eq!(told(&plane.resume(&a, 8)), (Ok, 8, generation(7), 0));
    a.epoch = 8;
    plane.expect(&a, Leave, (Ok, 8, 0, true));
    assert!(!exists(&plane, 1000));
    assert_eq!(told(&plane.resume(&b, 9)), (Ok, 9, 0, 0), "from nothing");
}

/// Where another appliance is gone, its job goes on here: also if it has done so before, and has ended.
#[test]
fn who_comes_from_another_appliance_goes_on_however_often() {
    let mut plane = plane();
    for (elsewhere, here) in [(100, 7), (101, 8), (7, 9)] {
        let [a, b] = [0, 1].map(|rank| Worker { epoch: elsewhere, ..worker(1000, rank, 2) });
        let [a, b] = [a, b].map(|worker| Worker { session: u64::from(here) * 10, ..worker });
        // A number that this appliance has given is one of its own.
        let status = if elsewhere == 7 { Ok } else { Pending };
        assert_eq!(told(&plane.resume(&a, here)), (status, here, 0, 0));
        if elsewhere == 7 {
            return;
        }
        assert_eq!(told(&plane.resume(&b, here)), (Ok, here, generation(elsewhere), 0));
        let _ = [a, b].map(|worker| plane.ask(&Worker { epoch: here, ..worker }, Leave, 0, 0));
        assert!(!exists(&plane, 1000));
    }
}

#[test]
fn a_reset_keeps_the_job() {
    let mut plane = plane();
    let a = worker(1000, 0, 1);
    plane.expect(&a, Join, (Ok, 7, 1, true));
    plane.expect(&a, Action::Reset, (Ok, 8, 0, true));
    assert_eq!(told(&plane.resume(&a, 8)), (Ok, 8, 0, 0), "from nothing");
}

/// Why nobody may join is told in words; whoever is a member already stays.
#[test]
fn a_job_that_would_not_meet_an_objective_takes_nobody_in() {
    let why = Sentence::new("fair fails: a and b differ by 300 ms, more than 100 ms").unwrap();
    let spec = JobSpec { refused: Some(why), ..JobSpec::new(JOB, 2) };
    let mut plane = Plane::new(spec.clone());
    let worker = Worker::new(0, 2);
    plane.refuses_values(&worker, Join, (0, generation(7)), (Objective, 0, 0));
    assert_eq!(plane.ask(&worker, Join, 0, generation(7)).sentence, Some(why));

    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    plane.membership.reconfigure(plane.now, vec![spec], None);
    assert_eq!(told(&plane.heartbeat(&workers[0])), (Ok, 7, 0, 0));
    plane.refuses_values(&Worker { session: 2000, ..workers[1] }, Join, (0, ASK), (Objective, 0, 0));
}
