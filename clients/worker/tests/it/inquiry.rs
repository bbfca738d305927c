//! A worker whose operation is stalled asks who is missing, and its error says so.

use std::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::trailer::{self, RankReport, RankReports, RankState};
use pascaline_wire::{Element, Flags, Header, Kind, Trailer};
use pascaline_worker::inquiry::STALLED;
use pascaline_worker::{Event, Failure, Join, JoinFailure, Session};

use crate::datagrams::{FIRST, IDENTITY, MEMBERSHIP};

const DEADLINE: Duration = Duration::from_secs(9);

/// The answer to a Query, as it was sent.
fn answer(sent: &[u8], status: Status, ahead: u32, reports: &[RankReport]) -> Vec<u8> {
    let (header, body) = Header::parse(sent).unwrap();
    let query = Control::parse(body).unwrap();
    let flags = if reports.is_empty() { Flags::NONE } else { Flags::TRAILER };
    let ack = Control {
        status,
        answers: Some(query.action),
        number: query.number,
        psn: query.psn,
        got: ahead,
        ..Control::request(Action::Ack, query.session)
    };
    let mut datagram = Header { flags, ..header }.to_bytes().to_vec();
    datagram.extend(ack.to_bytes());
    let mut ranks = RankReports::EMPTY;
    assert!(reports.iter().all(|report| ranks.push(*report)));
    if !reports.is_empty() {
        let mut out = [0; trailer::RANKS_LEN];
        let len = Trailer { ranks: Some(ranks), ..Trailer::default() }.emit(&mut out).unwrap();
        datagram.extend(&out[..len]);
    }
    datagram
}

/// Runs a session whose contributions get no answer until it fails, and answers its queries.
fn starved(status: Status, ahead: u32, reports: &[RankReport]) -> (Failure, Vec<(Duration, u32)>) {
    let mut session = Session::new(MEMBERSHIP, 4);
    session.start(Duration::ZERO, 64, Element::I32_SUM, DEADLINE).unwrap();
    let mut asked = Vec::new();
    let mut tensor = [0; 64];
    loop {
        let now = session.poll_timeout().unwrap();
        if let Some(Event::Failed(failure)) = session.handle_timeout(now) {
            return (failure, asked);
        }
        while let Some(packet) = session.poll_transmit(now) {
            let datagram = [&packet.header, session.payload(&packet, &tensor)].concat();
            let (header, body) = Header::parse(&datagram).unwrap();
            if header.kind == Kind::Control && Control::parse(body).unwrap().action == Action::Query {
                asked.push((now, Control::parse(body).unwrap().psn));
                let answer = answer(&datagram, status, ahead, reports);
                assert_eq!(session.handle_datagram(now, &answer, &mut tensor), None);
            }
        }
    }
}

#[test]
fn it_asks_about_its_oldest_psn_well_before_the_deadline_and_names_who_is_missing() {
    let silent = RankReport { silent_ms: 3_200, behind: 12, ..RankReport::new(2, RankState::Silent) };
    let (failure, asked) = starved(Status::Ok, 0, &[silent]);
    assert_eq!(asked[0], (STALLED, FIRST));
    assert!(asked.iter().all(|(at, psn)| *psn == FIRST && *at < DEADLINE));
    let text = failure.to_string();
    assert!(text.contains("rank 2 is silent for 3.2s, behind by 12 packets"), "{text}");
    let Failure::Deadline(progress) = failure else { panic!("{text}") };
    assert!(progress.missing.is_some_and(|missing| missing.names(2) && !missing.names(1)));
}

#[test]
fn results_that_were_sent_and_do_not_arrive_are_reported() {
    let (failure, _) = starved(Status::Ok, 2, &[]);
    let text = failure.to_string();
    assert!(text.contains("is complete and its result was sent (2 ranks have it)"), "{text}");
    assert!(text.contains("firewall") && text.contains("MTU"), "{text}");
}

#[test]
fn who_has_died_with_the_only_result_is_named() {
    let silent = RankReport { silent_ms: 1_700, ..RankReport::new(2, RankState::Silent) };
    let text = starved(Status::Ok, 1, &[silent]).0.to_string();
    assert!(text.contains("rank 2 is silent for 1.7s"), "{text}");
    assert!(!text.contains("firewall"), "{text}");
}

#[test]
fn where_nobody_is_missing_the_appliance_has_to_say_more() {
    let (failure, _) = starved(Status::Ok, 0, &[]);
    assert!(failure.to_string().contains("all ranks are here and send"), "{failure}");
    assert!(failure.to_string().contains("`pascaline explain`"), "{failure}");
}

#[test]
fn whose_packets_do_not_get_through_is_named() {
    let (failure, _) = starved(Status::Ok, 0, &[RankReport::new(2, RankState::Blocked)]);
    assert!(failure.to_string().contains("rank 2 is alive, but its data packets do not"), "{failure}");
    assert!(failure.to_string().contains("firewall") && !failure.to_string().contains("this one"));
    let (failure, _) = starved(Status::Ok, 0, &[RankReport::new(IDENTITY.rank, RankState::Blocked)]);
    assert!(failure.to_string().contains("is this one"), "{failure}");
}

#[test]
fn an_appliance_that_does_not_answer_queries_says_nothing() {
    let (failure, asked) = starved(Status::Unsupported, 0, &[]);
    assert!(asked.len() > 10, "asked again and again: {}", asked.len());
    let Failure::Deadline(progress) = failure else { panic!("{failure}") };
    assert_eq!(progress.missing, None);
}

