//! Ranks of which nothing is heard any more.

use std::time::Duration;

use pascaline_pipelines::membership::{Elapsed, Event, JobSpec, OnDeath, Reply};
use pascaline_wire::control::{self, Action, Control, Status, generation};
use pascaline_wire::frame::{Frame, Net};
use pascaline_wire::{Flags, Header};

use super::plane::{Plane, early, millis, named, request, secs, told};
use Action::{Join, Leave};
use Status::{NotMember, Ok, Pending, RankLost, WrongEpoch};
use pascaline_testkit::{JOB, Worker, port_mac};

/// Longer than anything else in these tests.
const LIMIT: Duration = secs(2);

fn failing(fan_in: u16) -> JobSpec {
    JobSpec { dead_after: Some(LIMIT), ..JobSpec::new(JOB, fan_in) }
}

fn going_on(fan_in: u16) -> JobSpec {
    JobSpec { on_death: OnDeath::Continue, ..failing(fan_in) }
}

fn lost(epoch: u16, ranks: &[u16], on_death: OnDeath) -> Event {
    Event::Lost { job: JOB, epoch, ranks: ranks.to_vec(), on_death }
}

#[test]
fn a_dead_rank_fails_the_others_by_name() {
    let (mut plane, workers) = Plane::complete(failing(4));
    let [a, b, c, d] = workers[..] else { unreachable!() };
    let began = plane.now;
    let elapsed = plane.wait(&[a, c], secs(10));
    assert_eq!(
        elapsed,
        Elapsed { changed: false, events: vec![lost(7, &[1, 3], OnDeath::Fail)], ..Elapsed::default() }
    );
    assert!(plane.now - began >= LIMIT && plane.now - began < LIMIT + millis(300), "{:?}", plane.now - began);
    for worker in [a, c] {
        let answer = plane.heartbeat(&worker);
        assert_eq!(told(&answer), (RankLost, 7, 2, 1));
        assert_eq!((named(&answer), answer.control.joined), (vec![1, 3], 2));
    }
    let status = plane.status();
    assert_eq!((status.needed, status.lost, status.joined, status.complete), (4, 2, 2, false));
    // The dead were only held up. Their operations fail with the others'.
    assert_eq!(named(&plane.heartbeat(&b)), [1, 3]);
    // Whoever leaves does not wait for the dead.
    plane.expect(&a, Leave, (Pending, 7, 1, false));
    plane.expect(&c, Leave, (Ok, 7, 0, true));
    // A session that was taken for dead is over; a later one is not.
    plane.refuses_values(&d, Join, (0, generation(7)), (RankLost, 1, 3));
    plane.expect(&Worker { session: 2000, ..d }, Join, (Pending, 8, 1, true));
    plane.refuses_values(&b, Join, (generation(7), generation(8)), (RankLost, 1, 1));
    assert_eq!(named(&plane.ask(&b, Join, 0, 0)), [1]);
    assert_eq!(plane.status().lost, 0);
}

/// Holds R14.3 of protocol.md.
#[test]
fn only_a_member_is_told_all_the_names() {
    let (mut plane, workers) = Plane::complete(failing(3));
    let [a, b, _] = workers[..] else { unreachable!() };
    let _ = plane.wait(&[a], secs(10));
    let elsewhere = |worker: &Worker| Worker { udp_port: 1, ..*worker };
    plane.refuses_values(&elsewhere(&a), Join, (generation(7), generation(7)), (RankLost, 2, 1));
    assert_eq!(plane.ask(&elsewhere(&a), Join, generation(7), 0).lost, None);
    for values in [(0, 0), (generation(7), generation(7))] {
        plane.refuses_values(&elsewhere(&b), Join, values, (Status::StaleSession, 0, 0));
    }
}

#[test]
fn a_new_session_begins_a_generation_with_all_ranks_after_a_death() {
    let (mut plane, workers) = Plane::complete(failing(2));
    let [a, b] = workers[..] else { unreachable!() };
    let _ = plane.wait(&[a], secs(10));
    plane.expect(&Worker { session: 2000, ..a }, Join, (Pending, 8, 1, true));
    plane.expect(&Worker { session: 2000, ..b }, Join, (Ok, 8, 2, true));
    assert_eq!(plane.status().needed, 2);
}

