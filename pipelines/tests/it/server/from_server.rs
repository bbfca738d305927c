//! What a server in the appliance sends.

use pascaline_aggregator::{Order, Policy};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Element, Flags, Header, Kind, Own};
use pascaline_wire::round;

use super::{assert_header, embedded, first_come, gradient, part};
use crate::common::appliance::{Bench, assert_results};
use pascaline_testkit::{Worker, bytes, trailer};

/// A packet about this PSN, from nobody in particular.
fn header(worker: &Worker, kind: Kind, psn: u32, count: u16) -> Header {
    Header { rank: 0, ..worker.header(kind, psn, count) }
}

fn fetch(bench: &mut Bench, workers: &[Worker], psn: u32) {
    let header = Header { element: Element::F32_SUM, ..header(&workers[0], Kind::Fetch, psn, 0) };
    bench.serve(&header, &[]);
}

#[test]
fn a_result_is_kept_and_sent_to_all() {
    let (mut bench, workers) = embedded(first_come());
    bench.serve(&header(&workers[0], Kind::Result, 1, 4), &bytes(&[7, 8]));
    assert_results(&mut bench, &workers, 1, &[7, 8]);
    bench.feed(0, [&gradient(&workers[2], 1, 0)]);
    assert_results(&mut bench, &workers[2..3], 1, &[7, 8]);
    let counters = [Counter::ServerResults, Counter::Installed, Counter::Absorbed, Counter::Replayed];
    assert_eq!(counters.map(|counter| bench.appliance.get(counter)), [1, 1, 1, 1]);
    // A second one is none.
    bench.serve(&header(&workers[0], Kind::Result, 1, 4), &bytes(&[9, 9]));
    assert_eq!(bench.appliance.dropped(DropReason::Duplicate), 1);
    assert!(bench.heard(0).is_empty());
    bench.end();
}

#[test]
fn a_result_has_the_round_in_which_it_was_agreed_upon() {
    let (mut bench, workers) = embedded(first_come());
    let rounds = |bench: &mut Bench| {
        bench
            .heard(0)
            .iter()
            .map(|heard| (heard.header.kind, heard.header.own.priority()))
            .collect::<Vec<_>>()
    };
    for (psn, round) in [(1, 7), (2, round::TAKEN), (3, round::NONE), (4, 7)] {
        let header = Header { own: Own::sum(round, 0), ..header(&workers[0], Kind::Result, psn, 4) };
        bench.serve(&header, &bytes(&[7, 8]));
        assert_eq!(rounds(&mut bench), [(Kind::Result, round); 4]);
        bench.feed(0, [&gradient(&workers[2], psn, 5)]);
        assert_eq!(rounds(&mut bench), [(Kind::Result, round)]);
    }
    // One that is agreed upon later takes its place; one of which nobody knows does not.
    for (round, heard) in [(round::NONE, 0), (8, 4), (8, 0), (round::TAKEN, 4), (9, 0)] {
        let header = Header { own: Own::sum(round, 0), ..header(&workers[0], Kind::Result, 4, 4) };
        bench.serve(&header, &bytes(&[7, 8]));
        assert_eq!(rounds(&mut bench), vec![(Kind::Result, round); heard]);
    }
    // What is made here has none, whatever priority it had.
    let frames: Vec<_> = workers.iter().map(|worker| gradient(worker, 5, 9)).collect();
    bench.feed(0, frames.iter());
    assert_eq!(rounds(&mut bench), [(Kind::Result, round::NONE); 4]);
    bench.end();
}

/// Who waits for another round than that of what is kept is the server's business, which is told.
#[test]
fn a_reminder_of_who_has_promised_goes_to_the_server() {
    let (mut bench, workers) = embedded(first_come());
    let kept = Header { own: Own::sum(7, 0), ..header(&workers[0], Kind::Result, 1, 4) };
    bench.serve(&kept, &bytes(&[7, 8]));
    assert_eq!(bench.heard(0).len(), 4);
    for (promised, here) in [(round::NONE, true), (7, true), (6, false)] {
        let reminder = Header { own: Own::sum(promised, 0), ..workers[2].header(Kind::Reminder, 1, 0) };
        bench.feed(0, [&workers[2].frame(&reminder, &[])]);
        assert_eq!(bench.heard(0).len(), usize::from(here));
        let passed_on: Vec<_> =
            bench.served().iter().map(|got| (got.header.rank, got.header.own.priority())).collect();
        assert_eq!(passed_on, if here { vec![] } else { vec![(2, promised)] });
    }
    bench.end();
}

