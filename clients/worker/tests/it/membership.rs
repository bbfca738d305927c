//! The handshakes.

use std::time::Duration;

use pascaline_wire::asking::{FIRST_INTERVAL, LAST_INTERVAL};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind};
use pascaline_worker::{Identity, Join, JoinFailure, Membership, Obstacle, Reason, Rejection, Unreachable};

use crate::aggregator::{bitmap_trailer, packet};

const IDENTITY: Identity = Identity { job: 1, rank: 2, ranks: 3, payload: 1024 };
const MEMBERSHIP: Membership = Membership {
    identity: IDENTITY,
    flexible: false,
    session: 55,
    requests: 0,
    epoch: 6,
    spread: 512,
    base: 0,
    cookie: 0,
    congestion: None,
    group: None,
    workers: 0,
};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn join() -> Join {
    Join::new(IDENTITY, 55, 512, ms(1000), ms(2000))
}

/// A worker that has sent its first request.
fn asking() -> Join {
    let mut join = join();
    assert!(join.poll_transmit(ms(1000)).is_some());
    join
}

/// An Ack to the first request.
fn ack(change: impl FnOnce(&mut Header, &mut Control)) -> Vec<u8> {
    let mut header = Header { rank: 2, fan_in: 3, ..Header::about(Kind::Control, Element::F32_SUM, 1, 6) };
    let mut control = Control {
        answers: Some(Action::Join),
        number: 1,
        joined: 3,
        payload: 1024,
        window: 256,
        ..Control::request(Action::Ack, 55)
    };
    change(&mut header, &mut control);
    packet(&header, &control.to_bytes())
}

#[test]
fn the_request_says_who_joins() {
    let mut join = join();
    let (header, body) = Header::parse(join.poll_transmit(ms(1000)).unwrap()).unwrap();
    assert_eq!((header.kind, header.job, header.rank, header.fan_in), (Kind::Control, 1, 2, 3));
    assert_eq!((header.epoch, header.count, header.psn), (0, 0, 0));
    let join = Control::request(Action::Join, 55);
    let expected = Control { number: 1, payload: 1024, window: 512, got: control::ASK, ..join };
    assert_eq!(Control::parse(body), Ok(expected));
}

fn got(request: &[u8]) -> u32 {
    Control::parse(Header::parse(request).unwrap().1).unwrap().got
}

#[test]
fn a_join_names_the_generation_of_the_latest_ack() {
    let mut join = join();
    assert_eq!(got(join.poll_transmit(ms(1000)).unwrap()), control::ASK);
    assert_eq!(join.poll_transmit(ms(1001)), None);
    let pending = |number, epoch| {
        ack(|header, ack| {
            (ack.number, header.epoch) = (number, epoch);
            // Of the generation before: packets that the others sent then do not count.
            (ack.status, ack.payload) = (Status::Pending, 512);
        })
    };
    // At once, and then only when it is due.
    assert_eq!(join.handle_datagram(&pending(1, 6)), None);
    assert_eq!(got(join.poll_transmit(ms(1001)).unwrap()), control::generation(6));
    assert_eq!(join.handle_datagram(&pending(2, 6)), None);
    assert_eq!(join.poll_transmit(ms(1002)), None);
    // The job has gone on meanwhile.
    let wrong = ack(|header, ack| {
        (ack.number, header.epoch) = (2, 8);
        (ack.status, ack.payload, ack.window) = (Status::WrongEpoch, 0, 0);
    });
    assert_eq!(join.handle_datagram(&wrong), None);
    assert_eq!(got(join.poll_transmit(ms(1003)).unwrap()), control::generation(8));
    // To the Join that named the generation before.
    assert_eq!(join.handle_datagram(&ack(|_, ack| ack.number = 2)), None);
    let throttled = ack(|_, ack| (ack.number, ack.status) = (3, Status::TooMany));
    assert_eq!(join.handle_datagram(&throttled), None);
    assert_eq!(join.poll_transmit(ms(1004)), None);
}

#[test]
fn it_asks_less_and_less_often_until_the_deadline() {
    let mut join = join();
    let mut times = Vec::new();
    let failure = loop {
        let now = join.poll_timeout();
        if let Some(failure) = join.handle_timeout(now) {
            break failure;
        }
        assert!(join.poll_transmit(now).is_some());
        assert_eq!(join.poll_transmit(now), None);
        times.push(now);
    };
    assert_eq!(failure, JoinFailure::NoAnswer { waited: ms(2000), appliance: None, report: None });
    assert_eq!(times[0], ms(1000));
    assert_eq!(times[1] - times[0], FIRST_INTERVAL);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= LAST_INTERVAL));
    assert_eq!(times[19] - times[18], LAST_INTERVAL);
}

