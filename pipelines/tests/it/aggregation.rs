//! Sums, from the ranks' contributions to each member's result.

use pascaline_pipelines::membership::ServerMode;
use std::collections::BTreeSet;

use pascaline_aggregator::{Order, Policy};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Heard, UDP_PORT, Worker};
use pascaline_wire::UdpPorts;
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::{Frame, Net};
use pascaline_wire::header::{Element, Flags, Kind};
use proptest::prelude::*;

use crate::common::appliance::{Bench, Plan, assert_results, four, kind, single_slot};

/// One rank of each kind: IPv4, IPv6, a tag, two tags; behind two ports.
fn mixed() -> Vec<Worker> {
    vec![
        Worker::new(0, 4),
        Worker::new(1, 4).v6().at(1),
        Worker::new(2, 4).tagged(0x8100, 0xa064).at(1),
        Worker::new(3, 4).v6().tagged(0x88a8, 0x0064).tagged(0x8100, 0x2007),
    ]
}

fn two_ports() -> Plan {
    Plan { peers: vec![None, None], ..Plan::one_armed() }
}

fn contribution(rank: u16, elements: usize) -> Vec<i32> {
    (0..elements).map(|at| i32::try_from(at).unwrap() * 3 + 1000 * i32::from(rank) - 700).collect()
}

fn total(elements: usize) -> Vec<i32> {
    (0..elements).map(|at| (0..4).map(|rank| contribution(rank, elements)[at]).sum()).collect()
}

