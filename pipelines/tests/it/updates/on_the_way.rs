//! From a worker to the server.

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::updates::Fate;
use pascaline_queue::{Config, Discipline};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::trailer::{Trailer, Update};

use super::{Rig, SERVER_PORT, emitted, queue, update};
use pascaline_buffer::PacketBuf;
use pascaline_testkit::{JOB, bytes, received};

#[test]
fn an_update_that_meets_no_other_leaves_as_it_came() {
    let mut rig = Rig::new(queue(8));
    let worker = rig.worker(1, 2);
    // Behind the packet there may be what belongs to nobody.
    let mut frame = update(&worker, 77, &[1, -2, 3], 0.25, 999_999_999);
    frame.extend([0xee; 9]);
    rig.send([frame]);
    let served = rig.served();
    let [got] = &served[..] else { panic!("{served:?}") };
    let expected = Header {
        flags: Flags::TRAILER,
        element: Element::I32_SUM,
        job: JOB + 1,
        rank: 2,
        psn: 77,
        count: 1,
        epoch: worker.epoch,
        ..worker.header(Kind::Update, 77, 1)
    };
    assert_eq!(got.header, expected);
    assert_eq!(got.values, [1, -2, 3]);
    assert_eq!(got.update, Update { reward: 0.25, generated_ns: 999_999_999 });
    assert_eq!(rig.bench.appliance.get(Counter::ServerSent), 1);
    assert_eq!(rig.bench.appliance.get(Counter::Absorbed), 1);
    assert!(rig.bench.heard(0).is_empty(), "nobody else hears of it");
    rig.end();
}

#[test]
fn workers_and_server_may_be_reached_by_different_layers_below() {
    let mut rig = Rig::new(queue(8));
    let mut frames = Vec::new();
    for (rank, worker) in rig.workers[0].clone().into_iter().enumerate() {
        let worker =
            [worker.v6(), worker.tagged(0x8100, 9), worker.v6().tagged(0x88a8, 1).tagged(0x8100, 2)][rank];
        rig.workers[0][rank] = pascaline_testkit::Worker { session: 2000, ..worker };
    }
    rig.bench.join(&mut rig.workers[0]);
    rig.register();
    rig.plug();
    for (psn, worker) in (0..).zip(&rig.workers[0]) {
        frames.push(rig.update(worker, psn, &[10i32.pow(psn); 5]));
    }
    rig.send(frames);
    let served = rig.unplug();
    assert_eq!(served.len(), 1);
    assert_eq!((served[0].brief(), &served[0].values), ((JOB, 0, 0, 3), &vec![111; 5]));
    rig.end();
}

#[test]
fn waiting_updates_of_a_cluster_are_combined_and_the_header_says_so() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let now = rig.bench.clock.now();
    let worker = |rank| rig.worker(0, rank);
    let frames = [
        update(&worker(1), 40, &[1, 10], 1.0, now - 500),
        rig.update(&rig.worker(1, 0), 5, &[7, 7]),
        update(&worker(0), 90, &[2, 20], 2.0, now - 100),
        update(&worker(1), 41, &[4, 40], 6.0, now - 300),
        update(&worker(2), 3, &[8, 80], 3.0, now - 400),
    ];
    rig.send(frames);
    assert_eq!(rig.reading().waiting, 2);
    let served = rig.unplug();
    let [combined, other] = &served[..] else { panic!("{served:?}") };
    // In the place of the first one, with the newest number of that one's worker.
    assert_eq!(combined.brief(), (JOB, 1, 41, 4));
    assert_eq!((combined.values.as_slice(), combined.update.generated_ns), (&[15, 150][..], now - 100));
    assert_eq!(combined.update.reward.to_bits(), 3.0f32.to_bits(), "the mean");
    assert_eq!(other.brief(), (JOB + 1, 0, 5, 1));
    assert_eq!((rig.fate(Fate::Appended), rig.fate(Fate::Aggregated), rig.fate(Fate::Departed)), (3, 3, 3));
    assert_eq!(rig.reading().classes()[..4], [2, 0, 0, 1]);
    rig.end();
}

#[test]
fn a_workers_newer_update_replaces_its_older_one() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let worker = rig.worker(0, 1);
    for psn in 0..10 {
        rig.bench.clock.advance(10);
        let frame = rig.update(&worker, psn, &[psn.cast_signed()]);
        rig.send([frame]);
    }
    let late = update(&worker, 11, &[100], 0.0, rig.bench.clock.now() - 10);
    rig.send([late]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::Outdated), 1);
    let served = rig.unplug();
    assert_eq!((served.len(), served[0].brief(), &served[0].values), (1, (JOB, 1, 9, 1), &vec![9]));
    assert_eq!((rig.fate(Fate::Replaced), rig.fate(Fate::Outdated)), (9, 1));
    rig.end();
}

