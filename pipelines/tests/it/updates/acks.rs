//! From the server to the workers.

use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{QueueState, Trailer, Update};

use super::{RANKS, Rig, SERVER_PORT, emitted, queue};
use pascaline_testkit::{Heard, Worker, bytes, values};

const ABOUT: Update = Update { reward: -1.5, generated_ns: 123_456_789 };

/// The server's answer to an update of rank 1 that stood for two.
fn ack(server: &Worker, flags: Flags, weights: &[i32]) -> Vec<u8> {
    let trailer = Trailer { update: Some(ABOUT), ..Trailer::default() };
    let header = Header { rank: 1, flags: flags.with(Flags::TRAILER), ..server.header(Kind::Ack, 66, 2) };
    server.frame(&header, &[bytes(weights), emitted(&trailer)].concat())
}

/// Asserts that a worker has heard this answer once, with this state.
#[track_caller]
fn assert_ack(rig: &mut Rig, worker: &Worker, weights: &[i32], state: QueueState) {
    let heard = rig.bench.heard_by(worker);
    let [ack] = &heard[..] else { panic!("one answer: {heard:?}") };
    assert_same(ack, worker, weights, state);
}

#[track_caller]
fn assert_same(ack: &Heard, worker: &Worker, weights: &[i32], state: QueueState) {
    assert_eq!((ack.dst, ack.vlan, ack.from.0), (worker.mac, worker.vlan, worker.local()));
    // As the server wrote it: whose update is answered, and which.
    let expected =
        Header { flags: Flags::TRAILER, rank: 1, epoch: worker.epoch, ..worker.header(Kind::Ack, 66, 2) };
    assert_eq!(ack.header, expected);
    let (payload, trailer) = ack.header.payload(&ack.body).unwrap();
    assert_eq!(values(payload), weights);
    let expected = Trailer { update: Some(ABOUT), queue: Some(state), ..Trailer::default() };
    assert_eq!(trailer, Some(expected));
}

#[test]
fn an_answer_goes_to_the_whole_cluster_with_the_state_of_the_queue() {
    for multi_segment in [true, false] {
        let mut rig = Rig::new(queue(5));
        rig.bench.io().ports[0].multi_segment = multi_segment;
        rig.plug();
        let frames = [rig.update(&rig.worker(0, 0), 0, &[1]), rig.update(&rig.worker(1, 0), 0, &[2])];
        rig.send(frames);
        let (frame, workers) = (ack(&rig.servers[0], Flags::NONE, &[7, 8, 9]), rig.workers[0].clone());
        rig.bench.feed(SERVER_PORT, [&frame]);
        let heard = rig.bench.heard(0);
        assert_eq!(heard.len(), usize::from(RANKS), "nobody else");
        let state = QueueState { clusters: 3, capacity: 5, waiting: 2 };
        for (heard, worker) in heard.iter().zip(&workers) {
            assert_eq!(heard.to, (worker.address, worker.udp_port));
            assert_same(heard, worker, &[7, 8, 9], state);
        }
        assert_eq!(rig.bench.appliance.get(Counter::AcksSent), 3);
        assert_eq!(rig.bench.appliance.get(Counter::Forwarded), 1);
        assert_eq!(rig.bench.appliance.get(Counter::PayloadCopies), if multi_segment { 0 } else { 3 });
        let counts = rig.bench.appliance.plane.membership().counts();
        let job = counts.iter().find(|(id, _)| *id == workers[0].job).map(|(_, cells)| cells.read()).unwrap();
        assert_eq!((job.model_ns, job.get(JobEvent::Answers)), (ABOUT.generated_ns, 1));
        assert_eq!((job.ranks[0].contributions, job.contribution_bytes()), (1, 4), "an update of one value");
        rig.end();
    }
}

#[test]
fn with_bypass_it_goes_to_one_rank_alone() {
    let mut rig = Rig::new(queue(8));
    let frame = ack(&rig.servers[1], Flags::BYPASS, &[5]);
    rig.bench.feed(SERVER_PORT, [&frame]);
    let worker = rig.worker(1, 1);
    assert_ack(&mut rig, &worker, &[5], QueueState { clusters: 0, capacity: 8, waiting: 0 });
    assert!(rig.bench.heard(0).is_empty());
    assert_eq!(rig.bench.appliance.get(Counter::AcksSent), 1);
    rig.end();
}

