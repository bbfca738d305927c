//! What strangers, ghosts and ranks that disagree can and cannot do.

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{JobSpec, Secret, ServerMode};
use pascaline_telemetry::Moment;
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::control::Action::{Halt, Join, Leave, Query, Reset, Serve, SetH};
use pascaline_wire::control::SERVER_RANK;
use pascaline_wire::control::Status::{Ok, OperationMismatch, Pending, RankTaken, TooMany};
use pascaline_wire::frame::Address;
use pascaline_wire::{Call, Collective, Element};

use super::plane::{FIRST, Plane, lcores, millis, ranks, request, secs, served};

/// Holds R9.2 of protocol.md.
#[test]
fn a_join_of_a_stranger_does_not_end_a_running_job() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let address = Address::from_v4([10, 77, 0, 200]);
    let stranger = Worker { session: u64::MAX, address, ..workers[1] };
    let mut last = Pending;
    for _ in 0..10 {
        for worker in &workers {
            assert_eq!(plane.ask(worker, Join, 0, 0).control.status, Ok);
        }
        let answer = plane.ask(&stranger, Join, 0, 0);
        assert_eq!((answer.header.epoch, answer.control.psn, answer.changed), (0, 0, false), "told nothing");
        last = if last == RankTaken { last } else { answer.control.status };
        let _ = plane.pass(millis(100));
    }
    assert_eq!((last, plane.status().epoch, plane.status().joined), (RankTaken, FIRST, 2));
}

/// A job of two whose members have proved where they are, in a generation that begins with this number.
fn formed(first: u16, server: ServerMode) -> (Membership, Vec<Worker>) {
    let (spec, mut workers) = (served(server, 2), ranks(2));
    let mut membership = Membership::new(vec![spec], Secret::new([7; 16]), first);
    for worker in workers.iter_mut().chain(&mut ranks(2)) {
        let mut join = request(worker, Join, 0, 0);
        join.control.cookie = membership.handle(secs(1), &join).unwrap().control.cookie;
        worker.epoch = membership.handle(secs(1), &join).unwrap().header.epoch;
    }
    assert!(membership.status()[0].complete);
    (membership, workers)
}

/// Whatever somebody asks who has not joined, and guesses: what is said in one generation is said in every
/// other.
/// Holds R14.2 of protocol.md.
#[test]
fn no_answer_to_a_stranger_tells_the_generation() {
    let host = Address::from_v4([10, 77, 0, 200]);
    let server = || ServerMode::External { address: Address::from_v4([10, 77, 0, 9]), udp_port: 9 };
    let [mut one, mut other] = [7, 8].map(|first| formed(first, server()).0);
    let mut refused = 0;
    for action in [Join, Leave, Reset, SetH, Halt, Query, Serve] {
        for (rank, fan_in, epoch) in
            [(0, 2, 7), (0, 2, 8), (1, 2, 7), (2, 2, 7), (0, 3, 8), (SERVER_RANK, 0, 7)]
        {
            for (address, session) in [(host, 5), (host, 1000), (Worker::new(0, 2).address, 5)] {
                let stranger = Worker { address, session, rank, epoch, fan_in, ..Worker::new(1, 2) };
                // Until it is told that it asks too often, and beyond.
                for number in 0..30 {
                    let mut asked = request(&stranger, action, 0, 0);
                    asked.control.cookie = 0;
                    let mut told = [&mut one, &mut other].map(|plane| plane.handle(secs(2), &asked));
                    told.iter_mut().flatten().for_each(|told| told.control.cookie = 0);
                    assert_eq!(told[0], told[1], "{action:?} {number} {stranger:?}");
                    let answer = told[0].iter();
                    refused += answer.filter(|told| told.control.status == TooMany).count();
                }
            }
        }
    }
    assert!(refused > 0);
}

/// What is hidden from strangers is not from those who need it.
#[test]
fn members_and_servers_are_told_the_generation() {
    let at = (Address::from_v4([10, 77, 0, 9]), 9);
    let (mut membership, workers) = formed(7, ServerMode::External { address: at.0, udp_port: at.1 });
    let mut epoch = |worker: &Worker, action| {
        let mut asked = request(worker, action, 0, 0);
        asked.control.cookie = 0;
        membership.handle(secs(3), &asked).unwrap().header.epoch
    };
    let server = Worker { rank: SERVER_RANK, fan_in: 0, address: at.0, udp_port: at.1, ..workers[0] };
    assert_eq!(epoch(&server, Serve), 7);
    assert_eq!(epoch(&workers[0], Halt), 7);
    assert_eq!(epoch(&workers[0], Reset), 8);
    assert_eq!(epoch(&workers[1], Leave), 8, "no member of this generation any more");
    assert_eq!(epoch(&workers[1], SetH), 8);
}

