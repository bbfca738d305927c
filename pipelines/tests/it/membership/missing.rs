//! Who is missing at a PSN, and what is known of them.

use std::time::Duration;

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{Answer, JobSpec, Secret};
use pascaline_telemetry::Moment;
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::control::{Action, Control, Status, generation};
use pascaline_wire::element::Element;
use pascaline_wire::trailer::{RankReport, RankState};

use super::plane::{FIRST, Plane, lcores, millis, ranks, request, secs};

/// The first PSN of the operation that all call.
const PSN: u32 = 40;

/// A complete job whose contributions one lcore counts.
fn complete() -> (Plane, Vec<Worker>) {
    let mut workers = ranks(3);
    let specs = vec![JobSpec { dead_after: Some(secs(20)), ..JobSpec::new(JOB, 3) }];
    let membership = Membership::new(specs, Secret::NONE, FIRST).counted_by(1);
    let mut plane = Plane { membership, now: secs(1000) };
    plane.form(&mut workers);
    (plane, workers)
}

/// Lets ranks wait inside an operation for so long: each says so every 100 ms, and some of them send, too.
fn wait(plane: &mut Plane, waiting: &[Worker], sending: &[u16], time: Duration) {
    let cells = plane.membership.counts_of(JOB).unwrap();
    let end = plane.now + time;
    while plane.now < end {
        let moment = Moment::at(lcores(plane.now));
        sending.iter().for_each(|&rank| assert!(cells.ranks_of(0).heard(rank, PSN, moment)));
        for worker in waiting {
            let _ = beat(plane, worker);
        }
        let _ = plane.pass(millis(100));
    }
}

/// The answer to a heartbeat of a rank that waits inside an operation.
fn beat(plane: &mut Plane, worker: &Worker) -> Answer {
    let mut beat = request(worker, Action::Join, 0, generation(worker.epoch));
    beat.at_ns = lcores(plane.now);
    let called = Control { psn: PSN, first: PSN, bytes: 4096, ..beat.control };
    beat.control = Control { element: Some(Element::F32_SUM), ..called };
    plane.membership.handle(plane.now, &beat).unwrap()
}

/// What the first rank is told of the others.
fn told(plane: &mut Plane, worker: &Worker) -> Vec<(u16, RankState)> {
    let mut query = request(worker, Action::Query, 0, 0);
    query.control.psn = PSN;
    reported(&plane.membership.handle(plane.now, &query).unwrap())
}

fn reported(answer: &Answer) -> Vec<(u16, RankState)> {
    let reports = answer.ranks.map(|ranks| ranks.as_slice().to_vec()).unwrap_or_default();
    reports.iter().map(|report: &RankReport| (report.rank, report.state)).collect()
}

/// What the operator is told.
fn shown(plane: &Plane) -> Vec<(u16, RankState)> {
    let reports = plane.membership.missing(JOB, plane.now);
    reports.as_slice().iter().map(|report| (report.rank, report.state)).collect()
}

#[test]
fn who_sends_and_waits_is_not_missing() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers, &[0, 1, 2], secs(5));
    assert_eq!(told(&mut plane, &workers[0]), []);
}

#[test]
fn whose_contributions_do_not_arrive_is_blocked() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers, &[0, 1, 2], secs(2));
    wait(&mut plane, &workers, &[0, 1], millis(800));
    assert_eq!(told(&mut plane, &workers[0]), [], "it may just not have sent again");
    wait(&mut plane, &workers, &[0, 1], millis(400));
    assert_eq!(told(&mut plane, &workers[0]), [(2, RankState::Blocked)]);
    assert_eq!(told(&mut plane, &workers[2]), [(2, RankState::Blocked)], "it is told as well");
    wait(&mut plane, &workers, &[0, 1, 2], millis(300));
    assert_eq!(told(&mut plane, &workers[0]), [], "what it sent again has come");
}

#[test]
fn who_gives_up_does_not_hide_whom_it_has_waited_for() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers, &[0, 1], secs(2));
    let _ = plane.ask(&workers[1], Action::Leave, 0, 0);
    let answer = beat(&mut plane, &workers[0]);
    assert_eq!(answer.control.status, Status::RankLeft);
    assert_eq!(reported(&answer), [(1, RankState::Left), (2, RankState::Blocked)]);
}

