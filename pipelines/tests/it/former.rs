//! Workers of the version before this one hear what to do, in their own version.

use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::{Element, Header, Kind, former};

use crate::common::appliance::{Bench, Plan, job};

/// Where the UDP payload begins in a frame.
const AT: usize = 42;

/// A Join of version 2 with a body so long; one of 48 bytes is whole, and zeros may follow.
fn join(worker: &Worker, length: usize) -> Vec<u8> {
    let header = Header { psn: 7, element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) };
    // The action, and the session.
    let mut body = vec![0; length];
    body[0] = 1;
    body[4..12].copy_from_slice(&worker.session.to_be_bytes());
    let mut frame = worker.frame(&header, &body);
    frame[AT] = 2;
    frame
}

/// What the appliance sends, from the aggregation header on.
fn heard(bench: &mut Bench) -> Vec<Vec<u8>> {
    bench.io().sent(0).into_iter().map(|frame| frame[AT..].to_vec()).collect()
}

fn bench() -> (Bench, Worker) {
    (Bench::new(&Plan { jobs: vec![job(JOB, 2)], ..Plan::one_armed() }), Worker::new(1, 2))
}

/// Holds R12.3 of protocol.md.
#[test]
fn a_join_of_version_2_is_answered_in_version_2_with_a_sentence_once_a_second() {
    let (mut bench, worker) = bench();
    bench.clock.advance(2_000_000_000);
    let asked = join(&worker, 1000);
    bench.feed(0, [&asked, &asked]);
    let answers = heard(&mut bench);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert!(answer.len() <= 22 + 1000);
    assert_eq!((answer[0], answer[1], answer[2]), (2, Kind::Control as u8, 1 << 5));
    assert_eq!(answer[4..8], [JOB.to_be_bytes(), 1u16.to_be_bytes()].concat());
    assert_eq!(answer[8..12], 7u32.to_be_bytes(), "the number of the request");
    // Ack, objective, to a Join.
    assert_eq!(answer[22..25], [8, 23, 1]);
    assert_eq!(answer[26..34], worker.session.to_be_bytes());
    let trailer = &answer[70..];
    assert_eq!((trailer[0], usize::from(trailer[1]) + 4), (7, trailer.len()));
    let text = str::from_utf8(&trailer[2..trailer.len() - 2]).unwrap();
    assert!(text.contains("version 3") && text.contains("install"), "{text}");
    assert_eq!(trailer[trailer.len() - 2..], u16::try_from(trailer.len()).unwrap().to_be_bytes());
    bench.clock.advance(999_000_000);
    bench.feed(0, [&asked]);
    assert_eq!(heard(&mut bench).len(), 0);
    bench.clock.advance(2_000_000);
    bench.feed(0, [&asked]);
    assert_eq!(heard(&mut bench).len(), 1);
    assert_eq!(bench.appliance.dropped(DropReason::Version), 4);
    assert_eq!(bench.appliance.get(Counter::RefusalsSent), 2);
    bench.end();
}

#[test]
fn an_answer_to_version_2_is_no_longer_than_what_it_answers() {
    let (mut bench, worker) = bench();
    bench.clock.advance(2_000_000_000);
    bench.feed(0, [&join(&worker, 48)]);
    let answers = heard(&mut bench);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.len(), answer[2], &answer[22..25]), (70, 0, &[8, 11, 1][..]));
    bench.end();
}

/// Holds R12.3 of protocol.md.
#[test]
fn nothing_else_of_another_version_is_answered() {
    let (mut bench, worker) = bench();
    bench.clock.advance(2_000_000_000);
    let good = join(&worker, 1000);
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[AT + at] = value;
        bytes
    };
    let frames = [
        changed(0, 1),
        changed(0, 4),
        changed(1, Kind::Gradient as u8),
        changed(22, 2),
        changed(3, 9),
        join(&worker, 47),
    ];
    bench.feed(0, frames.iter());
    assert_eq!(heard(&mut bench).len(), 0);
    assert_eq!(bench.appliance.dropped(DropReason::Version), 6);
    assert!(former::join(&good[AT..]).is_some() && former::join(&good[AT..AT + 69]).is_none());
    bench.end();
}