#[test]
fn a_worker_that_was_killed_and_starts_again_has_its_rank_back_within_two_seconds() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let again = Worker { session: 1, udp_port: 7, ..workers[1] };
    let began = plane.now;
    while plane.ask(&again, Join, 0, 0).header.epoch != FIRST + 1 {
        let _ = plane.pass(millis(100));
        assert!(plane.now - began < secs(2));
    }
}

/// Its requests may be lost, or answered to somebody else: what it contributes says that it is alive.
#[test]
fn an_appliance_that_contributes_does_not_lose_its_rank() {
    let membership = Membership::new(vec![JobSpec::new(JOB, 2)], Secret::NONE, FIRST).counted_by(1);
    let (mut plane, mut workers) = (Plane { membership, now: secs(1000) }, ranks(2));
    let appliance = |worker: &Worker| {
        let mut join = request(worker, Join, 0, 0);
        join.control.workers = 3;
        join
    };
    let join = appliance(&workers[1]);
    assert_eq!(plane.membership.handle(plane.now, &join).unwrap().control.status, Pending);
    workers[0].epoch = FIRST;
    assert_eq!(plane.join(&workers[0]).control.status, Ok);
    let newcomer = appliance(&Worker { session: 5, udp_port: 7, ..workers[1] });
    let cells = plane.membership.counts_of(JOB).unwrap();
    let ask = |plane: &mut Plane, sends: bool| {
        let moment = Moment::at(lcores(plane.now));
        assert!(!sends || cells.ranks_of(0).heard(1, 40, moment));
        let _ = plane.heartbeat(&workers[0]);
        let _ = plane.pass(millis(90));
        let before = plane.status().epoch;
        let _ = plane.membership.handle(plane.now, &newcomer).unwrap();
        plane.status().epoch != before
    };
    assert!((0..50).all(|_| !ask(&mut plane, true)), "it sends");
    assert!((0..10).any(|_| ask(&mut plane, false)), "it is silent");
}

#[test]
fn a_worker_that_starts_again_a_second_time_is_not_taken_for_the_first_one() {
    let (mut plane, workers) = (Plane::new(JobSpec::new(JOB, 2)), ranks(2));
    let again = |life: u16| Worker { session: life.into(), udp_port: 100 + life, ..workers[1] };
    let _ = plane.ask(&workers[1], Join, 0, 0);
    let _ = plane.pass(millis(2900));
    assert_eq!(plane.ask(&again(1), Join, 0, 0).header.epoch, 0, "the member may still live");
    // It is given up before the newcomer has waited for long.
    let _ = plane.pass(millis(200));
    for _ in 0..7 {
        assert_eq!(plane.ask(&again(1), Join, 0, 0).header.epoch, FIRST, "a member");
        let _ = plane.pass(millis(100));
    }
    assert_eq!(plane.ask(&again(2), Join, 0, 0).control.status, Pending);
}

#[test]
fn that_the_others_have_come_is_no_sign_of_life_of_one_that_was_killed() {
    let (mut plane, workers) = (Plane::new(JobSpec::new(JOB, 2)), ranks(2));
    let _ = plane.ask(&workers[1], Join, 0, 0);
    let again = Worker { session: 1, udp_port: 7, ..workers[1] };
    let began = plane.now;
    loop {
        let answer = plane.ask(&again, Join, 0, 0);
        assert_ne!(answer.control.status, RankTaken);
        if answer.header.epoch == FIRST + 1 {
            break;
        }
        let _ = plane.pass(millis(100));
        if plane.now - began > millis(700) && plane.status().joined == 1 {
            let _ = plane.ask(&workers[0], Join, 0, 0);
        }
        assert!(plane.now - began < secs(3));
    }
}

#[test]
fn a_rank_whose_worker_had_a_larger_session_is_free_once_it_has_left() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 1));
    plane.expect(&workers[0], Leave, (Ok, FIRST, 0, true));
    plane.expect(&Worker { session: 1, ..workers[0] }, Join, (Ok, FIRST + 1, 1, true));
}

/// Workers of Python and C say between operations that they are alive: they wait for nothing that the rank
/// could spoil which has left. Whoever is inside an operation ends it first.
#[test]
fn a_rank_that_has_left_comes_back_while_the_others_are_idle() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    plane.expect(&b, Leave, (Pending, FIRST, 1, false));
    assert_eq!(plane.heartbeat(&a).control.status, Ok);
    let anew = Worker { session: 2000, ..b };
    let answer = plane.join(&anew);
    assert_eq!((answer.control.status, answer.changed), (Pending, false));
    let _ = plane.join(&a);
    plane.expect(&anew, Join, (Pending, FIRST + 1, 1, true));
}

