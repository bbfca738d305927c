//! Two ports in line: what passes waits for nothing that the appliance does for itself.

use pascaline_pipelines::{AHEAD, BURST, IdlePolicy, Passing};
use pascaline_telemetry::Counter;
use pascaline_testkit::{Heard, JOB, Worker, received};

use crate::common::appliance::{Bench, Plan, job};

/// To a host that is not the appliance, and told apart by a number.
fn passing(number: u8) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 7, number], &[2, 0, 0, 0, 7, 99][..], &[0x88, 0xb5]].concat();
    frame.resize(60, number);
    frame
}

/// In line, with a job whose only worker is behind port 0: each of its gradients is a result.
fn in_line(passing: Passing) -> (Bench, Worker) {
    let mut bench = Bench::new(&Plan { passing, jobs: vec![job(JOB, 1)], ..Plan::inline() });
    let mut workers = [Worker::new(0, 1)];
    bench.join(&mut workers);
    let [worker] = workers;
    (bench, worker)
}

fn gradients(worker: &Worker, psns: core::ops::Range<u32>) -> Vec<Vec<u8>> {
    psns.map(|psn| worker.gradient(psn, &[1, 2, 3])).collect()
}

/// The PSNs of results among frames, or the numbers of what passed.
fn told_apart(frames: &[Vec<u8>]) -> Vec<Result<u32, u8>> {
    let one = |frame: &Vec<u8>| match frame[..] {
        [2, 0, 0, 0, 7, number, ..] => Err(number),
        _ => Ok(Heard::parse(frame).header.psn),
    };
    frames.iter().map(one).collect()
}

/// What arrives while results leave, a few at a time, leaves before the others of them; not so where what
/// passes leaves in turn.
#[test]
fn what_passes_does_not_wait_until_all_results_have_left() {
    for first in [true, false] {
        let (mut bench, worker) = in_line(if first { Passing::First } else { Passing::InTurn });
        let late = received(&bench.pool, &passing(1));
        bench.io().meanwhile.push((1, late)).unwrap();
        let frames = gradients(&worker, 0..8);
        bench.feed(0, &frames);
        let sent = told_apart(&bench.io().sent(0));
        let whole: Vec<_> = (0..8).map(Ok).collect();
        if first {
            assert_eq!(sent, [&whole[..2], &[Err(1)], &whole[2..]].concat());
        } else {
            assert_eq!(sent, whole, "nothing arrives in the middle where all leave at once");
            assert_eq!(bench.io().meanwhile.len(), 1);
        }
        bench.end();
    }
}

/// What is for the appliance keeps its order, however much passes and wherever the one waits for the other.
#[test]
fn what_waits_is_taken_in_order_and_all_is_accounted_for() {
    let (mut bench, worker) = in_line(Passing::First);
    let frames = gradients(&worker, 0..u32::try_from(AHEAD + 2 * BURST).unwrap());
    for (at, frame) in frames.iter().enumerate() {
        bench.io().arrive(0, frame);
        bench.io().arrive(0, &passing(u8::try_from(at % 200).unwrap()));
    }
    let total = 2 * frames.len();
    let alone = bench.appliance.reading().load().bursts[0];
    while bench.appliance.get(Counter::Received) < total as u64 + 2 {
        bench.appliance.turn();
        assert_eq!(bench.appliance.reading().unaccounted(), 0);
    }
    let results = told_apart(&bench.io().sent(0));
    assert_eq!(results, (0..frames.len()).map(|psn| Ok(psn.try_into().unwrap())).collect::<Vec<_>>());
    let passed = told_apart(&bench.io().sent(1));
    assert_eq!(passed, (0..frames.len()).map(|at| Err((at % 200).try_into().unwrap())).collect::<Vec<_>>());
    assert_eq!(bench.appliance.get(Counter::Forwarded), frames.len() as u64);
    let load = bench.appliance.reading().load();
    assert_eq!(load.packets, bench.appliance.get(Counter::Received));
    assert_eq!(load.bursts[0], alone, "a look that finds nothing to pass is no burst");
    bench.end();
}

/// The end of an lcore takes what it has received and not begun.
#[test]
fn an_end_leaves_nothing_behind() {
    let (mut bench, worker) = in_line(Passing::First);
    let frames = gradients(&worker, 0..u32::try_from(AHEAD).unwrap());
    frames.iter().for_each(|frame| bench.io().arrive(0, frame));
    bench.appliance.lcores[0].turn();
    assert!(bench.io().ports[0].rx.is_empty(), "all of it has been received");
    let sent = bench.io().sent(0).len();
    assert_eq!(sent, BURST, "and one burst taken");
    bench.appliance.plane.stop();
    // A port that brings more whenever it is asked does not keep the lcore from ending.
    let late = received(&bench.pool, &passing(1));
    bench.io().meanwhile.push((1, late)).unwrap();
    bench.appliance.lcores[0].run(IdlePolicy::Spin);
    assert_eq!(bench.io().sent(0).len(), AHEAD - BURST);
    assert!(bench.io().sent(1).is_empty(), "it looks no more");
    assert_eq!(bench.appliance.reading().unaccounted(), 0);
    bench.end();
}
