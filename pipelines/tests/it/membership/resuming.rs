//! Going on after the generation has ended under its workers.

use pascaline_pipelines::membership::{Elapsed, JobSpec, Membership, Secret};
use pascaline_wire::control::{Action, Status, generation};

use std::time::Duration;

use super::plane::{FIRST, Plane, either, millis, ranks, request, secs, told};
use Action::{Join, Leave, Reset};
use Status::{NotMember, Ok, Pending, StaleSession, WrongEpoch};
use pascaline_testkit::{JOB, Worker};

/// Workers of a generation of which this appliance knows nothing: it has been started anew.
fn survivors(count: u16) -> (Plane, Vec<Worker>) {
    let workers = ranks(count).into_iter().map(|worker| Worker { epoch: 200, ..worker }).collect();
    (Plane::new(JobSpec::new(JOB, count)), workers)
}

#[test]
fn all_who_come_from_one_generation_go_on_with_it() {
    let (mut plane, workers) = survivors(3);
    let [a, b, c] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.heartbeat(&a)), (WrongEpoch, 7, 7, 200), "that is how it learns");
    assert_eq!(told(&plane.resume(&a, 7)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.resume(&b, 7)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.resume(&c, 7)), (Ok, 7, generation(200), 0));
    // Also for those who hear of it by a repeated Join, and whoever is told again.
    assert_eq!(told(&plane.resume(&a, 7)), (Ok, 7, generation(200), 0));
    let b = Worker { epoch: 7, ..b };
    assert_eq!(told(&plane.heartbeat(&b)), (Ok, 7, generation(200), 0));
}

/// The window spans from what the slowest of them lacks to what the fastest may be sent, also where PSNs
/// begin again at 0 in between.
#[test]
fn ranks_go_on_from_psns_on_both_sides_of_the_last_one() {
    const SLOWEST: u32 = u32::MAX - 3;
    for lacked in [[SLOWEST, 2, 0], [2, u32::MAX, SLOWEST], [0, SLOWEST, 2]] {
        let membership = Membership::new(vec![JobSpec::new(JOB, 3)], Secret::NONE, FIRST).counted_by(1);
        let mut plane = Plane { membership, now: secs(1000) };
        let mut status = Pending;
        for (worker, psn) in survivors(3).1.iter().zip(lacked) {
            let mut join = request(worker, Join, generation(worker.epoch).into(), generation(7));
            join.control.psn = psn;
            status = plane.handle(join).control.status;
        }
        let (table, spread) = (plane.table(), 64);
        let window = &table.get(JOB).unwrap().window;
        assert_eq!((status, window.spread()), (Ok, spread), "{lacked:?}");
        let admitted = [SLOWEST - 1, SLOWEST, 2 + spread - 1, 2 + spread].map(|psn| window.has(psn));
        assert_eq!(admitted, [false, true, true, false], "{lacked:?}");
    }
}

#[test]
fn a_resuming_join_without_the_handshake_counts_too() {
    let (mut plane, workers) = survivors(2);
    let [a, b] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.ask(&a, Join, generation(200), 0)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.ask(&b, Join, generation(200), 0)), (Ok, 7, generation(200), 0));
}

/// Holds R9.8 of protocol.md.
#[test]
fn one_who_starts_from_nothing_makes_all_start_from_nothing() {
    let (mut plane, workers) = survivors(3);
    let [a, b, c] = workers[..] else { unreachable!() };
    let _ = plane.resume(&a, 7);
    let _ = plane.ask(&b, Join, 0, generation(7));
    assert_eq!(told(&plane.resume(&c, 7)), (Ok, 7, 0, 0));
    assert_eq!(told(&plane.resume(&a, 7)), (Ok, 7, 0, 0));
    // They do so when they want to, and not before.
    assert_eq!((plane.members(JOB), plane.status().complete), (vec![1], false));
    assert_eq!(told(&plane.ask(&a, Join, 0, generation(7))), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.resume(&a, 7)), (Pending, 7, 0, 0), "late");
    assert_eq!(told(&plane.ask(&c, Join, 0, generation(7))), (Ok, 7, 0, 0));
}

/// It would be the worst of all to tell everybody to go, and then to lose, one after the other, those whose
/// operations fail and who therefore begin new sessions.
#[test]
fn whoever_cannot_go_on_hears_so_at_once() {
    let (mut plane, workers) = survivors(4);
    let [a, b, c, d] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.resume(&a, 7)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.ask(&b, Join, 0, generation(7))), (Pending, 7, 0, 0));
    for _ in 0..2 {
        assert_eq!(told(&plane.resume(&a, 7)), (Ok, 7, 0, 0), "when it asks again, and if that gets lost");
        assert_eq!(told(&plane.resume(&c, 7)), (Ok, 7, 0, 0));
    }
    assert_eq!(plane.members(JOB), [1]);
    // One of them goes on from nothing, the other begins a new session: nobody has to begin twice.
    let (a, b) = (Worker { epoch: 7, ..a }, Worker { epoch: 7, ..b });
    assert_eq!(told(&plane.heartbeat(&a)), (Pending, 7, 0, 0));
    let _ = plane.join(&b);
    assert_eq!(plane.pass(Duration::from_secs(2)), Elapsed::default());
    let _ = (plane.join(&b), plane.heartbeat(&a));
    assert_eq!(plane.pass(Duration::from_secs(2)), Elapsed::default());
    assert_eq!(plane.members(JOB), [0, 1]);
    let newer = Worker { session: 2000, epoch: 7, ..c };
    assert_eq!(told(&plane.join(&newer)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.resume(&c, 7)).0, StaleSession);
    assert_eq!(told(&plane.ask(&d, Join, 0, generation(7))), (Ok, 7, 0, 0));
    assert!(plane.status().complete);
}