/// Holds R9.2 of protocol.md.
#[test]
fn without_the_cookie_of_its_address_a_join_changes_nothing() {
    let secret = Secret::new([7; 16]);
    let mut membership = Membership::new(vec![JobSpec::new(JOB, 1)], secret, FIRST);
    let worker = Worker::new(0, 1);
    let mut join = request(&worker, Join, 0, 0);
    let answer = membership.handle(secs(1), &join).unwrap();
    assert_eq!((answer.control.status, answer.changed, membership.status()[0].joined), (Pending, false, 0));
    // Somebody else's is none.
    let mut other = request(&Worker { udp_port: 9, ..worker }, Join, 0, 0);
    other.control.cookie = answer.control.cookie;
    assert_eq!(membership.handle(secs(1), &other).unwrap().control.status, Pending);
    join.control.cookie = answer.control.cookie;
    assert_eq!(membership.handle(secs(1), &join).unwrap().control.status, Ok);
}

/// It was long on its way, and its sender has been started anew since.
#[test]
fn a_join_of_an_earlier_life_does_not_take_the_rank_from_a_later_one() {
    let mut membership = Membership::new(vec![JobSpec::new(JOB, 1)], Secret::new([7; 16]), FIRST);
    let ask = |membership: &mut Membership, worker: &Worker, cookie: u64| {
        let mut join = request(worker, Join, 0, 0);
        join.control.cookie = cookie;
        let answer = membership.handle(secs(1), &join).unwrap().control;
        (answer.status, answer.cookie)
    };
    let earlier = Worker::new(0, 1);
    let later = Worker { session: 2000, ..earlier };
    let (_, old) = ask(&mut membership, &earlier, 0);
    let (_, cookie) = ask(&mut membership, &later, 0);
    assert_eq!(ask(&mut membership, &later, cookie), (Ok, cookie));
    let (status, new) = ask(&mut membership, &earlier, old);
    assert_eq!(status, Pending);
    assert_eq!(membership.status()[0].epoch, FIRST);
    // Whoever is alive learns what counts now.
    assert_eq!(ask(&mut membership, &earlier, new).0, Ok);
    assert_eq!(membership.status()[0].epoch, FIRST + 1);
}

#[test]
fn ghosts_of_a_failed_run_do_not_fail_the_next_one() {
    let mut plane = Plane::new(JobSpec { dead_after: None, ..JobSpec::new(JOB, 4) });
    for ghost in &ranks(4)[..3] {
        let _ = plane.ask(ghost, Join, 0, 0);
    }
    let _ = plane.pass(millis(3100));
    assert_eq!(plane.status().joined, 0);
    let mut next = ranks(4);
    next.iter_mut().for_each(|worker| (worker.session, worker.udp_port) = (5, worker.udp_port + 100));
    plane.form(&mut next);
}

#[test]
fn ranks_that_call_different_operations_are_all_told_which_differs() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    let mut told = Vec::new();
    for _ in 0..2 {
        told.clear();
        for worker in &workers {
            plane.now += millis(10);
            let mut heartbeat = request(worker, Join, 0, 0);
            heartbeat.control.element = Some(Element::F32_SUM);
            heartbeat.control.bytes = if worker.rank == 1 { 1_048_580 } else { 1_048_576 };
            told.push(plane.membership.handle(plane.now, &heartbeat).unwrap());
        }
    }
    for answer in &told {
        let called = answer.operations.unwrap();
        assert_eq!((answer.control.status, called.differing.rank), (OperationMismatch, 1));
        assert_eq!((called.most.bytes, called.differing.bytes), (1_048_576, 1_048_580));
    }
}

#[test]
fn ranks_that_name_different_roots_or_collectives_are_told_so() {
    let broadcast = |root| (Call { collective: Collective::Broadcast, argument: root }, 1024);
    let barrier = (Call { collective: Collective::Barrier, argument: 0 }, 0);
    for (one, other) in [(broadcast(0), broadcast(1)), (broadcast(2), barrier)] {
        let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
        let mut last = None;
        for worker in workers.iter().chain(&workers) {
            let mut heartbeat = request(worker, Join, 0, 0);
            heartbeat.control.element = Some(Element::F32_SUM);
            let called = if worker.rank == 0 { one } else { other };
            (heartbeat.control.call, heartbeat.control.bytes) = called;
            last = plane.membership.handle(plane.now, &heartbeat);
        }
        let operations = last.unwrap().operations.unwrap();
        assert_eq!((operations.most.call, operations.differing.call), (one.0, other.0));
    }
}