#[test]
fn nobody_dies_unless_somebody_waits() {
    let (mut plane, workers) = Plane::complete(failing(3));
    let [a, b, c] = workers[..] else { unreachable!() };
    // All compute for long.
    assert_eq!(plane.pass(secs(100)), Elapsed::default());
    // Then they begin to wait, a little apart from each other.
    let _ = plane.heartbeat(&a);
    let _ = plane.heartbeat(&b);
    let _ = plane.heartbeat(&c);
    assert_eq!(plane.pass(millis(1)), Elapsed::default());
    assert_eq!(plane.wait(&workers, secs(10)), Elapsed::default());
    // The last heartbeat says that somebody waits, for half of the time only.
    assert_eq!(plane.pass(LIMIT), Elapsed::default());
}

/// They may lack a result that only it has: it is not to go before they do, and need not stay for others.
#[test]
fn who_leaves_is_told_how_many_wait() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 4));
    let [a, b, _, d] = workers[..] else { unreachable!() };
    assert_eq!(plane.pass(secs(1)), Elapsed::default());
    let leave = |plane: &mut Plane, worker| told(&plane.ask(worker, Leave, 0, 0));
    assert_eq!(leave(&mut plane, &d), (Pending, 7, 0, 0), "the others compute");
    let _ = plane.join(&a);
    assert_eq!(
        leave(&mut plane, &d),
        (Pending, 7, 0, 0),
        "also those that say meanwhile that they are alive"
    );
    let _ = plane.wait(&[a, b], millis(300));
    assert_eq!(leave(&mut plane, &d), (Pending, 7, 2, 0));
    // Who has left waits for nothing.
    assert_eq!(leave(&mut plane, &b), (Pending, 7, 1, 0));
    // A few heartbeats may get lost. Then nobody knows.
    let _ = plane.pass(millis(800));
    assert_eq!(leave(&mut plane, &d), (Pending, 7, 1, 0));
    let _ = plane.pass(millis(100));
    assert_eq!(leave(&mut plane, &d), (Pending, 7, 0, 0));
    // What they wait for fails: nobody can help them.
    let (mut plane, workers) = Plane::complete(failing(3));
    assert_eq!(plane.wait(&workers[..2], secs(10)).events, [lost(7, &[2], OnDeath::Fail)]);
    assert_eq!(plane.heartbeat(&workers[0]).control.status, RankLost);
    assert_eq!(leave(&mut plane, &workers[1]), (Pending, 7, 0, 0));
}

/// Whoever has left goes on asking whether the others have, until they have: they may need what it has kept.
#[test]
fn a_rank_that_leaves_and_goes_away_is_missed() {
    let (mut plane, workers) = Plane::complete(failing(3));
    let [a, b, c] = workers[..] else { unreachable!() };
    for _ in 0..50 {
        plane.expect(&c, Leave, (Pending, 7, 2, false));
        assert_eq!(plane.wait(&[a, b], millis(100)), Elapsed::default());
    }
    assert_eq!(plane.wait(&[a, b], secs(10)).events, [lost(7, &[2], OnDeath::Fail)]);
    assert_eq!(named(&plane.heartbeat(&a)), [2]);
    // Where the others can do without it, it is not.
    let (mut plane, workers) = Plane::complete(JobSpec { kind: early(3, 2).kind, ..failing(3) });
    plane.expect(&workers[2], Leave, (Pending, 7, 2, false));
    assert_eq!(plane.wait(&workers[..2], secs(10)), Elapsed::default());
}

/// Rank 2 is done and waits for the others to be done; then rank 3 dies.
#[test]
fn a_rank_that_has_left_comes_again_when_the_job_goes_on() {
    let (mut plane, workers) = Plane::complete(going_on(4));
    let [a, b, c, _] = workers[..] else { unreachable!() };
    let mut passed = Elapsed::default();
    while passed.events.is_empty() {
        plane.expect(&c, Leave, (Pending, 7, 3, false));
        passed = plane.wait(&[a, b], millis(100));
    }
    assert_eq!(passed.events, [lost(7, &[3], OnDeath::Continue)]);
    plane.refuses(&c, Leave, WrongEpoch, 8, 7);
    assert_eq!(told(&plane.resume(&a, 8)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&c, 8)), (Ok, 8, generation(7), 0));
    plane.expect(&Worker { epoch: 8, ..c }, Leave, (Pending, 8, 2, false));
}