#[test]
fn a_result_takes_the_place_of_the_partial_and_of_no_other() {
    let (mut bench, workers) = embedded(first_come());
    bench.feed(0, [&gradient(&workers[2], 1, 0)]);
    bench.serve(&header(&workers[0], Kind::Result, 1, 4), &bytes(&[7, 8]));
    assert_results(&mut bench, &workers, 1, &[7, 8]);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 1);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    // Where there is no slot, it is sent out all the same.
    bench.feed(0, [&gradient(&workers[2], 2, 0)]);
    bench.serve(&header(&workers[0], Kind::Result, 3, 4), &bytes(&[5, 6]));
    assert_results(&mut bench, &workers, 3, &[5, 6]);
    assert_eq!(bench.appliance.get(Counter::PassedOn), 1);
    bench.feed(0, [&gradient(&workers[0], 2, 0), &gradient(&workers[1], 2, 0), &gradient(&workers[3], 2, 0)]);
    assert_results(&mut bench, &workers, 2, &[1111, -4]);
    bench.end();
}

/// The ranks that are lost are not waited for; the others are told who is inside.
#[test]
fn a_result_without_all_ranks_says_so_to_all() {
    let (mut bench, workers) = embedded(first_come());
    let body = [bytes(&[7, 8]), trailer(&[0, 1, 3], 4)].concat();
    let partial = Header { flags: Flags::TRAILER, ..header(&workers[0], Kind::Result, 1, 3) };
    bench.serve(&partial, &body);
    let heard = bench.heard(0);
    assert_eq!(heard.len(), 4);
    for (heard, worker) in heard.iter().zip(&workers) {
        heard.assert_addressed_to(worker);
        assert_eq!((heard.header.flags, heard.header.count), (Flags::TRAILER, 3));
        assert_eq!(heard.contents(), (vec![7, 8], Some(vec![0, 1, 3])));
    }
    // Who is inside must be as many as it says.
    bench.serve(&Header { count: 2, psn: 2, ..partial }, &body);
    assert_eq!(bench.appliance.dropped(DropReason::BadCount), 1);
    assert!(bench.heard(0).is_empty());
    bench.end();
}

#[test]
fn a_result_for_one_rank_goes_there_alone_and_like_any_other() {
    let (mut bench, workers) = embedded(first_come());
    let flags = Flags::BYPASS.with(Flags::OVERFLOW);
    bench.serve(&Header { rank: 2, flags, ..header(&workers[0], Kind::Result, 1, 4) }, &bytes(&[7, 8]));
    let heard = bench.heard(0);
    let [result] = &heard[..] else { panic!("{heard:?}") };
    result.assert_addressed_to(&workers[2]);
    let expected = Header { flags: Flags::OVERFLOW, ..workers[2].header(Kind::Result, 1, 4) };
    assert_eq!((result.header, result.contents()), (expected, (vec![7, 8], None)));
    assert_eq!(bench.appliance.lcores[0].packets_held(), 0, "it is not kept");
    assert_eq!([Counter::Forwarded, Counter::ServerResults].map(|c| bench.appliance.get(c)), [1, 0]);

    // With a trailer, too.
    let partial = Header { rank: 1, ..header(&workers[0], Kind::Result, 1, 3) };
    let partial = Header { flags: Flags::BYPASS.with(Flags::TRAILER), ..partial };
    bench.serve(&partial, &[bytes(&[7, 8]), trailer(&[0, 1, 3], 4)].concat());
    let heard = bench.heard(0);
    assert_eq!((heard.len(), heard[0].header.flags), (1, Flags::TRAILER));
    assert_eq!(heard[0].contents(), (vec![7, 8], Some(vec![0, 1, 3])));
    bench.end();
}

