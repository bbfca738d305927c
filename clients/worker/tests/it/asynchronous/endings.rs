//! What ends a worker, and what does not.

use super::*;

pub(super) fn control(status: Status, answers: Option<(Action, u32)>, epoch: u16, expected: u32) -> Vec<u8> {
    let head = Header { rank: RANK, fan_in: 3, ..Header::about(Kind::Control, Element::F32_SUM, JOB, epoch) };
    let body = Body {
        status,
        answers: answers.map(|(action, _)| action),
        number: answers.map_or(0, |(_, request)| request),
        joined: 3,
        payload: 16,
        window: 8,
        expected,
        got: RANK.into(),
        ..Body::request(Action::Ack, 77)
    };
    [&head.to_bytes()[..], &body.to_bytes()].concat()
}

#[test]
fn an_appliance_that_has_started_anew_interrupts_and_ends_nothing() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    session.handle_datagram(ms(2), &control(Status::NotMember, None, 33, 0));
    let join = transmit(&mut session, ms(2)).unwrap();
    let (_, body) = Header::parse(&join).unwrap();
    let asked = Body::parse(body).unwrap();
    assert_eq!(asked.action, Action::Join);
    assert_eq!(push(&mut session, ms(3)), Push::Busy);
    let resumed = pascaline_wire::control::generation(EPOCH);
    session.handle_datagram(ms(4), &control(Status::Ok, Some((Action::Join, asked.number)), 33, resumed));
    assert_eq!(session.membership().epoch, 33);
    assert_eq!(push(&mut session, ms(5)), Push::Sent(1), "what was under way is not waited for");
    let counters = session.counters();
    assert_eq!((counters.sent, counters.given_up), (2, 1));
    let datagram = Ack { psn: 1, generated: ms(5), ..ACK }.datagram();
    session.handle_datagram(ms(6), &datagram);
    assert_eq!(session.counters().ignored(AsyncIgnored::WrongEpoch), 1);
}

#[test]
fn weights_that_cannot_be_offered_yet_wake_nobody() {
    let mut session = session(Policy::AtWill, Initial::Weights(&[0.5; 3]));
    assert_eq!(session.poll_timeout(), Some(ms(0)), "they are due at once");
    session.handle_datagram(ms(2), &control(Status::NotMember, None, 33, 0));
    while transmit(&mut session, ms(2)).is_some() {}
    assert!(session.poll_timeout().is_some_and(|due| due > ms(2)), "{:?}", session.poll_timeout());
}

#[test]
fn a_job_that_is_gone_is_an_error_that_says_so() {
    let mut session = at_will();
    session.handle_datagram(ms(2), &control(Status::UnknownJob, Some((Action::Join, 0)), EPOCH, 0));
    let error = session.push(ms(3), 3, &[0.0; 3], 1.0).unwrap_err();
    let expected = Rejection { job: JOB, rank: 1, expected: 0, got: 1, reason: Reason::UnknownJob };
    assert_eq!(error, PushError::Rejected(expected));
}

/// Seed 297167: it had asked who was missing while it joined, and those had left when the answer came.
#[test]
fn an_answer_that_is_not_about_its_place_ends_nothing() {
    let mut session = at_will();
    for answers in [Some((Action::Query, 0)), Some((Action::Leave, 0))] {
        session.handle_datagram(ms(2), &control(Status::RankLeft, answers, EPOCH, 0));
    }
    let mut foreign = control(Status::UnknownJob, Some((Action::Join, 0)), EPOCH, 0);
    foreign[22 + 8] ^= 1;
    session.handle_datagram(ms(2), &foreign);
    assert_eq!(push(&mut session, ms(3)), Push::Sent(0));
}

/// Pushes every 100 ms from `from` on until that is an error: when, and why.
fn until_futile(session: &mut AsyncSession, from: Duration) -> (Duration, Why) {
    let mut now = from;
    loop {
        match session.push(now, unix(now), &[1.0; 3], 0.5) {
            Ok(_) => while transmit(session, now).is_some() {},
            Err(PushError::Futile { why, .. }) => return (now - from, why),
            Err(other) => panic!("{other}"),
        }
        now += ms(100);
    }
}