/// The network may repeat any packet, however soon. (Protocol, section 11.)
#[test]
fn a_repeated_update_comes_in_once() {
    let mut rig = Rig::new(queue(8));
    let worker = rig.worker(0, 1);
    let frame = rig.update(&worker, 7, &[1]);
    rig.send([frame.clone()]);
    assert_eq!(rig.served().len(), 1);
    rig.send([frame.clone()]);
    assert_eq!(rig.served().len(), 0, "it has left already");
    rig.plug();
    let (overtaken, next) = (rig.update(&worker, 8, &[2]), rig.update(&worker, 9, &[4]));
    let mate = rig.update(&rig.worker(0, 0), 7, &[8]);
    rig.send([mate, next.clone(), next.clone(), overtaken.clone()]);
    rig.send([next, overtaken, frame]);
    let served = rig.unplug();
    assert_eq!((served.len(), served[0].brief(), &served[0].values), (1, (JOB, 0, 7, 3), &vec![14]));
    assert_eq!(rig.bench.appliance.dropped(DropReason::Duplicate), 5);
    let of_job = rig.bench.appliance.plane.membership().counts_of(JOB).unwrap().read();
    assert_eq!(of_job.dropped(DropReason::Duplicate), 5);
    rig.end();
}

/// What is damaged and comes first does not keep out the sound one.
#[test]
fn an_update_that_is_refused_may_come_again() {
    let mut rig = Rig::new(queue(8));
    let worker = rig.worker(0, 1);
    let floats = Header { element: Element::F32_SUM, ..worker.header(Kind::Update, 7, 1) };
    let floats = Header { flags: Flags::TRAILER, ..floats };
    let about = Trailer { update: Some(Update { reward: 0.0, generated_ns: 0 }), ..Trailer::default() };
    let frame = |value: f32| worker.frame(&floats, &[&value.to_le_bytes()[..], &emitted(&about)].concat());
    rig.send([frame(f32::NAN), frame(1.0), frame(1.0)]);
    assert_eq!(rig.served().len(), 1);
    let dropped = |reason| rig.bench.appliance.dropped(reason);
    assert_eq!((dropped(DropReason::UpdateNotFinite), dropped(DropReason::Duplicate)), (1, 1));
    rig.bench.heard(0);
    rig.end();
}

#[test]
fn first_in_first_out_combines_nothing_and_loses_what_finds_no_segment() {
    let config = Config { segments: 2, discipline: Discipline::Fifo, ..Config::default() };
    let mut rig = Rig::new(PortQueue { queue: config, rate: None });
    rig.plug();
    let worker = rig.worker(0, 1);
    for psn in 0..5 {
        let frame = rig.update(&worker, psn, &[1]);
        rig.send([frame]);
    }
    assert_eq!(rig.bench.appliance.dropped(DropReason::UpdateQueueFull), 3);
    let served: Vec<_> = rig.unplug().iter().map(super::FromQueue::brief).collect();
    assert_eq!(served, [(JOB, 1, 0, 1), (JOB, 1, 1, 1)]);
    rig.end();
}

#[test]
fn the_packet_that_came_is_the_one_that_leaves() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let worker = rig.worker(0, 1);
    let first = received(&rig.bench.pool, &rig.update(&worker, 0, &[5; 64]));
    let memory = first.bytes()[64..].as_ptr();
    rig.bench.feed_packet(0, first);
    let other = rig.update(&rig.worker(0, 2), 0, &[6; 64]);
    rig.send([other]);
    rig.bench.io().ports[SERVER_PORT].room = usize::MAX;
    rig.bench.settle();
    rig.bench.settle();
    let sent: Vec<_> = rig.bench.io().ports[SERVER_PORT].sent().collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].bytes()[64..].as_ptr(), memory, "payload and all");
    assert_eq!(sent[1].bytes()[64..68], 11i32.to_le_bytes());
    drop(sent);
    rig.end();
}

#[test]
fn what_goes_round_the_queue_is_passed_on_as_it_is() {
    let mut rig = Rig::new(queue(8));
    let worker = rig.worker(0, 1);
    rig.send([worker.bypass(Kind::Gradient, u32::MAX, &bytes(&[3, 4]))]);
    let heard = rig.bench.heard(SERVER_PORT);
    let [got] = &heard[..] else { panic!("{heard:?}") };
    let expected = Header { flags: Flags::BYPASS, ..worker.header(Kind::Gradient, u32::MAX, 1) };
    assert_eq!((got.header, got.contents().0), (expected, vec![3, 4]));
    assert_eq!((rig.reading().received(), rig.bench.appliance.get(Counter::Forwarded)), (0, 1));
    rig.end();
}

#[test]
fn sums_that_saturate_say_so() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let frames: Vec<_> = rig.workers[0].iter().map(|worker| rig.update(worker, 0, &[i32::MAX / 2])).collect();
    rig.send(frames);
    let marked =
        Header { flags: Flags::TRAILER.with(Flags::OVERFLOW), ..rig.worker(1, 0).header(Kind::Update, 0, 1) };
    let about = Trailer { update: Some(Update { reward: 0.0, generated_ns: 0 }), ..Trailer::default() };
    let frame = rig.worker(1, 0).frame(&marked, &[bytes(&[1]), emitted(&about)].concat());
    rig.send([frame]);
    let served = rig.unplug();
    assert_eq!(served[0].values, [i32::MAX]);
    assert!(served.iter().all(|update| update.header.flags == marked.flags), "{served:?}");
    rig.end();
}
