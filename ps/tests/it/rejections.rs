//! Rejected packets: the reason and answer of each, and that it changes nothing.

use pascaline_ps::{Answer, Completion, Destination, JobParams, Order, Outcome, RejectReason, Server};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind, Malformed};

use crate::packets::{
    EPOCH, JOB, PSN, Packet, contribution, floats, give, ms, server, server_with, sum_of, take,
};

fn rejected(server: &mut Server, packet: &Packet) -> (RejectReason, Option<Answer>) {
    let before = (server.usage(JOB), server.poll_timeout());
    let counted = |server: &Server| RejectReason::ALL.map(|reason| server.counters().rejected(reason));
    let earlier = counted(server);
    let Outcome::Rejected { reason, answer } = give(server, ms(1), packet) else {
        panic!("not rejected: {packet:?}")
    };
    let mut later = counted(server);
    later[reason as usize] -= 1;
    assert_eq!(later, earlier);
    assert_eq!((server.usage(JOB), server.poll_timeout()), before, "nothing changed");
    (reason, answer)
}

/// The rejection, and that the answer says this status and these values.
fn answered(server: &mut Server, packet: &Packet, status: Status, expected: u32, got: u32) -> RejectReason {
    let (reason, answer) = rejected(server, packet);
    let Answer { header, control } = answer.expect("an answer");
    assert_eq!((control.action, control.answers, control.session), (Action::Ack, None, 0));
    assert_eq!((control.status, control.expected, control.got), (status, expected, got));
    let Header { job, rank, psn, .. } = packet.header;
    assert_eq!((header.kind, header.job, header.rank, header.psn), (Kind::Control, job, rank, psn));
    reason
}

fn gradient(rank: u16) -> Packet {
    Packet::gradient(rank, PSN, 4, &contribution(rank, PSN))
}

#[test]
fn another_generation() {
    let mut server = server(4);
    let mut packet = gradient(0);
    packet.header.epoch = EPOCH - 1;
    let (right, wrong) = (u32::from(EPOCH), u32::from(EPOCH) - 1);
    assert_eq!(answered(&mut server, &packet, Status::WrongEpoch, right, wrong), RejectReason::WrongEpoch);
    for kind in [Kind::Partial, Kind::Result] {
        packet = packet.containing(&[0, 1, 2, 3]);
        packet.header.kind = kind;
        assert_eq!(rejected(&mut server, &packet), (RejectReason::WrongEpoch, None), "not its sender's rank");
    }
}

#[test]
fn a_new_generation_forgets_the_old_one() {
    let mut server = server(4);
    give(&mut server, ms(0), &gradient(0));
    for rank in 0..4 {
        give(&mut server, ms(0), &Packet::gradient(rank, PSN + 1, 4, &contribution(rank, PSN)));
    }
    give(&mut server, ms(0), &Packet::reminder(1, PSN + 2, 4));
    server.set_job(JOB, JobParams::new(4, EPOCH)).unwrap();
    assert_eq!(server.usage(JOB).unwrap().open, 2, "the same again changes nothing");
    server.set_job(JOB, JobParams::new(4, EPOCH + 1)).unwrap();
    let usage = server.usage(JOB).unwrap();
    assert_eq!((usage.open, usage.cached, usage.bytes), (0, 0, 0));
    assert_eq!(server.counters().forgotten, 2);
    assert!(take(&mut server).is_empty() && server.poll_timeout().is_none());
    let mut packet = gradient(0);
    packet.header.epoch = EPOCH + 1;
    assert_eq!(give(&mut server, ms(2), &packet), Outcome::Added);
}

#[test]
fn an_unknown_job() {
    let mut server = server(4);
    let mut packet = gradient(0);
    packet.header.job = JOB + 1;
    assert_eq!(answered(&mut server, &packet, Status::UnknownJob, 0, 0), RejectReason::UnknownJob);
    assert!(server.remove_job(JOB));
    assert!(!server.remove_job(JOB));
    assert_eq!(answered(&mut server, &gradient(0), Status::UnknownJob, 0, 0), RejectReason::UnknownJob);
}

