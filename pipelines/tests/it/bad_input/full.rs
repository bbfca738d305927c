//! What comes when a queue is full.

use super::*;

#[test]
fn requests_beyond_the_control_planes_queue_are_dropped_and_the_others_answered() {
    let mut bench = Bench::new(&Plan::one_armed());
    let join = Worker::new(0, 4).control(Action::Join);
    for _ in 0..1030 {
        bench.io().arrive(0, &join);
    }
    while bench.appliance.lcores[0].turn() > 0 {}
    assert_eq!(bench.appliance.dropped(DropReason::ControlFull), 6);
    assert_eq!(bench.appliance.get(Counter::Answered), 1024);
    assert_eq!(bench.appliance.reading().unaccounted(), 0);
    bench.settle();
    assert_eq!(bench.appliance.requests, 1024);
    bench.end();
}

#[test]
fn frames_beyond_the_peers_queue_are_dropped_and_leave_in_order() {
    let mut bench = Bench::new(&Plan::inline());
    bench.io().ports[1].room = 3;
    let mut frame = good(&Worker::new(0, 4));
    frame[5] ^= 0x80;
    for number in 0..300 {
        frame[HEADER..HEADER + 2].copy_from_slice(&u16::to_be_bytes(number));
        bench.io().arrive(0, &frame);
    }
    bench.settle();
    assert_eq!(bench.appliance.dropped(DropReason::TransmitFull), 300 - 256 - 3);
    assert_eq!(bench.appliance.get(Counter::Forwarded), 256 + 3);
    bench.io().ports[1].room = usize::MAX;
    bench.settle();
    let numbers: Vec<u16> = bench
        .io()
        .sent(1)
        .iter()
        .map(|frame| u16::from_be_bytes([frame[HEADER], frame[HEADER + 1]]))
        .collect();
    assert!(numbers.into_iter().eq(0..259));
    assert_eq!(bench.appliance.get(Counter::Sent), 259);
    bench.end();
}

#[test]
fn what_passes_does_not_wait_for_the_appliances_own_where_it_has_a_queue_of_its_own() {
    for (own_queue, dropped) in [(true, 0), (false, 300 - 256)] {
        let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::inline() });
        let port = &mut bench.io().ports[0];
        (port.room, port.passing_room) = (0, own_queue.then_some(usize::MAX));
        bench.io().arrive(0, &Worker::new(0, 1).control(Action::Join));
        bench.settle();
        let mut frame = good(&Worker::new(0, 1));
        frame[5] ^= 0x80;
        for _ in 0..300 {
            bench.io().arrive(1, &frame);
        }
        bench.settle();
        assert_eq!(bench.appliance.dropped(DropReason::TransmitFull), dropped);
        assert_eq!(bench.io().sent(0).len(), if own_queue { 300 } else { 0 });
        assert_eq!(bench.appliance.lcores[0].waiting(), if own_queue { 1 } else { 257 }, "with an answer");
        bench.io().ports[0].room = usize::MAX;
        bench.settle();
        bench.end();
    }
}

#[test]
fn what_passes_leaves_before_the_appliances_own() {
    for (passing, passes_first) in [(Passing::First, true), (Passing::InTurn, false)] {
        let mut bench = Bench::new(&Plan { passing, jobs: vec![job(JOB, 1)], ..Plan::inline() });
        bench.io().ports[0].room = 0;
        bench.io().arrive(0, &Worker::new(0, 1).control(Action::Join));
        bench.settle();
        let mut frame = good(&Worker::new(0, 1));
        frame[5] ^= 0x80;
        bench.io().arrive(1, &frame);
        bench.settle();
        assert_eq!(bench.appliance.lcores[0].waiting(), 2, "an answer and what passes");
        bench.io().ports[0].room = usize::MAX;
        bench.settle();
        let sent = bench.io().sent(0);
        assert_eq!((sent.len(), sent[0] == frame), (2, passes_first), "{passing:?}");
        bench.end();
    }
}