#[test]
fn a_reminder_for_one_rank_goes_there_alone_and_asks_for_the_original() {
    let (mut bench, workers) = embedded(first_come());
    let reminder = Header { rank: 3, flags: Flags::BYPASS, ..header(&workers[0], Kind::Reminder, 1, 0) };
    bench.serve(&reminder, &[]);
    let heard = bench.heard(0);
    let [reminded] = &heard[..] else { panic!("{heard:?}") };
    reminded.assert_addressed_to(&workers[3]);
    assert_eq!((reminded.header, reminded.body.len()), (reminder, 0));
    assert_eq!(bench.appliance.get(Counter::Forwarded), 1);
    bench.end();
}

/// Two contributions of one PSN that disagree may meet at the server only.
#[test]
fn a_refusal_for_one_rank_goes_there_alone() {
    let (mut bench, workers) = embedded(first_come());
    let about = |flags| Header { rank: 3, flags, ..header(&workers[0], Kind::Control, 1, 0) };
    let status = Status::ElementMismatch;
    let ack = Control { status, expected: 1, got: 2, ..Control::request(Action::Ack, 0) };
    bench.serve(&about(Flags::BYPASS), &ack.to_bytes());
    let heard = bench.heard(0);
    let [told] = &heard[..] else { panic!("{heard:?}") };
    told.assert_addressed_to(&workers[3]);
    assert_eq!((told.header, Control::parse(&told.body)), (about(Flags::NONE), Ok(ack)));
    assert_eq!(bench.appliance.get(Counter::Forwarded), 1);
    // Whatever else a control packet could say, it is not the server's to say.
    let wrong = [
        (Flags::NONE, ack),
        (Flags::BYPASS, Control::request(Action::Join, 1)),
        (Flags::BYPASS, Control { answers: Some(Action::Join), ..ack }),
        (Flags::BYPASS, Control { status: Status::Ok, ..ack }),
    ];
    for (number, (flags, control)) in (1..).zip(wrong) {
        bench.serve(&about(flags), &control.to_bytes());
        assert_eq!(bench.appliance.dropped(DropReason::Control), number, "{control:?}");
    }
    assert!(bench.heard(0).is_empty());
    bench.end();
}

#[test]
fn a_fetch_gets_the_partial() {
    let (mut bench, workers) = embedded(first_come());
    for rank in [3, 0] {
        let header = Header { own: Own::sum(6, 0), ..workers[rank].header(Kind::Gradient, 1, 1) };
        let mut frame = workers[rank].frame(&header, &bytes(&part(workers[rank].rank)));
        frame.extend([0xee; 5]);
        bench.feed(0, [&frame]);
    }
    fetch(&mut bench, &workers, 1);
    let got = bench.served();
    assert_eq!(got.len(), 1);
    assert_header(&got[0], &workers[0], Kind::Partial, Flags::TRAILER, 1, 2);
    assert_eq!((got[0].header.rank, got[0].header.own.priority()), (0, 6));
    assert_eq!((&got[0].values[..], &got[0].inside), (&[1001, -2][..], &Some(vec![0, 3])));
    assert_eq!(bench.appliance.lcores[0].packets_held(), 0);
    // Asked again, there is nothing.
    fetch(&mut bench, &workers, 1);
    assert!(bench.served().is_empty() && bench.heard(0).is_empty());
    let counters = [Counter::Evicted, Counter::Preempted, Counter::Absorbed, Counter::ServerSent];
    assert_eq!(counters.map(|counter| bench.appliance.get(counter)), [1, 0, 2 + 2, 1]);
    bench.end();
}

#[test]
fn a_fetch_gets_originals_where_nothing_has_been_added() {
    let (mut bench, workers) = embedded(Policy { order: Order::Rank, ..first_come() });
    for rank in [3, 1] {
        bench.feed(0, [&gradient(&workers[rank], 1, 0)]);
    }
    fetch(&mut bench, &workers, 1);
    let mut got: Vec<_> = bench.served().iter().map(|got| (got.header.rank, got.values.clone())).collect();
    got.sort_unstable();
    assert_eq!(got, [1, 3].map(|rank| (rank, part(rank).to_vec())));
    bench.end();
}