#[test]
fn another_fan_in() {
    let mut server = server(4);
    let packet = Packet::gradient(0, PSN, 5, &contribution(0, PSN));
    assert_eq!(answered(&mut server, &packet, Status::FanInMismatch, 4, 5), RejectReason::FanInMismatch);
    let partial = Packet::partial(&[0, 1], PSN, 5, &contribution(0, PSN));
    assert_eq!(rejected(&mut server, &partial), (RejectReason::FanInMismatch, None));
    // The job grows: what was collected for four is of no use.
    give(&mut server, ms(0), &gradient(0));
    server.set_job(JOB, JobParams::new(5, EPOCH)).unwrap();
    assert_eq!(server.usage(JOB).unwrap().open, 0);
    assert_eq!(give(&mut server, ms(1), &packet), Outcome::Added);
    assert_eq!(answered(&mut server, &gradient(1), Status::FanInMismatch, 5, 4), RejectReason::FanInMismatch);
}

#[test]
fn a_rank_out_of_range() {
    let mut server = server(4);
    let mut packet = gradient(4);
    assert_eq!(answered(&mut server, &packet, Status::RankOutOfRange, 4, 4), RejectReason::RankOutOfRange);
    packet = Packet::reminder(u16::MAX, PSN, 4);
    let status = Status::RankOutOfRange;
    assert_eq!(answered(&mut server, &packet, status, 4, 65535), RejectReason::RankOutOfRange);
}

#[test]
fn another_payload_length() {
    let mut server = server(4);
    give(&mut server, ms(0), &gradient(0));
    for (values, got) in [(&[1.0; 2][..], 8), (&[1.0; 4][..], 16)] {
        let packet = gradient(1).payload(&floats(values));
        let status = Status::PayloadMismatch;
        assert_eq!(answered(&mut server, &packet, status, 12, got), RejectReason::PayloadMismatch);
        let partial = Packet::partial(&[1, 2], PSN, 4, &floats(values));
        assert_eq!(rejected(&mut server, &partial), (RejectReason::PayloadMismatch, None));
        let result = Packet::result(PSN, 4, &floats(values));
        assert_eq!(rejected(&mut server, &result), (RejectReason::PayloadMismatch, None));
    }
    for rank in 1..4 {
        give(&mut server, ms(0), &gradient(rank));
    }
    take(&mut server);
    let late = gradient(1).payload(&floats(&[1.0]));
    assert_eq!(answered(&mut server, &late, Status::PayloadMismatch, 12, 4), RejectReason::PayloadMismatch);
    let long = Packet::gradient(0, PSN + 1, 4, &[0; 8196]);
    assert_eq!(
        answered(&mut server, &long, Status::PayloadMismatch, 8192, 8196),
        RejectReason::PayloadMismatch
    );
}

#[test]
fn another_element() {
    let mut server = server(4);
    give(&mut server, ms(0), &gradient(0));
    let mut packet = gradient(1);
    packet.header.element = Element::I32_SUM;
    let status = Status::ElementMismatch;
    assert_eq!(answered(&mut server, &packet, status, 0x01, 0x02), RejectReason::ElementMismatch);
}

