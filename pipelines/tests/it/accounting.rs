//! Every packet is accounted for, whatever arrives and whatever runs out.

use pascaline_aggregator::PoolConfig;
use pascaline_pipelines::IdlePolicy;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, OWN_V4, OWN_V6, Worker, port_mac};
use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::control::Action;
use pascaline_wire::frame::Mac;
use proptest::prelude::*;

use crate::common::appliance::{Bench, Plan, job, single_slot};

#[derive(Debug, Clone)]
enum Step {
    /// A frame of this kind, about this PSN, from this rank; then bytes changed and the end cut off.
    Frame {
        kind: u8,
        psn: u32,
        rank: u16,
        old: bool,
        changes: Vec<(u8, u8)>,
        cut: Option<u8>,
    },
    Turn,
    Room(usize, usize),
    Headers(usize),
    Frames(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let changes = prop_oneof![
        3 => Just(Vec::new()),
        1 => proptest::collection::vec((any::<u8>(), any::<u8>()), 1..4),
    ];
    let frame = (
        0u8..12,
        0u32..6,
        0u16..4,
        prop::bool::weighted(0.1),
        changes,
        prop::option::weighted(0.1, any::<u8>()),
    )
        .prop_map(|(kind, psn, rank, old, changes, cut)| Step::Frame {
            kind,
            psn,
            rank,
            old,
            changes,
            cut,
        });
    prop_oneof![
        12 => frame,
        3 => Just(Step::Turn),
        1 => (0usize..3, prop_oneof![0usize..4, Just(usize::MAX)])
            .prop_map(|(port, room)| Step::Room(port, room)),
        1 => prop_oneof![0usize..4, Just(usize::MAX)].prop_map(Step::Headers),
        1 => prop_oneof![0usize..4, Just(usize::MAX)].prop_map(Step::Frames),
        1 => (0u64..2_000_000_000).prop_map(Step::Advance),
    ]
}

fn frame(worker: &Worker, kind: u8, psn: u32) -> Vec<u8> {
    let values = [psn.cast_signed(); 8];
    let to_other = |mut frame: Vec<u8>| {
        frame[0] ^= 0x40;
        frame
    };
    match kind {
        0..5 => worker.gradient(psn, &values),
        5 => worker.reminder(psn),
        6 => worker.cached_result(psn, &values),
        7 => worker.control(Action::Join),
        8 => worker.control(if psn == 0 { Action::Leave } else { Action::Join }),
        9 => to_other(worker.gradient(psn, &values)),
        10 => {
            let mut packet = [0; 28];
            let (sender_ip, target_ip) = ([10, 77, 0, 9], OWN_V4.as_v4().unwrap());
            let asker = Arp {
                operation: Operation::Request,
                sender_mac: worker.mac,
                sender_ip,
                target_mac: Mac::default(),
                target_ip,
            };
            asker.emit(&mut packet).unwrap();
            [&[0xff; 6][..], &worker.mac.0, &[8, 6], &packet].concat()
        }
        _ => echo(worker),
    }
}

/// An ICMPv6 echo request, which carries the checksum of its own making.
fn echo(worker: &Worker) -> Vec<u8> {
    use pascaline_wire::checksum;
    let source = worker.v6().address;
    let mut message = [128, 0, 0, 0, 0, 1, 0, 2];
    let sum = checksum::finish(checksum::pseudo_header(source, OWN_V6, 58, 8) + checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = [&[0x60, 0, 0, 0, 0, 8, 58, 64][..], &source.octets(), &OWN_V6.octets(), &message].concat();
    let port = port_mac(u8::try_from(worker.port).unwrap());
    [&port.0[..], &worker.mac.0, &[0x86, 0xdd], &ip].concat()
}

/// What the counters say has been staged, leaving out the control plane's answers.
fn staged(bench: &Bench) -> u64 {
    let reading = bench.appliance.reading();
    let in_place = reading.get(Counter::Answered) - reading.get(Counter::Replayed) - bench.appliance.requests;
    let made = [Counter::Forwarded, Counter::FloodCopies, Counter::ResultsSent];
    let made = made.into_iter().chain([Counter::RemindersSent, Counter::RefusalsSent]);
    in_place + made.map(|counter| reading.get(counter)).sum::<u64>()
}

fn check(bench: &mut Bench) -> Result<(), TestCaseError> {
    let reading = bench.appliance.reading();
    prop_assert_eq!(reading.unaccounted(), 0);
    let waiting = bench.appliance.lcores[0].waiting() as u64;
    prop_assert_eq!(reading.get(Counter::Sent), bench.io().sent);
    let left = reading.get(Counter::Sent) + waiting + reading.get(Counter::TransmitDropped);
    let (staged, replies) = (staged(bench), bench.appliance.replies);
    // An answer for which there was no buffer has not been staged.
    prop_assert!(left <= staged + replies, "{left} left, {staged} + {replies} staged");
    prop_assert!(left + reading.get(Counter::NoBuffer) >= staged + replies);
    Ok(())
}

fn take_step(bench: &mut Bench, workers: &[Worker], step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Frame { kind, psn, rank, old, changes, cut } => {
            let mut worker = workers[usize::from(rank)];
            worker.epoch = worker.epoch.wrapping_sub(u16::from(old));
            worker.session += u64::from(old && psn == 5);
            let mut frame = frame(&worker, kind, psn);
            for (at, value) in changes {
                let at = usize::from(at) % frame.len();
                frame[at] = value;
            }
            if let Some(cut) = cut {
                frame.truncate(usize::from(cut));
            }
            bench.io().arrive(worker.port, &frame);
        }
        Step::Turn => {
            bench.appliance.turn();
            check(bench)?;
        }
        Step::Room(port, room) if port < bench.io().ports.len() => bench.io().ports[port].room = room,
        Step::Room(..) => {}
        Step::Headers(count) => bench.io().headers = count,
        Step::Frames(count) => bench.io().frames = count,
        Step::Advance(nanos) => bench.clock.advance(nanos),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_arrives_and_whatever_runs_out(
        peers in proptest::collection::vec(prop::option::of(0usize..4), 1..4),
        multi_segment in any::<[bool; 3]>(),
        joined in any::<bool>(),
        bridge in prop::option::of(1usize..9),
        tiny in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..250),
    ) {
        let ports = peers.len();
        let roomy = PoolConfig { slots: 16, ways: 2, ..PoolConfig::default() };
        let pool = if tiny { single_slot() } else { roomy };
        let jobs = vec![job(JOB, 4)];
        let plan = Plan { peers, bridge, jobs, pool, first_epoch: 3, ..Plan::one_armed() };
        let mut bench = Bench::new(&plan);
        let mut workers: Vec<Worker> =
            (0..4).map(|rank| Worker::new(rank, 4).at(usize::from(rank) % ports)).collect();
        workers[1] = workers[1].v6();
        workers[2] = workers[2].tagged(0x8100, 9);
        for (port, can) in bench.io().ports.iter_mut().zip(multi_segment) {
            port.multi_segment = can;
        }
        if joined {
            bench.join(&mut workers);
        }
        for step in steps {
            take_step(&mut bench, &workers, step)?;
        }
        while bench.io().ports.iter().any(|port| !port.rx.is_empty()) {
            bench.appliance.turn();
        }
        check(&mut bench)?;
        // The end of the lcore, with whatever still waits.
        bench.appliance.plane.stop();
        bench.appliance.lcores[0].run(IdlePolicy::Spin);
        check(&mut bench)?;
        prop_assert_eq!(bench.appliance.lcores[0].waiting(), 0);
        let pool = bench.pool.clone();
        drop(bench);
        prop_assert_eq!(pool.live(), 0);
    }
}

#[test]
fn frames_given_up_at_the_end_are_accounted_for() {
    let mut bench = Bench::new(&Plan::inline());
    bench.io().ports[1].room = 0;
    let passing = frame(&Worker::new(0, 4), 9, 0);
    bench.feed(0, [&passing, &passing]);
    assert_eq!(bench.appliance.lcores[0].waiting(), 2);
    bench.appliance.plane.stop();
    bench.appliance.lcores[0].run(IdlePolicy::Spin);
    assert_eq!(bench.appliance.reading().unaccounted(), 0);
    assert_eq!(bench.appliance.get(Counter::TransmitDropped), 2);
    assert_eq!(bench.appliance.dropped(DropReason::TransmitFull), 0);
    bench.end();
}

#[test]
fn what_waits_for_a_full_port_leaves_as_soon_as_there_is_room() {
    let mut bench = Bench::new(&Plan::inline());
    bench.io().ports[1].room = 0;
    let passing = frame(&Worker::new(0, 4), 9, 0);
    bench.feed(0, [&passing]);
    bench.io().ports[1].room = 1;
    bench.settle();
    assert_eq!(bench.io().sent(1), [passing]);
    assert_eq!(bench.appliance.get(Counter::Sent), 1);
    bench.end();
}