#[test]
fn a_worker_whose_updates_come_to_nothing_ends_after_the_stated_time_and_says_why() {
    assert_eq!(until_futile(&mut at_will(), ms(0)), (ms(10_000), Why::ApplianceSilent));
    // Initial weights without an answer.
    let mut session = session(Policy::AtWill, Initial::Weights(&[0.5; 3]));
    assert_eq!(until_futile(&mut session, ms(0)).1, Why::ApplianceSilent);
    assert_eq!((session.counters().sent, session.counters().pushed), (0, 100));
    // The server went away in mid-run: from the last answer on.
    for (tell, why) in [
        (None, Why::ApplianceSilent),
        (Some(control(Status::Ok, Some((Action::Join, 0)), EPOCH, 0)), Why::ServerSilent),
        (Some(control(Status::NoServer, None, EPOCH, 0)), Why::NoServer),
        (Some(control(Status::PayloadMismatch, None, EPOCH, 0)), Why::Refused(Status::PayloadMismatch)),
        (Some(Ack { why: Status::Diverges as u16, ..ACK }.datagram()), Why::Refused(Status::Diverges)),
    ] {
        let mut session = at_will();
        assert_eq!(push(&mut session, ms(0)), Push::Sent(0));
        session.handle_datagram(ms(5000), &Ack { weights: vec![1.0; 3], ..ACK }.datagram());
        let (mut ended, mut latest) = (None, 0);
        for step in 0..300 {
            let now = ms(6000 + 100 * step);
            if let Some(mut tell) = tell.clone() {
                // Of what was sent last, where it answers no request.
                let request = tell[22 + 2] != 0 && tell[1] == Kind::Control as u8;
                tell[8..12].copy_from_slice(&u32::to_be_bytes(if request { 0 } else { latest }));
                session.handle_datagram(now, &tell);
            }
            match session.push(now, unix(now), &[1.0; 3], 0.5) {
                Ok(push) => {
                    latest = if let Push::Sent(psn) = push { psn } else { latest };
                    while transmit(&mut session, now).is_some() {}
                }
                Err(error) => {
                    ended = Some((now, error));
                    break;
                }
            }
        }
        let error = PushError::Futile { after: ms(10_000), why };
        assert_eq!(ended, Some((ms(16_000), error)), "{why}");
    }
}

#[test]
fn a_worker_goes_on_where_others_have_higher_rewards_or_it_rarely_sends() {
    let mut session = at_will();
    for step in 0..40 {
        let now = ms(1000 * step);
        let Push::Sent(psn) = push(&mut session, now) else { panic!("busy") };
        let low = Ack { psn, generated: now, why: Status::LowReward as u16, ..ACK };
        session.handle_datagram(now, &low.datagram());
    }
    let counters = session.counters();
    assert_eq!((counters.acknowledged, counters.applied, counters.not_taken(Status::LowReward)), (40, 0, 40));
    assert_eq!(counters.refusals().collect::<Vec<_>>(), [(Status::LowReward, 40)]);
    // The filter of a queue on the way says the same of all of them, and the server hears of none.
    let mut session = at_will();
    for step in 0..40 {
        let Push::Sent(psn) = push(&mut session, ms(1000 * step)) else { panic!("busy") };
        let mut filtered = control(Status::LowReward, None, EPOCH, 0);
        filtered[8..12].copy_from_slice(&psn.to_be_bytes());
        session.handle_datagram(ms(1000 * step), &filtered);
    }
    assert_eq!((session.counters().acknowledged, session.counters().not_taken(Status::LowReward)), (40, 40));
    // One in 20 s: two may get lost.
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(0)), Push::Sent(0));
    assert_eq!(push(&mut session, ms(20_000)), Push::Sent(1));
    assert_eq!(push(&mut session, ms(40_000)), Push::Sent(2));
}