/// The job goes on without it, by a threshold or a time.
/// Holds R9.10 of protocol.md.
#[test]
fn whose_results_are_kept_no_longer_hears_so() {
    let (mut plane, workers) = complete();
    let base = plane.join(&workers[2]).control.psn;
    let mut sent = 0;
    let mut beat = |plane: &mut Plane, rank: usize, una: u32, again: u32| {
        let mut beat = request(&workers[rank], Action::Join, 0, generation(workers[rank].epoch));
        let called = Control { psn: una, first: base, bytes: 8 << 20, ..beat.control };
        beat.control = Control { element: Some(Element::F32_SUM), ..called };
        sent += 1;
        beat.control.number = sent - again;
        let _ = plane.pass(millis(100));
        plane.membership.handle(plane.now, &beat).unwrap().control.status
    };
    let window = plane.table().get(JOB).unwrap().window.clone();
    let spread = window.spread();
    (0..spread).for_each(|ahead| window.completed(0, base.wrapping_add(ahead)));
    for _ in 0..10 {
        assert_eq!(beat(&mut plane, 2, base, 0), Status::Ok, "the others still keep the oldest result");
    }
    (spread..2 * spread).for_each(|ahead| window.completed(0, base.wrapping_add(ahead)));
    // It says so no more after one that was sent just before: that one may come several times.
    for again in 0..10 {
        assert_eq!(beat(&mut plane, 2, base, again), Status::Ok);
        assert!(shown(&plane).contains(&(2, RankState::Blocked)));
    }
    assert_eq!(beat(&mut plane, 2, base.wrapping_add(spread), 0), Status::Ok);
    for late in 0..5 {
        assert_eq!(beat(&mut plane, 2, base, 0), Status::Ok, "{late}");
    }
    assert!(shown(&plane).contains(&(2, RankState::Overtaken)));
    assert_eq!(beat(&mut plane, 2, base, 0), Status::Overtaken);
    assert_eq!(beat(&mut plane, 0, base.wrapping_add(2 * spread), 0), Status::Ok);
    // Of what it may have called in another generation nothing is known.
    for _ in 0..10 {
        assert_eq!(beat(&mut plane, 2, base.wrapping_sub(1), 0), Status::Ok);
    }
}

#[test]
fn who_computes_is_behind_and_not_blocked() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers[..2], &[0, 1], millis(500));
    for worker in &workers[2..] {
        let _ = plane.heartbeat(worker);
    }
    assert_eq!(told(&mut plane, &workers[0]), [(2, RankState::Behind)]);
    // It has computed for long when it calls the operation, and has not sent yet.
    let _ = plane.pass(secs(5));
    wait(&mut plane, &workers, &[0, 1], millis(100));
    assert_eq!(told(&mut plane, &workers[0]), []);
}

/// Others wait for it each time, and as soon as it has sent, all have their result: it never waits for so
/// long that it would say so.
#[test]
fn who_contributes_is_neither_silent_nor_lost_although_it_never_waits() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers[..2], &[0, 1, 2], secs(30));
    assert_eq!(told(&mut plane, &workers[0]), [(2, RankState::Behind)]);
    assert_eq!(plane.status().lost, 0);
    // When it sends no more, nothing has been heard of it since.
    wait(&mut plane, &workers[..2], &[0, 1], secs(3));
    assert_eq!(told(&mut plane, &workers[0]), [(2, RankState::Silent)]);
    wait(&mut plane, &workers[..2], &[0, 1], millis(16_800));
    assert_eq!(plane.status().lost, 0);
    wait(&mut plane, &workers[..2], &[0, 1], millis(200));
    assert_eq!(plane.status().lost, 1);
}

#[test]
fn who_hangs_is_silent() {
    let (mut plane, workers) = complete();
    wait(&mut plane, &workers, &[0, 1, 2], millis(300));
    wait(&mut plane, &workers[..2], &[0, 1], millis(1300));
    assert_eq!(told(&mut plane, &workers[0]), [(2, RankState::Silent)]);
    assert_eq!(shown(&plane), [(2, RankState::Silent)]);
    let _ = plane.pass(secs(2));
    assert_eq!(shown(&plane), [], "nobody waits any more");
    wait(&mut plane, &workers[..2], &[0, 1], secs(20));
    assert_eq!(shown(&plane), [(2, RankState::Lost)]);
    let text = plane.membership.missing(JOB, plane.now).to_string();
    assert!(
        text.starts_with("rank 2 (10.") && text.contains("counts as dead: it was silent for 2"),
        "{text}"
    );
}

#[test]
fn who_has_not_joined_is_shown_once_somebody_has() {
    let mut plane = Plane::new(JobSpec::new(JOB, 3));
    assert_eq!(shown(&plane), []);
    for worker in &ranks(3)[..2] {
        let _ = plane.join(&Worker { epoch: FIRST, ..*worker });
    }
    assert_eq!(shown(&plane), [(2, RankState::NeverJoined)]);
}

#[test]
fn of_who_hangs_before_its_first_heartbeat_nothing_is_said_that_it_has_not() {
    let (mut plane, workers) = complete();
    let _ = plane.pass(secs(5));
    // First PSNs are random numbers.
    let (mut beat, far) = (request(&workers[0], Action::Join, 0, generation(workers[0].epoch)), 1 << 30);
    let called = Control { psn: far, first: far, bytes: 4096, ..beat.control };
    beat.control = Control { element: Some(Element::F32_SUM), ..called };
    assert!(plane.membership.handle(plane.now, &beat).is_some());
    let reports = plane.membership.missing(JOB, plane.now);
    let told = reports.as_slice().iter().map(|report| (report.rank, report.state, report.behind));
    let silent = |rank| (rank, RankState::Silent, 0);
    assert_eq!(told.collect::<Vec<_>>(), [silent(1), silent(2)]);
}