#[test]
fn heartbeats_are_signs_of_life() {
    let (mut plane, workers) = Plane::complete(failing(2));
    let [a, b] = workers[..] else { unreachable!() };
    let end = plane.now + secs(10);
    while plane.now < end {
        assert_eq!(plane.wait(&[a], secs(1)), Elapsed::default());
        let _ = plane.heartbeat(&b);
    }
    assert_eq!(plane.wait(&[a], secs(10)).events, [lost(7, &[1], OnDeath::Fail)]);
}

#[test]
fn a_job_may_wait_for_ever() {
    let (mut plane, workers) = Plane::complete(JobSpec { dead_after: None, ..JobSpec::new(JOB, 2) });
    assert_eq!(plane.wait(&workers[..1], secs(60)), Elapsed::default());
    assert_eq!(plane.membership.poll_timeout(), None);
}

#[test]
fn a_job_goes_on_without_a_dead_rank() {
    let (mut plane, workers) = Plane::complete(going_on(4));
    let [a, b, c, d] = workers[..] else { unreachable!() };
    let elapsed = plane.wait(&[a, b, c], secs(10));
    assert_eq!(
        elapsed,
        Elapsed { changed: true, events: vec![lost(7, &[3], OnDeath::Continue)], ..Elapsed::default() }
    );
    assert_eq!(plane.members(JOB), []);
    let status = plane.status();
    assert_eq!((status.epoch, status.needed, status.lost, status.complete), (8, 3, 1, false));
    assert_eq!(told(&plane.heartbeat(&a)), (WrongEpoch, 8, 8, 7));
    // A heartbeat that names no generation at all is no beginning either.
    plane.refuses(&b, Join, WrongEpoch, 8, 7);
    assert_eq!(told(&plane.resume(&a, 8)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&c, 8)), (Ok, 8, generation(7), 0));
    assert_eq!((plane.members(JOB), plane.status().complete), (vec![0, 1, 2], true));
    assert_eq!(plane.table().get(JOB).unwrap().needed, 3);

    // The dead rank is back: what it says of the old generation is refused, by its own name.
    for values in [(0, 0), (0, generation(8)), (generation(7), generation(8)), (generation(7), 0)] {
        plane.refuses_values(&d, Join, values, (RankLost, 1, 3));
    }
    assert_eq!(named(&plane.ask(&d, Join, 0, 0)), [3]);
    plane.refuses(&d, Leave, NotMember, 0, 3);
    // A new session of it begins a generation with all ranks.
    plane.expect(&Worker { session: 2000, ..d }, Join, (Pending, 9, 1, true));
    assert_eq!((plane.status().needed, plane.status().lost), (4, 0));
}

#[test]
fn a_dead_rank_may_be_back_before_the_others_go_on() {
    let (mut plane, workers) = Plane::complete(going_on(3));
    let [a, b, c] = workers[..] else { unreachable!() };
    let _ = plane.wait(&[a, b], secs(10));
    let _ = plane.resume(&a, 8);
    plane.expect(&Worker { session: 2000, ..c }, Join, (Pending, 9, 1, true));
    assert_eq!((plane.status().needed, plane.status().lost), (3, 0));
    assert_eq!(told(&plane.resume(&a, 9)), (Ok, 9, 0, 0), "from nothing");
    assert_eq!(told(&plane.resume(&b, 9)), (Ok, 9, 0, 0));
    assert!(!plane.status().complete);
    for worker in [a, b] {
        let _ = plane.ask(&worker, Join, 0, generation(9));
    }
    assert!(plane.status().complete);
}