/// Holds R15.4 of protocol.md.
#[test]
fn one_refused_update_ends_nothing_but_its_own_wait() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    let refusal = |psn: u32| {
        let mut datagram = control(Status::PayloadMismatch, None, EPOCH, 0);
        datagram[8..12].copy_from_slice(&psn.to_be_bytes());
        datagram
    };
    session.handle_datagram(ms(2), &refusal(9));
    assert_eq!(session.outstanding(), 1, "another's");
    session.handle_datagram(ms(2), &refusal(0));
    assert_eq!((session.outstanding(), session.round_trip()), (0, None));
    assert_eq!(push(&mut session, ms(3)), Push::Sent(1));
    let counters = session.counters();
    assert_eq!((counters.acknowledged, counters.not_taken(Status::PayloadMismatch)), (1, 1));
}

#[test]
fn a_server_without_a_model_gets_the_workers_latest_weights() {
    let offers = |session: &mut AsyncSession, now: Duration| {
        let offer = |datagram: Vec<u8>| {
            let (head, body) = Header::parse(&datagram).unwrap();
            (head.kind == Kind::Gradient).then(|| body.to_vec())
        };
        core::iter::from_fn(|| transmit(session, now)).filter_map(offer).collect::<Vec<_>>()
    };
    let no_model = |psn| Ack { psn, why: Status::NoModel as u16, ..ACK }.datagram();
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    session.handle_datagram(ms(2), &Ack { weights: vec![7.0, 8.0, 9.0], ..ACK }.datagram());
    assert_eq!(push(&mut session, ms(3)), Push::Sent(1));
    session.handle_datagram(ms(4), &no_model(1));
    assert_eq!(offers(&mut session, ms(4)), [[7.0_f32, 8.0, 9.0].map(f32::to_le_bytes).as_flattened()]);
    assert_eq!(push(&mut session, ms(5)), Push::Busy, "until the server has a model");
    session.handle_datagram(ms(6), &Ack { psn: u32::MAX, weights: vec![7.0, 8.0, 9.0], ..ACK }.datagram());
    assert_eq!(push(&mut session, ms(7)), Push::Sent(2));
    // A worker without weights lets others go first, and then offers zeros.
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    session.handle_datagram(ms(4), &no_model(0));
    assert!(offers(&mut session, ms(303)).is_empty());
    assert_eq!(offers(&mut session, ms(304)), [[0; 12]]);
}

/// Below an appliance that is a leaf, an Ack to what came by another leaf names no worker here.
#[test]
fn answers_to_updates_that_came_by_other_appliances_are_cluster_mates() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    let elsewhere = |psn, rank| Ack { rank, psn, weights: vec![5.0; 3], generated: ms(1), ..ACK };
    let forged = [(1 << 20, APPLIANCE_RANK), (0, SERVER_RANK), (0, 3)];
    for (psn, rank) in forged {
        session.handle_datagram(ms(2), &elsewhere(psn, rank).datagram());
    }
    let whys = [AsyncIgnored::Unsolicited, AsyncIgnored::NoUpdate];
    let ignored = whys.map(|why| session.counters().ignored(why));
    assert_eq!((ignored, session.outstanding()), ([1, 2], 1));
    for psn in [0, 1, 9] {
        session.handle_datagram(ms(3), &elsewhere(psn, APPLIANCE_RANK).datagram());
    }
    let counters = session.counters();
    assert_eq!((counters.acks_own, counters.acks_cluster), (0, 3));
    assert_eq!((session.weights(), session.outstanding()), ((&[5.0; 3][..], 3), 0));
}

/// Answers overtake each other, and may be repeated: weights never go back.
#[test]
fn weights_of_an_overtaken_answer_are_not_taken() {
    let mut session = at_will();
    for (rank, psn, weight, known) in
        [(2, 40, 1.0, 1.0), (2, 42, 3.0, 3.0), (2, 41, 2.0, 3.0), (2, 42, 3.0, 3.0), (0, 7, 4.0, 4.0)]
    {
        session.handle_datagram(ms(20), &Ack { rank, psn, weights: vec![weight; 3], ..ACK }.datagram());
        assert_eq!(session.weights().0, [known; 3], "rank {rank}, {psn}");
    }
    let counters = session.counters();
    assert_eq!((session.weights().1, counters.weights, counters.acks_cluster), (3, 3, 5));
}