#[test]
fn a_user_who_waits_is_told_for_how_long() {
    let mut join = asking();
    assert_eq!(join.stalled(ms(1100)), None);
    let told = JoinFailure::NoAnswer { waited: ms(1990), appliance: None, report: None };
    assert_eq!(join.stalled(ms(2990)), Some(told), "since it began, at 1 s");
    assert_eq!(join.stalled(ms(2995)), None, "once");
}

#[test]
fn refusals_end_the_wait_for_others_unless_there_are_answers() {
    let refused = Unreachable { obstacle: Obstacle::NothingListens, by: None };
    let mut join = asking();
    let mut number = 1;
    let answer = |join: &mut Join, number: u32| {
        let pending = ack(|_, ack| (ack.number, ack.joined, ack.status) = (number, 2, Status::Pending));
        assert_eq!(join.handle_datagram(&pending), None);
    };
    answer(&mut join, number);
    // Refusals are forged, and the appliance goes on answering.
    while join.poll_timeout() < ms(2600) {
        let now = join.poll_timeout();
        join.note_unreachable(now, refused);
        assert_eq!(join.handle_timeout(now), None);
        let asked = join.poll_transmit(now).map(|request| Header::parse(request).unwrap().1);
        number = asked.map_or(number, |body| Control::parse(body).unwrap().number);
        answer(&mut join, number);
    }
    // It is gone, and its host says so, long before the deadline.
    let mut patient = Join::new(IDENTITY, 55, 512, ms(1000), ms(60_000));
    assert!(patient.poll_transmit(ms(1000)).is_some());
    answer(&mut patient, 1);
    patient.note_unreachable(ms(1100), refused);
    assert_eq!(patient.handle_timeout(ms(2599)), None);
    let told = JoinFailure::NoAnswer { waited: ms(1500), appliance: None, report: Some(refused) };
    assert_eq!(patient.handle_timeout(ms(2600)), Some(told));
}

#[test]
fn pending_keeps_asking_and_ok_admits() {
    let mut join = asking();
    let pending = ack(|_, ack| (ack.joined, ack.status) = (2, Status::Pending));
    assert_eq!(join.handle_datagram(&pending), None);
    assert_eq!(join.joined(), Some(2));
    let incomplete = JoinFailure::Incomplete { joined: 2, ranks: 3, waited: ms(2000), missing: None };
    assert_eq!(join.handle_timeout(ms(3000)).as_ref(), Some(&incomplete));
    assert_eq!(incomplete.to_string(), "only 2 of 3 ranks had joined after 2.0s");
    // To a Join that has not been sent: another's, damaged on its way.
    for number in [2, 1000, u32::MAX / 2] {
        assert_eq!(join.handle_datagram(&ack(|header, _| header.psn = number)), None);
    }
    assert!(join.poll_transmit(ms(1000)).is_some(), "at once, with the generation that it has heard of");
    let admitted = join.handle_datagram(&ack(|_, ack| ack.number = 2));
    assert_eq!(admitted, Some(Ok(Membership { requests: 2, spread: 256, ..MEMBERSHIP })));
}

/// Holds R9.7 and R9.13 of protocol.md.
#[test]
fn what_is_no_answer_to_this_request_is_ignored() {
    let foreign: [fn(&mut Header, &mut Control); 8] = [
        |header, _| header.job = 2,
        |header, _| header.rank = 1,
        |header, ack| (header.rank, ack.status) = (105, Status::RankOutOfRange),
        |header, _| header.kind = Kind::Result,
        |_, ack| ack.session = 54,
        |_, ack| ack.answers = Some(Action::Leave),
        |_, ack| ack.answers = None,
        |_, ack| ack.action = Action::Halt,
    ];
    for (number, change) in foreign.into_iter().enumerate() {
        assert_eq!(asking().handle_datagram(&ack(change)), None, "{number}");
    }
    assert_eq!(asking().handle_datagram(&ack(|_, _| {})[..45]), None);
}