#[test]
fn a_fetch_of_what_is_complete_gets_the_result() {
    let (mut bench, workers) = embedded(first_come());
    for worker in &workers {
        bench.feed(0, [&gradient(worker, 1, 0)]);
    }
    assert_eq!(bench.heard(0).len(), 4);
    for _ in 0..2 {
        fetch(&mut bench, &workers, 1);
        let got = bench.served();
        assert_eq!(got.len(), 1);
        assert_header(&got[0], &workers[0], Kind::Result, Flags::NONE, 1, 4);
        assert_eq!((&got[0].values[..], &got[0].inside), (&[1111, -4][..], &None));
    }
    assert_eq!(bench.appliance.get(Counter::PayloadCopies), 2);
    assert_eq!(bench.appliance.lcores[0].packets_held(), 1, "and keeps its slot");
    // Without a buffer there is no answer; the server asks again.
    bench.io().frames = 0;
    fetch(&mut bench, &workers, 1);
    assert!(bench.served().is_empty());
    assert_eq!(bench.appliance.get(Counter::NoBuffer), 1);
    bench.end();
}

#[test]
fn what_the_server_must_not_send_is_dropped_by_reason() {
    let (mut bench, workers) = embedded(first_come());
    let result = header(&workers[0], Kind::Result, 1, 4);
    let bypass = Header { flags: Flags::BYPASS, ..result };
    let cases = [
        (Header { epoch: result.epoch - 1, ..result }, 2, DropReason::WrongEpoch),
        (Header { job: 99, ..result }, 2, DropReason::WrongEpoch),
        (Header { rank: 4, ..bypass }, 2, DropReason::NotMember),
        (Header { kind: Kind::Gradient, count: 1, ..result }, 2, DropReason::UnhandledKind),
        (Header { kind: Kind::Partial, ..result }, 2, DropReason::UnhandledKind),
        (Header { kind: Kind::Reminder, count: 0, ..result }, 0, DropReason::UnhandledKind),
        (Header { kind: Kind::Reminder, count: 0, ..bypass }, 2, DropReason::PayloadLength),
        (result, 0, DropReason::PayloadLength),
        (Header { flags: Flags::TRAILER, ..result }, 2, DropReason::Trailer),
        (Header { count: 3, ..result }, 2, DropReason::BadCount),
        (Header { fan_in: 3, count: 3, ..result }, 2, DropReason::FanInMismatch),
    ];
    for (header, elements, reason) in cases {
        let before = bench.appliance.reading();
        bench.serve(&header, &bytes(&vec![7; elements]));
        let after = bench.appliance.reading();
        assert_eq!(after.dropped(reason), before.dropped(reason) + 1, "{header:?}: {}", reason.name());
        assert_eq!(after.dropped_total(), before.dropped_total() + 1);
    }
    bench.serve_bytes(&[1; 21]);
    assert_eq!(bench.appliance.dropped(DropReason::Truncated), 1);
    assert!(bench.served().is_empty());
    assert!(bench.heard(0).iter().all(|heard| heard.header.kind == Kind::Control), "refusals at most");
    bench.end();
}

#[test]
fn what_a_port_does_not_take_is_accounted_for() {
    let (mut bench, workers) = embedded(first_come());
    bench.io().ports[0].room = 0;
    for psn in 0..300 {
        let result = Header { flags: Flags::BYPASS, ..header(&workers[0], Kind::Result, psn, 4) };
        bench.serve(&result, &bytes(&[7]));
    }
    assert_eq!(bench.appliance.get(Counter::Forwarded), 300);
    let waiting = bench.appliance.lcores[0].waiting() as u64;
    assert_eq!(bench.appliance.get(Counter::TransmitDropped), 300 - waiting);
    bench.io().ports[0].room = usize::MAX;
    bench.settle();
    assert_eq!(bench.heard(0).len() as u64, waiting);
    bench.end();
}