#[test]
fn who_has_never_joined_is_named() {
    let mut join = Join::new(IDENTITY, 77, 8, Duration::ZERO, DEADLINE);
    let reports = [RankReport::new(0, RankState::NeverJoined)];
    let mut asked = 0;
    let failure = loop {
        let now = join.poll_timeout();
        if let Some(failure) = join.handle_timeout(now) {
            break failure;
        }
        let Some(sent) = join.poll_transmit(now).map(<[u8]>::to_vec) else { continue };
        let (header, body) = Header::parse(&sent).unwrap();
        let request = Control::parse(body).unwrap();
        if request.action == Action::Query {
            asked += 1;
            assert_eq!(header.epoch, 9, "the generation that it was given");
            join.handle_datagram(&answer(&sent, Status::Ok, 0, &reports));
        } else {
            let head = Header { epoch: 9, ..header };
            let pending = Control {
                status: Status::Pending,
                answers: Some(Action::Join),
                number: request.number,
                joined: 2,
                ..Control::request(Action::Ack, 77)
            };
            join.handle_datagram(&[&head.to_bytes()[..], &pending.to_bytes()].concat());
        }
    };
    assert!(asked > 10, "{asked}");
    assert!(
        failure.to_string().ends_with("ranks had joined after 9.0s: rank 0 has never joined"),
        "{failure}"
    );
    assert!(matches!(failure, JoinFailure::Incomplete { joined: 2, .. }));
}

#[test]
fn a_session_that_fails_says_that_it_is_gone() {
    let mut session = Session::new(MEMBERSHIP, 4);
    session.start(Duration::ZERO, 64, Element::I32_SUM, DEADLINE).unwrap();
    while session.poll_transmit(Duration::ZERO).is_some() {}
    assert!(matches!(session.handle_timeout(DEADLINE), Some(Event::Failed(_))));
    let mut leaves = 0;
    while let Some(packet) = session.poll_transmit(DEADLINE) {
        let datagram = [&packet.header, session.payload(&packet, &[])].concat();
        let (header, body) = Header::parse(&datagram).unwrap();
        let leave = Control::parse(body).unwrap();
        assert_eq!((leave.action, leave.session), (Action::Leave, MEMBERSHIP.session));
        assert_eq!((header.epoch, leave.psn), (MEMBERSHIP.epoch, FIRST));
        leaves += 1;
    }
    assert_eq!(leaves, 2, "no request for an answer");
}

#[test]
fn who_gives_up_joining_says_so_if_the_appliance_knows_of_it() {
    let mut join = Join::new(IDENTITY, 77, 8, Duration::ZERO, DEADLINE);
    assert_eq!(join.farewell(), None, "no answer yet");
    let sent = join.poll_transmit(Duration::ZERO).unwrap().to_vec();
    let (header, _) = Header::parse(&sent).unwrap();
    let request = Control::request(Action::Ack, 77);
    let pending = Control { status: Status::Pending, answers: Some(Action::Join), number: 1, ..request };
    join.handle_datagram(&[&Header { epoch: 9, ..header }.to_bytes()[..], &pending.to_bytes()].concat());
    let farewell = join.farewell().unwrap();
    let (header, body) = Header::parse(&farewell).unwrap();
    let leave = Control::parse(body).unwrap();
    assert_eq!((header.epoch, leave.action, leave.session), (9, Action::Leave, 77));
}

#[test]
fn packets_of_full_size_that_do_not_get_through_are_found_out() {
    let text = probed(true).to_string();
    assert!(text.contains("payload bytes do not get through") && text.contains("those with 8 do"), "{text}");
}

#[test]
fn who_is_not_said_to_be_blocked_does_not_probe() {
    assert!(matches!(probed(false), Failure::Deadline(_)));
}

/// A session whose long packets get lost, until it fails.
fn probed(blocked: bool) -> Failure {
    let mut session = Session::new(MEMBERSHIP, 4);
    let bytes = 4 * usize::from(IDENTITY.payload);
    session.start(Duration::ZERO, bytes, Element::I32_SUM, DEADLINE).unwrap();
    let mut tensor = vec![0; bytes];
    let reports = [RankReport::new(IDENTITY.rank, RankState::Blocked)];
    loop {
        let now = session.poll_timeout().unwrap();
        if let Some(Event::Failed(failure)) = session.handle_timeout(now) {
            return failure;
        }
        while let Some(packet) = session.poll_transmit(now) {
            let datagram = [&packet.header, session.payload(&packet, &tensor)].concat();
            let (header, body) = Header::parse(&datagram).unwrap();
            if header.kind == Kind::Control && Control::parse(body).unwrap().action == Action::Query {
                let reports = if blocked { &reports[..] } else { &[] };
                let answer = answer(&datagram, Status::Ok, 0, reports);
                assert_eq!(session.handle_datagram(now, &answer, &mut tensor), None);
            }
            let probe = header.kind == Kind::Gradient && header.epoch != MEMBERSHIP.epoch;
            if probe && session.payload(&packet, &tensor).len() < usize::from(IDENTITY.payload) {
                let (expected, got) = (MEMBERSHIP.epoch.into(), header.epoch.into());
                let status = Status::WrongEpoch;
                let ack = Control { status, expected, got, ..Control::request(Action::Ack, 0) };
                let head = Header { kind: Kind::Control, epoch: MEMBERSHIP.epoch, ..header };
                let refusal = [&head.to_bytes()[..], &ack.to_bytes()].concat();
                assert_eq!(session.handle_datagram(now, &refusal, &mut tensor), None);
            }
        }
    }
}