/// Holds R9.8 of protocol.md.
#[test]
fn those_who_come_from_different_generations_start_from_nothing() {
    let (mut plane, workers) = survivors(2);
    let _ = plane.resume(&workers[0], 7);
    assert_eq!(told(&plane.resume(&Worker { epoch: 201, ..workers[1] }, 7)), (Ok, 7, 0, 0));
}

/// The appliance was started anew twice: rank 0 has heard of the first time, the others have not, or have
/// done something in it.
#[test]
fn whoever_names_two_generations_goes_on_with_the_one_that_all_can() {
    let both = either(220, 200);
    for (first, others, agreed) in
        [(both, 200, 200), (both, 220, 220), (u64::from(generation(200)), 200, 200)]
    {
        let (mut plane, workers) = survivors(3);
        let [a, b, c] = workers[..] else { unreachable!() };
        let named = generation(7);
        assert_eq!(told(&plane.ask(&b, Join, generation(others), named)), (Pending, 7, 0, 0));
        assert_eq!(told(&plane.ask(&a, Join, first, named)), (Pending, 7, 0, 0));
        assert_eq!(told(&plane.ask(&c, Join, both, named)), (Ok, 7, generation(agreed), 0));
        assert_eq!(told(&plane.ask(&a, Join, first, named)), (Ok, 7, generation(agreed), 0));
    }
    // Two and two are not always one that all have.
    let (mut plane, workers) = survivors(3);
    let claims = [both, either(230, 220), either(230, 200)];
    for (worker, claim) in workers.iter().zip(&claims).take(2) {
        assert_eq!(told(&plane.ask(worker, Join, *claim, generation(7))), (Pending, 7, 0, 0));
    }
    assert_eq!(told(&plane.ask(&workers[2], Join, claims[2], generation(7))), (Ok, 7, 0, 0), "from nothing");
}

/// A Join of a worker that knew nothing yet arrives before the one by which it goes on, or after.
#[test]
fn a_claim_stands_whatever_older_joins_say() {
    let (mut plane, workers) = survivors(2);
    let [a, b] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.ask(&a, Join, 0, 0)), (Pending, 7, 0, 0));
    let _ = plane.resume(&a, 7);
    assert_eq!(told(&plane.ask(&a, Join, 0, 0)), (Pending, 7, 0, 0));
    assert_eq!(told(&plane.resume(&b, 7)), (Ok, 7, generation(200), 0));
    // What is complete does not change any more, but for somebody who has been elsewhere since.
    assert_eq!(told(&plane.ask(&b, Join, generation(9), generation(6))), (WrongEpoch, 7, 7, 6));
    assert_eq!(told(&plane.ask(&b, Join, either(7, 200), generation(7))), (Ok, 7, generation(200), 0));
}

/// The claim by which a member completes the generation comes after a Join of its own that knew nothing yet.
/// The window that lcores have until then is closed.
#[test]
fn lcores_hear_of_a_generation_that_a_members_claim_completes() {
    let (mut plane, workers) = survivors(2);
    let [a, b] = workers[..] else { unreachable!() };
    let _ = plane.resume(&a, 7);
    assert_eq!(told(&plane.ask(&b, Join, 0, 0)), (Pending, 7, 0, 0));
    let answer = plane.resume(&b, 7);
    assert_eq!((told(&answer), answer.changed), ((Ok, 7, generation(200), 0), true));
}

/// The Join by which a rank had wanted to go on is late, and the numbers of its Joins do not show that.
#[test]
fn whoever_has_begun_from_nothing_does_not_go_on_with_the_generation_before() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    let anew = Worker { session: 2000, ..a };
    assert_eq!(told(&plane.join(&anew)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Ok, 8, 0, 0), "sent off");
    assert_eq!(told(&plane.ask(&b, Join, 0, generation(8))), (Ok, 8, 0, 0));
    let late = plane.resume(&b, 8);
    assert_eq!((told(&late), late.changed), ((Ok, 8, 0, 0), false));
    assert_eq!((plane.members(JOB), plane.status().complete), (vec![0, 1], true));
}