/// Their contributions meet at the server only: without it, both would wait until their deadlines.
#[test]
fn a_rank_whose_contribution_disagrees_is_told_and_nobody_else() {
    let mut server = server(4);
    give(&mut server, ms(0), &gradient(0));
    let mut wrong = gradient(2);
    wrong.header.element = Element::I32_SUM;
    // Once within a millisecond, however many there are.
    for _ in 0..3 {
        assert_eq!(rejected(&mut server, &wrong).0, RejectReason::ElementMismatch);
    }
    let told = take(&mut server);
    let [(Destination::Rank(2), packet)] = &told[..] else { panic!("{told:?}") };
    let Header { kind, flags, rank, psn, fan_in, epoch, .. } = packet.header;
    assert_eq!((kind, flags, rank, psn), (Kind::Control, Flags::BYPASS, 2, PSN));
    assert_eq!((fan_in, epoch), (4, EPOCH));
    let ack = Control::parse(&packet.payload).unwrap();
    assert_eq!((ack.action, ack.answers, ack.status), (Action::Ack, None, Status::ElementMismatch));
    assert_eq!((ack.expected, ack.got), (0x01, 0x02));
    assert_eq!((server.counters().rejections_sent, server.counters().answers_limited), (1, 2));
    give(&mut server, ms(3), &wrong);
    assert_eq!(take(&mut server).len(), 1);
    // What the appliance finds out by itself, what is not from the rank that it names, and what no rank can
    // do anything about.
    let mut old = gradient(1);
    old.header.epoch = EPOCH - 1;
    let long = floats(&[1.0; 4]);
    let mut overlapping = Packet::partial(&[0, 1], PSN, 4, &contribution(0, PSN));
    let untold = [
        (old, RejectReason::WrongEpoch),
        (Packet::partial(&[1, 2], PSN, 4, &long), RejectReason::PayloadMismatch),
        (overlapping.clone(), RejectReason::Overlap),
        (
            {
                overlapping.header.count = 3;
                overlapping
            },
            RejectReason::WrongBitmap,
        ),
    ];
    for (packet, reason) in &untold {
        let Outcome::Rejected { reason: found, .. } = give(&mut server, ms(9), packet) else { panic!() };
        assert_eq!((found, server.counters().rejected(*reason)), (*reason, 1));
        assert!(
            take(&mut server).iter().all(|(_, packet)| packet.header.kind != Kind::Control),
            "{reason:?}"
        );
    }
}

#[test]
fn counts_and_bitmaps_that_cannot_be() {
    let mut server = server(4);
    let payload = contribution(0, PSN);
    for count in [0, 2, 4, u16::MAX] {
        assert_eq!(rejected(&mut server, &gradient(0).count(count)).0, RejectReason::WrongCount);
    }
    assert_eq!(rejected(&mut server, &gradient(0).containing(&[1])).0, RejectReason::WrongBitmap);
    assert_eq!(rejected(&mut server, &gradient(0).containing(&[])).0, RejectReason::WrongCount);
    let partial = |ranks: &[u16]| Packet::partial(ranks, PSN, 4, &payload);
    for (packet, why) in [
        (partial(&[0, 1]).count(3), "more than the bitmap"),
        (partial(&[0, 1]).count(1), "fewer than the bitmap"),
        (partial(&[]), "none"),
        (partial(&[0, 4]), "a rank beyond the fan-in"),
        (partial(&[63]), "only that"),
    ] {
        assert_eq!(rejected(&mut server, &packet), (RejectReason::WrongBitmap, None), "{why}");
    }
    let mut bare = partial(&[0, 1]);
    bare.bitmap = None;
    bare.header.flags = Flags::NONE;
    assert_eq!(rejected(&mut server, &bare), (RejectReason::WrongBitmap, None), "no bitmap");
    assert_eq!(give(&mut server, ms(1), &gradient(0).containing(&[0])), Outcome::Added, "superfluous, true");
    assert_eq!(give(&mut server, ms(1), &partial(&[1, 2])), Outcome::Merged);
}