#[test]
fn two_deaths_in_succession_leave_those_who_live() {
    let (mut plane, mut workers) = Plane::complete(going_on(4));
    let _ = plane.wait(&workers[..3], secs(10));
    workers.truncate(3);
    for worker in &workers {
        let _ = plane.resume(worker, 8);
    }
    workers.iter_mut().for_each(|worker| worker.epoch = 8);
    let elapsed = plane.wait(&workers[1..], secs(10));
    assert_eq!(elapsed.events, [lost(8, &[0], OnDeath::Continue)]);
    assert_eq!((plane.status().needed, plane.status().lost), (2, 2));
    assert_eq!(told(&plane.resume(&workers[1], 9)), (Pending, 9, 0, 0));
    assert_eq!(told(&plane.resume(&workers[2], 9)), (Ok, 9, generation(8), 0));
}

/// Rank 2 dies as well, before it has heard that rank 3 has.
#[test]
fn whoever_does_not_come_to_go_on_is_dead_too() {
    let (mut plane, workers) = Plane::complete(going_on(4));
    let [a, b, ..] = workers[..] else { unreachable!() };
    let _ = plane.wait(&workers[..3], secs(10));
    for worker in [a, b] {
        assert_eq!(told(&plane.resume(&worker, 8)), (Pending, 8, 0, 0));
    }
    let mut passed = Elapsed::default();
    for _ in 0..30 {
        let _ = (plane.resume(&a, 8), plane.resume(&b, 8));
        passed = plane.pass(millis(100));
        if passed.changed {
            break;
        }
    }
    assert_eq!(
        passed,
        Elapsed { changed: true, events: vec![lost(8, &[2], OnDeath::Continue)], ..Elapsed::default() }
    );
    assert_eq!(told(&plane.resume(&a, 8)), (Ok, 8, generation(7), 0));
    assert_eq!(plane.status().needed, 2);
    plane.refuses_values(&workers[2], Join, (generation(7), generation(8)), (RankLost, 1, 2));
    // Nor does it, where its worker has never been told `ok`, have everybody begin anew without knowing.
    plane.refuses_values(&workers[2], Join, (0, generation(8)), (RankLost, 1, 2));
    assert!(plane.status().complete);
    plane.expect(&Worker { session: 2000, ..workers[2] }, Join, (Pending, 9, 1, true));
}

/// The appliance has been started anew, and one of its workers died meanwhile: the others need not wait for
/// their deadlines.
#[test]
fn a_rank_that_died_with_the_appliance_is_missed() {
    for on_death in [OnDeath::Fail, OnDeath::Continue] {
        let mut plane = Plane::new(JobSpec { on_death, ..failing(3) });
        let [a, b, c] = [0, 1, 2].map(|rank| Worker { epoch: 200, ..Worker::new(rank, 3) });
        let began = plane.now;
        let mut passed = Elapsed::default();
        while passed.events.is_empty() {
            let _ = (plane.resume(&a, 7), plane.resume(&c, 7));
            passed = plane.pass(millis(100));
        }
        assert!(plane.now - began >= LIMIT);
        assert_eq!(passed.events, [lost(7, &[1], on_death)]);
        let answer = plane.resume(&a, 7);
        match on_death {
            OnDeath::Fail => {
                assert_eq!((told(&answer), named(&answer)), ((RankLost, 7, 1, 1), vec![1]));
                plane.refuses_values(&b, Join, (generation(200), generation(7)), (RankLost, 1, 1));
                assert_eq!(told(&plane.ask(&b, Join, 0, generation(7))), (Pending, 8, 0, 0), "from nothing");
            }
            OnDeath::Continue => assert_eq!(told(&answer), (Ok, 7, generation(200), 0)),
        }
    }
}

/// Those who start from nothing may come as late as they like.
#[test]
fn nobody_is_missed_before_the_first_generation() {
    let mut plane = Plane::new(failing(3));
    let [a, b] = [0, 1].map(|rank| Worker { epoch: 7, ..Worker::new(rank, 3) });
    for _ in 0..100 {
        let _ = (plane.join(&a), plane.join(&b));
        assert_eq!(plane.pass(millis(100)), Elapsed::default());
    }
    // Rank 1 gives up without a word: it must not complete a generation later.
    let mut passed = Elapsed::default();
    while passed == Elapsed::default() {
        let _ = plane.join(&a);
        passed = plane.pass(millis(100));
    }
    assert_eq!(
        passed,
        Elapsed { changed: true, events: vec![Event::GaveUp { job: JOB, rank: 1 }], ..Elapsed::default() }
    );
    assert_eq!(plane.members(JOB), [0]);
    assert_eq!(told(&plane.join(&b)), (Pending, 7, 0, 0), "or comes again");
}