/// Another appliance has stood in for this one, which was not heard of for a while and has forgotten nothing.
#[test]
fn those_who_come_back_from_a_backup_go_on_with_what_they_had_there() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    let [a, b, c] = workers[..] else { unreachable!() };
    let there = |worker: Worker| Worker { epoch: 90, ..worker };
    assert_eq!(told(&plane.ask(&there(a), Join, either(90, 7), generation(7))), (Pending, 8, 0, 0));
    // One of them has not been told to go there, and was here all the time.
    assert_eq!(told(&plane.heartbeat(&b)), (WrongEpoch, 8, 8, 7));
    assert_eq!(told(&plane.ask(&b, Join, generation(7), generation(8))), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.ask(&there(c), Join, either(90, 7), generation(8))), (Ok, 8, generation(7), 0));
    // And once more, with what they have in common then.
    for (worker, decided) in [(a, Pending), (b, Pending), (c, Ok)] {
        let resumed = if decided == Ok { generation(91) } else { 0 };
        let told =
            told(&plane.ask(&worker, Join, generation(91), generation(if worker.rank == 0 { 8 } else { 9 })));
        assert_eq!(told, (decided, 9, resumed, 0), "rank {}", worker.rank);
    }
}

#[test]
fn who_had_left_is_needed_again_when_somebody_comes_back_from_a_backup() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.ask(&b, Leave, 0, 0)).0, Pending);
    assert_eq!(told(&plane.ask(&a, Join, either(90, 7), generation(7))), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.ask(&b, Leave, 0, 0)).0, WrongEpoch, "not over");
    assert_eq!(told(&plane.ask(&b, Join, generation(7), generation(8))), (Ok, 8, generation(7), 0));
}

/// Holds R10.9 of protocol.md.
#[test]
fn a_generation_never_bears_the_number_of_one_that_it_goes_on_with() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    let [a, b] = ranks(2)[..] else { unreachable!() };
    assert_eq!(told(&plane.ask(&a, Join, generation(7), generation(7))), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.ask(&b, Join, generation(7), generation(8))), (Ok, 8, generation(7), 0));
}

/// Holds R9.9 of protocol.md.
#[test]
fn nobody_goes_on_with_what_was_reset() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    assert_eq!(told(&plane.ask(&a, Reset, 0, 0)), (Ok, 8, 0, 0));
    assert_eq!(told(&plane.resume(&a, 8)), (Ok, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Ok, 8, 0, 0));
    // Not even later: rank 0 starts anew, and rank 1 has not heard of anything.
    let newer = Worker { session: 2000, ..a };
    assert_eq!(told(&plane.ask(&newer, Join, generation(7), generation(8))), (Ok, 8, 0, 0));
    assert_eq!(told(&plane.ask(&newer, Join, 0, generation(8))), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.resume(&b, 8)), (Ok, 8, 0, 0));
}

#[test]
fn the_number_of_a_reset_generation_is_good_again_once_it_means_another() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 1));
    let mut worker = workers[0];
    let _ = plane.ask(&worker, Reset, 0, 0);
    for _ in 0..1 << 16 {
        worker.session += 1;
        worker.epoch = plane.ask(&worker, Join, 0, 0).header.epoch;
    }
    assert_eq!(worker.epoch, 7);
    // From elsewhere, so that it is a new generation, and all of them come from the one before.
    let moved = Worker { udp_port: 9, ..worker };
    assert_eq!(told(&plane.resume(&moved, 7)), (Ok, 8, generation(7), 0));
}

/// Its Leave is from before the appliance was started anew; others may still need what it has kept.
#[test]
fn a_rank_that_was_leaving_can_go_on_and_leave_then() {
    let (mut plane, workers) = survivors(2);
    let [a, b] = workers[..] else { unreachable!() };
    plane.refuses(&a, Leave, NotMember, 0, 0);
    assert_eq!(told(&plane.resume(&a, 7)), (Pending, 7, 0, 0));
    // The same Leave once more, late: the session goes on.
    plane.refuses(&a, Leave, WrongEpoch, 7, 200);
    assert_eq!(told(&plane.resume(&b, 7)), (Ok, 7, generation(200), 0));
    plane.refuses(&a, Leave, WrongEpoch, 7, 200);
    plane.expect(&Worker { epoch: 7, ..a }, Leave, (Pending, 7, 1, false));
    plane.refuses_values(&a, Join, (generation(200), generation(7)), (StaleSession, 0, 0));
    plane.expect(&Worker { epoch: 7, ..b }, Leave, (Ok, 7, 0, true));
}

#[test]
fn a_host_that_moves_ends_the_generation_and_all_go_on() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    let moved = Worker { udp_port: 6, ..a };
    assert_eq!(told(&plane.resume(&moved, 7)), (Pending, 8, 0, 0));
    assert_eq!(told(&plane.heartbeat(&b)), (WrongEpoch, 8, 8, 7));
    assert_eq!(told(&plane.resume(&b, 8)), (Ok, 8, generation(7), 0));
    assert!(plane.pass(millis(1)).events.is_empty());
}