#[test]
fn each_refusal_gives_its_error() {
    let refusals = [
        (Status::UnknownJob, "the appliance has no job 1"),
        (Status::RankOutOfRange, "rank 2 is out of range: the appliance's job 1 has 4 ranks, 0 to 3"),
        (Status::FanInMismatch, "the appliance's job 1 has 4 ranks, this worker was started with 3"),
        (Status::SourceRefused, "the appliance's job 1 does not admit rank 2 from this source address"),
        (Status::StaleSession, "another worker has taken the place of rank 2 in job 1, or this one has left"),
        (Status::NotMember, "rank 2 is not a member of the appliance's job 1: it must join (again)"),
        (
            Status::PayloadMismatch,
            "job 1 takes 4 payload bytes a packet, as its other ranks send, or as the appliance's ports \
             allow; rank 2 was started with 3: give every rank 4",
        ),
        (Status::ElementMismatch, "the other ranks of job 1 call sum of bf16, rank 2 calls sum of f16"),
        (Status::Unsupported, "the appliance does not support this request of job 1"),
        (
            Status::RankLost,
            "4 ranks of job 1 have died, the first of them rank 0: silent for longer than the job's \
             `dead_after`, or removed by an operator",
        ),
        (Status::Quota, "the appliance's quotas leave no room for job 1: 3 wanted, 4 left"),
        (
            Status::Objective,
            "the appliance does not admit job 1: the objective of [admission] verify in its configuration \
             would not be met",
        ),
        (
            Status::Halted,
            "job 1 is suspended, by a Halt of one of its members or of an operator: it resumes after \
             `pascaline job reset 1` at the appliance",
        ),
        (
            Status::RankTaken,
            "another worker, which is alive, is rank 2 of job 1: end it, or give this one another rank",
        ),
        (
            Status::Overtaken,
            "the others have continued without rank 2, further than job 1 keeps results: a larger `window` \
             keeps more of them, a higher `threshold` or a longer `partial_after` keeps ranks together",
        ),
        (Status::RankLeft, "job 1 cannot complete this operation: a rank has left before it was complete"),
        (Status::OperationMismatch, "the ranks of job 1 call different operations"),
        (Status::UnknownPsn, "the appliance does not hold the requested PSN of job 1"),
        (
            Status::RankSpoofed,
            "packets of rank 2 in job 1 do not come from the address with which that rank joined",
        ),
    ];
    each_gives(&refusals);
}

#[test]
fn a_host_that_has_too_many_is_told_so() {
    each_gives(&[
        (
            Status::JobsOfHost,
            "this host has formed 3 jobs, 4 at a time are allowed: end one of them, or \
             raise `max_jobs_per_host` in [admission] of the appliance's configuration",
        ),
        (
            Status::RanksOfHost,
            "rank 2 of job 1 may not be on this host, which has 3 others of the job, 4 at most: start it \
             elsewhere, or raise the job's `max_ranks_per_host` in the appliance's configuration",
        ),
    ]);
}

fn each_gives(refusals: &[(Status, &str)]) {
    for &(status, message) in refusals {
        let refused = ack(|_, ack| {
            let got = if status == Status::RankLost { 0 } else { 3 };
            (ack.status, ack.expected, ack.got, ack.window) = (status, 4, got, 0);
        });
        let Some(Err(failure @ JoinFailure::Rejected(_))) = asking().handle_datagram(&refused) else {
            panic!("{status:?}")
        };
        assert_eq!(failure.to_string(), message);
    }
}

#[test]
fn grants_that_cannot_work_are_errors() {
    assert_eq!(asking().handle_datagram(&ack(|_, ack| ack.window = 0)), Some(Err(JoinFailure::NoWindow)));
    let rejection = Rejection { job: 1, rank: 2, expected: 512, got: 1024, reason: Reason::Payload };
    assert_eq!(asking().handle_datagram(&ack(|_, ack| ack.payload = 512)), Some(Err(rejection.into())));
}

#[test]
fn all_ranks_that_have_died_are_named() {
    let lost = |ranks: &[u16]| {
        let mut refused = ack(|header, ack| {
            header.flags = Flags::TRAILER;
            ack.status = Status::RankLost;
            ack.expected = u32::try_from(ranks.len()).unwrap();
            ack.got = u32::from(ranks[0]);
        });
        refused.extend(bitmap_trailer(3, ranks.iter().copied()));
        let Some(Err(JoinFailure::Rejected(rejection))) = asking().handle_datagram(&refused) else {
            panic!()
        };
        rejection
    };
    let both = lost(&[0, 1]);
    let ranks = Box::new([0, 1].into_iter().collect());
    assert_eq!((&both.reason, both.expected), (&Reason::RanksLost(ranks), 2));
    assert_eq!(
        both.to_string(),
        "ranks 0, 1 of job 1 have died: silent for longer than the job's `dead_after`, or removed by \
         an operator"
    );
    assert_eq!(
        lost(&[1]).to_string(),
        "rank 1 of job 1 has died: silent for longer than the job's `dead_after`, or removed by an \
         operator"
    );
    assert_eq!((lost(&[2]).reason, lost(&[2]).rank), (Reason::TakenForDead, 2));
}