#[test]
fn a_leave_after_another_ranks_death_is_not_the_end() {
    let (mut plane, workers) = Plane::complete(going_on(3));
    let [a, b, _] = workers[..] else { unreachable!() };
    let _ = plane.wait(&[a, b], secs(10));
    // It did not know that it may be needed.
    plane.refuses(&b, Leave, WrongEpoch, 8, 7);
    assert_eq!(told(&plane.resume(&a, 8)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Ok, 8, generation(7), 0));
    plane.refuses(&b, Leave, WrongEpoch, 8, 7);
    plane.expect(&Worker { epoch: 8, ..b }, Leave, (Pending, 8, 1, false));
}

#[test]
fn time_is_asked_for_only_when_it_can_matter() {
    let (mut plane, workers) = Plane::complete(failing(2));
    let [a, b] = workers[..] else { unreachable!() };
    let _ = plane.pass(millis(1));
    let now = plane.now;
    assert!(plane.membership.poll_timeout().is_some_and(|at| at > now && at <= now + LIMIT));
    let _ = plane.pass(LIMIT);
    assert_eq!(plane.membership.poll_timeout(), None, "nobody waits");
    let _ = plane.heartbeat(&a);
    assert!(plane.membership.poll_timeout().is_some_and(|at| at <= plane.now), "rank 1 may be dead");
    let _ = plane.heartbeat(&b);
    let _ = plane.pass(millis(1));
    assert!(plane.membership.poll_timeout().is_some_and(|at| at > plane.now + millis(1900)));
}

/// The widest answer there is: 1,024 ranks, over IPv6 with two tags.
#[test]
fn the_trailer_has_room_for_every_rank() {
    let host = |rank: u16| {
        let worker = Worker { rank, udp_port: 20_000 + rank, fan_in: 1024, ..Worker::new(0, 1) };
        worker.v6().tagged(0x88a8, 1).tagged(0x8100, 2)
    };
    let mut plane = Plane::new(failing(1024));
    for rank in 0..1024 {
        let _ = plane.ask(&host(rank), Join, 0, 0);
    }
    let waiting = Worker { epoch: 7, ..host(512) };
    let _ = plane.wait(&[waiting], secs(10));
    let answer = plane.heartbeat(&waiting);
    assert_eq!(told(&answer), (RankLost, 7, 1023, 0));
    let expected: Vec<u16> = (0..1024).filter(|&rank| rank != 512).collect();
    assert_eq!(named(&answer), expected);
    assert_eq!(ranks_in(&answer.reply(&request(&waiting, Join, 0, 0), port_mac(0), None)), expected);
}

/// What a worker finds in the frame of an answer.
fn ranks_in(reply: &Reply) -> Vec<u16> {
    let bytes = reply.frame();
    let Frame { net: Net::Ip(ip), .. } = Frame::parse(bytes).unwrap() else { panic!("not IP") };
    let (header, rest) = Header::parse(ip.udp(bytes).unwrap().body).unwrap();
    assert!(header.flags.has(Flags::TRAILER));
    let (control, trailer) = Control::parse_with_trailer(&header, rest).unwrap();
    assert_eq!(control.status, RankLost);
    assert_eq!(rest.len() - control::LEN, trailer.unwrap().emitted_len(), "nothing behind it");
    let bitmap = trailer.unwrap().bitmap.unwrap();
    (0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).collect()
}

#[test]
fn an_answer_without_lost_ranks_has_no_trailer() {
    let (mut plane, workers) = Plane::complete(failing(2));
    let asked = request(&workers[0], Join, 0, 0);
    let reply = plane.heartbeat(&workers[0]).reply(&asked, port_mac(0), None);
    assert_eq!((reply.frame().len(), reply.padding()), (64 + control::LEN, 0));
}