#[test]
fn a_bare_acknowledgement_carries_no_weights_and_perhaps_no_trailer() {
    let mut rig = Rig::new(queue(8));
    let frame = ack(&rig.servers[0], Flags::NONE, &[]);
    rig.bench.feed(SERVER_PORT, [&frame]);
    let state = QueueState { clusters: 0, capacity: 8, waiting: 0 };
    let heard = rig.bench.heard(0);
    assert_eq!(heard.len(), 3);
    assert_same(&heard[2], &rig.worker(0, 2), &[], state);
    let frame = rig.servers[0].frame(&Header { rank: 1, ..rig.servers[0].header(Kind::Ack, 66, 2) }, &[]);
    rig.bench.feed(SERVER_PORT, [&frame]);
    let heard = rig.bench.heard(0);
    let (_, trailer) = heard[0].header.payload(&heard[0].body).unwrap();
    assert_eq!(trailer, Some(Trailer { queue: Some(state), ..Trailer::default() }));
    rig.end();
}

#[test]
fn clusters_that_fall_silent_are_not_active_any_more() {
    let mut rig = Rig::new(queue(8));
    let frames: Vec<_> = (0..3).map(|cluster| rig.update(&rig.worker(cluster, 0), 0, &[1])).collect();
    rig.send(frames);
    assert_eq!(rig.reading().clusters, 3);
    rig.bench.clock.advance(2_000_000_000);
    let frame = rig.update(&rig.worker(1, 0), 1, &[1]);
    rig.send([frame]);
    assert_eq!(rig.reading().clusters, 1);
    rig.end();
}

/// Holds R15.5 of protocol.md.
#[test]
fn nobody_but_the_clusters_server_is_heeded() {
    let mut rig = Rig::new(queue(8));
    let server = rig.servers[0];
    let cases = [
        (DropReason::UnknownJob, Worker { job: 99, ..server }),
        (DropReason::RankSpoofed, Worker { udp_port: 7, ..server }),
        (DropReason::RankSpoofed, Worker { address: Address::from_v4([10, 77, 0, 201]), ..server }),
        (DropReason::RankSpoofed, Worker { port: SERVER_PORT, ..rig.worker(0, 1) }),
        (DropReason::WrongEpoch, Worker { epoch: server.epoch - 1, ..server }),
        // Longer than its workers have agreed on.
        (DropReason::PayloadLength, server),
    ];
    for (reason, from) in cases {
        let weights = if reason == DropReason::PayloadLength { vec![0; 257] } else { vec![1] };
        let before = rig.bench.appliance.dropped(reason);
        rig.bench.feed(SERVER_PORT, [&ack(&from, Flags::NONE, &weights)]);
        assert_eq!(rig.bench.appliance.dropped(reason), before + 1, "{}", reason.name());
    }
    let nobody = Header { rank: 77, flags: Flags::BYPASS, ..server.header(Kind::Ack, 1, 1) };
    rig.bench.feed(SERVER_PORT, [&server.frame(&nobody, &[])]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::NotMember), 1);
    // Nor does it send anything else to a cluster.
    rig.bench.feed(SERVER_PORT, [&server.frame(&server.header(Kind::Result, 1, 3), &bytes(&[1]))]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::UnhandledKind), 1);
    assert!(rig.bench.heard(0).is_empty() && rig.bench.heard(SERVER_PORT).is_empty());
    rig.end();
}

#[test]
fn members_without_a_buffer_are_counted() {
    let mut rig = Rig::new(queue(8));
    rig.bench.io().headers = 2;
    let frame = ack(&rig.servers[0], Flags::NONE, &[1]);
    // Some may be kept from before.
    let before = rig.bench.appliance.get(Counter::NoBuffer);
    for _ in 0..20 {
        rig.bench.feed(SERVER_PORT, [&frame]);
    }
    let missed = rig.bench.appliance.get(Counter::NoBuffer) - before;
    assert!(missed > 0);
    assert_eq!(rig.bench.appliance.get(Counter::AcksSent), 60 - missed);
    assert_eq!(rig.bench.heard(0).len() as u64, 60 - missed);
    rig.end();
}