#[test]
fn results_that_are_incomplete_or_unasked_for() {
    let mut server = server(4);
    let payload = sum_of(&[0, 1, 2, 3], PSN);
    assert_eq!(rejected(&mut server, &Packet::result(PSN, 4, &payload)), (RejectReason::Unasked, None));
    give(&mut server, ms(0), &gradient(0));
    for packet in [
        Packet::result(PSN, 4, &payload).count(3),
        Packet::result(PSN, 4, &payload).count(0),
        Packet::result(PSN, 4, &payload).containing(&[0, 1, 2]),
    ] {
        assert_eq!(rejected(&mut server, &packet), (RejectReason::Incomplete, None));
    }
    for packet in [
        Packet::result(PSN, 4, &payload).count(5),
        Packet::result(PSN, 4, &payload).containing(&[0, 1, 2]).count(4),
    ] {
        assert_eq!(rejected(&mut server, &packet), (RejectReason::WrongBitmap, None));
    }
    assert_eq!(give(&mut server, ms(1), &Packet::result(PSN, 4, &payload)), Outcome::Completed);
    assert_eq!(give(&mut server, ms(1), &Packet::result(PSN, 4, &payload)), Outcome::Duplicate);
    assert_eq!(take(&mut server).len(), 1);
}

#[test]
fn a_partial_cannot_be_put_in_the_order_of_ranks() {
    let mut server = server_with(JobParams { order: Order::Rank, ..JobParams::new(4, EPOCH) });
    let partial = Packet::partial(&[0, 1], PSN, 4, &contribution(0, PSN));
    assert_eq!(rejected(&mut server, &partial), (RejectReason::OrderedPartial, None));
}

#[test]
fn kinds_that_are_not_for_the_server() {
    let mut server = server(4);
    for kind in [Kind::Update, Kind::Ack, Kind::Fetch, Kind::Control] {
        let mut packet = gradient(0);
        packet.header.kind = kind;
        let header = packet.header;
        let outcome = server.handle(ms(0), &header, &packet.payload);
        assert_eq!(outcome, Outcome::Rejected { reason: RejectReason::Unexpected, answer: None });
    }
    let echo = Packet::reminder(0, PSN, 4).flag(Flags::BYPASS);
    assert_eq!(rejected(&mut server, &echo), (RejectReason::Unexpected, None), "its own reminder come back");
}

#[test]
fn malformed_packets() {
    let mut server = server(4);
    let good = gradient(0).to_bytes();
    assert_eq!(server.handle_datagram(ms(0), &good[..21]), Outcome::Malformed(Malformed::Truncated));
    let ragged = server.handle_datagram(ms(0), &good[..good.len() - 1]);
    assert_eq!(ragged, Outcome::Malformed(Malformed::PayloadLength));
    let empty = server.handle(ms(0), &gradient(0).header, &[]);
    assert_eq!(empty, Outcome::Malformed(Malformed::PayloadLength));
    assert_eq!(server.counters().malformed(Malformed::PayloadLength), 2);
    assert_eq!(server.counters().received, server.counters().accounted());
}

#[test]
fn h_of_n_completes_early_and_says_who_is_inside() {
    let params = JobParams { completion: Completion::AtLeast(3), ..JobParams::new(70, EPOCH) };
    for order in [Order::Arrival, Order::Rank] {
        let mut server = server_with(JobParams { order, ..params });
        for rank in [69, 2, 40] {
            assert!(take(&mut server).is_empty());
            give(&mut server, ms(0), &Packet::gradient(rank, PSN, 70, &contribution(rank, PSN)));
        }
        let packets = take(&mut server);
        let (_, result) = &packets[0];
        assert_eq!((result.header.count, result.ranks()), (3, vec![2, 40, 69]));
        assert_eq!(result.payload, sum_of(&[2, 40, 69], PSN));
        let late = Packet::gradient(7, PSN, 70, &contribution(7, PSN));
        assert_eq!(give(&mut server, ms(1), &late), Outcome::Late);
        assert_eq!(take(&mut server)[0].1.ranks(), [2, 40, 69], "the straggler gets the same result");
        // What another server or the appliance completed with other ranks counts as well.
        give(&mut server, ms(2), &Packet::reminder(0, PSN + 1, 70));
        take(&mut server);
        let other = Packet::result(PSN + 1, 70, &contribution(0, 0)).containing(&[1, 2, 3, 4]);
        assert_eq!(give(&mut server, ms(2), &other), Outcome::Completed);
        assert_eq!(take(&mut server)[0].1.ranks(), [1, 2, 3, 4]);
    }
}