fn send(bench: &mut Bench, worker: &Worker, frame: &Vec<u8>) {
    bench.feed(worker.port, [frame]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_with_any_duplicates_gives_every_member_one_result(
        order in proptest::collection::vec(0usize..4, 0..12),
        elements in 1usize..257,
        segments in any::<(bool, bool)>(),
    ) {
        let mut bench = Bench::new(&two_ports());
        bench.io().ports[0].multi_segment = segments.0;
        bench.io().ports[1].multi_segment = segments.1;
        let mut workers = mixed();
        bench.join(&mut workers);
        let mut inside = [false; 4];
        let mut done = false;
        for rank in order.into_iter().chain(0..4) {
            let gradient = workers[rank].gradient(9, &contribution(workers[rank].rank, elements));
            send(&mut bench, &workers[rank], &gradient);
            inside[rank] = true;
            if !done && inside == [true; 4] {
                done = true;
                assert_results(&mut bench, &workers, 9, &total(elements));
            } else if done {
                // A late duplicate is answered with the result, to this rank only.
                assert_results(&mut bench, &workers[rank..=rank], 9, &total(elements));
            } else {
                prop_assert!((0..2).all(|port| bench.heard(port).is_empty()));
            }
        }
        prop_assert_eq!(bench.appliance.get(Counter::Completed), 1);
        bench.end();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Contributions to a PSN that come in one burst are added together where payloads are long.
    #[test]
    fn long_payloads_in_any_order_with_any_duplicates_give_every_member_its_results(
        order in Just((0..12).chain(0..12).collect::<Vec<usize>>()).prop_shuffle(),
        twice in 0usize..13,
        by_rank in any::<bool>(),
    ) {
        const ELEMENTS: usize = 600;
        let mut plan = Plan::one_armed();
        plan.jobs[0].max_payload = 4096;
        if by_rank {
            plan.jobs[0].kind = kind(Policy { order: Order::Rank, ..Policy::default() }, ServerMode::None);
        }
        let mut bench = Bench::new(&plan);
        let mut workers: Vec<Worker> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
        workers.iter_mut().for_each(|worker| worker.payload = u16::try_from(ELEMENTS * 4).unwrap());
        bench.join(&mut workers);
        bench.heard(0);
        // Each of four contributions to three PSNs, some of them twice.
        let mut left = [1; 12];
        (0..twice.min(12)).for_each(|at| left[at] += 1);
        let frames: Vec<_> = order
            .into_iter()
            .filter(|&at| left[at] > 0 && { left[at] -= 1; true })
            .map(|at| {
                let worker = &workers[at % 4];
                worker.gradient(u32::try_from(at / 4).unwrap(), &contribution(worker.rank, ELEMENTS))
            })
            .collect();
        bench.feed(0, &frames);
        let heard = bench.heard(0);
        let replayed = usize::try_from(bench.appliance.get(Counter::Replayed)).unwrap();
        prop_assert_eq!(heard.len(), 12 + replayed);
        let sum = total(ELEMENTS);
        for psn in 0..3 {
            let results: Vec<_> = heard.iter().filter(|heard| heard.header.psn == psn).collect();
            let ranks: BTreeSet<_> = results.iter().map(|heard| heard.header.rank).collect();
            prop_assert_eq!(ranks.len(), 4);
            prop_assert!(results.iter().all(|heard| pascaline_testkit::values(&heard.body) == sum));
        }
        let duplicates = bench.appliance.dropped(DropReason::Duplicate);
        prop_assert_eq!(frames.len() as u64, 12 + duplicates + replayed as u64);
        bench.end();
    }
}

#[test]
fn floats_are_added_as_floats() {
    let (mut bench, mut workers) = four(&Plan::one_armed());
    let parts = [[0.5f32, 1e30, f32::NAN], [0.25, 1.0, 0.0], [-3.0, -1e30, 1.0], [1e-3, 2.0, 2.0]];
    for (worker, part) in workers.iter_mut().zip(parts) {
        worker.element = Element::F32_SUM;
        let body: Vec<u8> = part.iter().flat_map(|value| value.to_le_bytes()).collect();
        bench.feed(0, [&worker.frame(&worker.header(Kind::Gradient, 1, 1), &body)]);
    }
    for worker in &workers {
        assert_eq!(worker.element, Element::F32_SUM);
    }
    let heard = bench.heard(0);
    assert_eq!(heard.len(), 4);
    for result in heard {
        assert_eq!(result.header.element, Element::F32_SUM);
        let sums: Vec<f32> =
            result.body.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect();
        assert_eq!(sums[0], 0.5 + 0.25 - 3.0 + 1e-3);
        assert_eq!(sums[1], ((1e30 + 1.0) - 1e30) + 2.0, "in the order of arrival");
        assert!(sums[2].is_nan());
        assert!(!result.header.flags.has(Flags::OVERFLOW));
    }
    bench.end();
}

#[test]
fn integers_saturate_and_say_so_to_every_member() {
    let (mut bench, workers) = four(&Plan::one_armed());
    for worker in &workers {
        bench.feed(0, [&worker.gradient(1, &[i32::MAX / 2, 1])]);
    }
    let heard = bench.heard(0);
    assert_eq!(heard.len(), 4);
    assert!(heard.iter().all(|result| result.header.flags == Flags::OVERFLOW));
    assert_eq!(pascaline_testkit::values(&heard[0].body), [i32::MAX, 4]);
    assert_eq!(bench.appliance.get(Counter::Overflowed), 1);
    bench.end();
}

#[test]
fn members_share_one_payload_where_the_port_can_and_copy_it_where_not() {
    // Of four contributions one keeps the sum, and three leave with results, together with one of the header
    // buffers that the lcore has in reserve; or all are still there, and four copies beside them.
    for (multi_segment, more, copies) in [(true, 4, 0), (false, 8, 4)] {
        let (mut bench, workers) = four(&Plan::one_armed());
        bench.io().ports[0].multi_segment = multi_segment;
        bench.heard(0);
        let before = bench.pool.live();
        for worker in &workers {
            bench.feed(0, [&worker.gradient(1, &[1; 64])]);
        }
        assert_eq!(bench.io().ports[0].tx.len(), 4);
        assert_eq!(bench.pool.live(), before + more);
        assert_eq!(bench.appliance.get(Counter::PayloadCopies), copies);
        assert_eq!(bench.appliance.get(Counter::ResultsSent), 4);
        assert_results(&mut bench, &workers, 1, &[4; 64]);
        bench.end();
    }
}

#[test]
fn a_retransmission_is_answered_to_its_sender_alone_as_often_as_it_comes() {
    let (mut bench, workers) = four(&Plan::one_armed());
    for worker in &workers {
        bench.feed(0, [&worker.gradient(1, &[5])]);
    }
    assert_results(&mut bench, &workers, 1, &[20]);
    for repeat in 1..=3 {
        let again = &workers[2];
        let header =
            pascaline_wire::Header { flags: Flags::RETRANSMISSION, ..again.header(Kind::Gradient, 1, 1) };
        bench.feed(0, [&again.frame(&header, &5i32.to_le_bytes())]);
        assert_results(&mut bench, &workers[2..3], 1, &[20]);
        assert_eq!(bench.appliance.get(Counter::Replayed), repeat);
    }
    bench.end();
}

#[test]
fn a_reminder_gets_the_result_or_goes_to_those_who_are_missing() {
    let (mut bench, workers) = four(&Plan::one_armed());
    let reminded = |bench: &mut Bench, psn: u32| -> Vec<u16> {
        let heard = bench.heard(0);
        for reminder in &heard {
            reminder.assert_addressed_to(&workers[usize::from(reminder.header.rank)]);
            assert_eq!((reminder.header.kind, reminder.header.psn), (Kind::Reminder, psn));
            assert_eq!((reminder.header.epoch, reminder.body.len()), (workers[0].epoch, 0));
        }
        heard.iter().map(|reminder| reminder.header.rank).collect()
    };
    bench.feed(0, [&workers[1].reminder(1)]);
    assert_eq!(reminded(&mut bench, 1), [0, 2, 3], "nothing is known: all others");

    bench.feed(0, [&workers[1].gradient(1, &[1]), &workers[3].gradient(1, &[1])]);
    bench.feed(0, [&workers[1].reminder(1)]);
    assert_eq!(reminded(&mut bench, 1), [0, 2], "those who are not inside");
    bench.feed(0, [&workers[3].reminder(1)]);
    assert!(reminded(&mut bench, 1).is_empty(), "a moment ago");
    bench.clock.advance(2_000_000);
    bench.feed(0, [&workers[0].reminder(1)]);
    assert_eq!(reminded(&mut bench, 1), [2], "but not the one that asks");

    bench.feed(0, [&workers[0].gradient(1, &[1]), &workers[2].gradient(1, &[1])]);
    assert_results(&mut bench, &workers, 1, &[4]);
    bench.feed(0, [&workers[1].reminder(1)]);
    assert_results(&mut bench, &workers[1..2], 1, &[4]);
    assert_eq!(bench.appliance.get(Counter::RemindersReceived), 5);
    assert_eq!(bench.appliance.get(Counter::RemindersSent), 3 + 2 + 1);
    assert_eq!(bench.appliance.get(Counter::RemindersLimited), 1);
    bench.end();
}

/// One frame in for as many out as there are ranks: of what the pool knows and of what it does not.
#[test]
fn a_flood_of_reminders_is_passed_on_once_a_millisecond_for_each_psn_and_counted() {
    let (mut bench, workers) = four(&Plan::one_armed());
    bench.clock.advance(5_000_000);
    bench.feed(0, [&workers[3].gradient(1, &[1])]);
    for (round, ms) in [(1, 0), (2, 2)] {
        bench.clock.advance(ms * 1_000_000);
        for _ in 0..10 {
            bench.feed(0, [&workers[1].reminder(1), &workers[1].reminder(77)]);
        }
        // To ranks 0 and 2 for what rank 3 has contributed to, and to all others for what nobody has.
        assert_eq!(bench.heard(0).len(), 2 + 3);
        assert_eq!(bench.appliance.get(Counter::RemindersReceived), round * 20);
        assert_eq!(bench.appliance.get(Counter::RemindersLimited), round * 18);
    }
    // However many PSNs are named.
    bench.clock.advance(2_000_000);
    let flood: Vec<Vec<u8>> = (100..300).map(|psn| workers[1].reminder(psn)).collect();
    bench.feed(0, &flood);
    assert_eq!(bench.appliance.get(Counter::RemindersLimited), 36 + 200 - 64);
    let sent = bench.heard(0).len();
    assert_eq!(sent, 64 * 3);
    bench.end();
}

#[test]
fn a_kept_result_is_fanned_out_in_the_place_of_the_partial() {
    let (mut bench, workers) = four(&Plan::one_armed());
    // The appliance has lost the sum; one rank's retransmission has opened the slot again.
    bench.feed(0, [&workers[1].gradient(1, &[1])]);
    bench.feed(0, [&workers[2].cached_result(1, &[77])]);
    assert_results(&mut bench, &workers, 1, &[77]);
    bench.feed(0, [&workers[3].cached_result(1, &[77])]);
    assert!(bench.heard(0).is_empty());
    assert_eq!(bench.appliance.dropped(DropReason::Duplicate), 1);
    bench.feed(0, [&workers[3].gradient(1, &[1])]);
    assert_results(&mut bench, &workers[3..], 1, &[77]);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    bench.end();
}

/// A rank that has left lingers because only it may have kept what another still needs.
#[test]
fn ranks_that_have_left_are_reminded_and_their_kept_results_are_taken() {
    let (mut bench, workers) = four(&Plan { pool: single_slot(), ..Plan::one_armed() });
    for psn in 1..=2 {
        for worker in &workers {
            bench.feed(0, [&worker.gradient(psn, &[psn.cast_signed()])]);
        }
    }
    bench.heard(0);
    // Rank 3 has lost the result of PSN 1, which PSN 2 has displaced. The others are done.
    for worker in &workers[..3] {
        bench.feed(0, [&worker.control(Action::Leave)]);
        let heard = bench.heard_by(worker);
        assert_eq!(heard[0].control().status, Status::Pending);
    }
    bench.feed(0, [&workers[3].reminder(1)]);
    let reminded: Vec<u16> = bench.heard(0).iter().map(|heard| heard.header.rank).collect();
    assert_eq!(reminded, [0, 1, 2]);
    bench.feed(0, [&workers[0].cached_result(1, &[4])]);
    let heard: Vec<Heard> = bench.heard_by(&workers[3]);
    assert_eq!((heard.len(), heard[0].header.kind), (1, Kind::Result));
    bench.end();
}

#[test]
fn results_for_which_there_was_no_buffer_are_counted_and_recovered() {
    for multi_segment in [true, false] {
        let (mut bench, workers) = four(&Plan::one_armed());
        bench.io().ports[0].multi_segment = multi_segment;
        // Use up what the lcore has in reserve: a reminder takes three headers.
        bench.io().headers = 0;
        bench.io().frames = 1;
        for psn in 100..112 {
            bench.feed(0, [&workers[0].reminder(psn)]);
        }
        bench.heard(0);
        let before = bench.appliance.get(Counter::NoBuffer);
        for worker in &workers {
            bench.feed(0, [&worker.gradient(1, &[1])]);
        }
        // Two results go out with contributions that have been added before, where those need not hold the
        // values.
        let sent = if multi_segment { 2 } else { 1 };
        assert_eq!(bench.heard(0).len(), sent);
        assert_eq!(bench.appliance.get(Counter::NoBuffer) - before, 4 - sent as u64);
        assert_eq!(bench.appliance.get(Counter::ResultsSent), sent as u64);
        bench.io().headers = 64;
        bench.io().frames = 64;
        for worker in &workers {
            bench.feed(0, [&worker.gradient(1, &[1])]);
            assert_results(&mut bench, &[*worker], 1, &[4]);
        }
        bench.end();
    }
}

/// Holds R9.6 of protocol.md.
#[test]
fn what_one_generation_began_the_next_does_not_finish() {
    let (mut bench, mut workers) = four(&Plan::one_armed());
    for worker in &workers[..3] {
        bench.feed(0, [&worker.gradient(1, &[1000])]);
    }
    workers[3].session += 1;
    bench.join(&mut workers);
    bench.heard(0);
    for worker in &workers {
        bench.feed(0, [&worker.gradient(1, &[1])]);
    }
    assert_results(&mut bench, &workers, 1, &[4]);
    // The sweep finds the partial of the past generation: its packet goes back.
    for _ in 0..1000 {
        bench.appliance.turn();
    }
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 1);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    bench.end();
}

/// A frame on its way to another UDP port. What is behind virtual links sends no sums, so none is mended.
fn to_port(mut frame: Vec<u8>, port: u16) -> Vec<u8> {
    let Net::Ip(ip) = Frame::parse(&frame).unwrap().net else { panic!("not IP") };
    frame[ip.l4 + 2..ip.l4 + 4].copy_from_slice(&port.to_be_bytes());
    frame
}

/// Holds R2.2 of protocol.md.
#[test]
fn every_udp_port_of_the_appliance_takes_every_psn_and_the_next_ones_are_not_its_own() {
    let plan = Plan { udp_ports: UdpPorts::new(UDP_PORT, 4).unwrap(), ..two_ports() };
    let mut bench = Bench::new(&plan);
    let mut workers = mixed();
    bench.join(&mut workers);
    // PSN 5 is that of the second port: none but the second rank steers it there.
    for (worker, port) in workers.iter().zip(UDP_PORT..) {
        let frame = to_port(worker.gradient(5, &contribution(worker.rank, 8)), port);
        send(&mut bench, worker, &frame);
    }
    assert_results(&mut bench, &workers, 5, &total(8));
    for worker in &workers {
        for port in [UDP_PORT - 1, UDP_PORT + 4] {
            send(&mut bench, worker, &to_port(worker.gradient(6, &[1]), port));
        }
    }
    assert_eq!(bench.appliance.dropped(DropReason::NoService), 8);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
}
