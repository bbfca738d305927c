//! A server that is a process of its own, reached by frames.

use pascaline_aggregator::{ConflictPolicy, Policy};
use pascaline_pipelines::membership::{SILENCE, ServerMode};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::{self, Action, Control, SERVER_RANK, Status};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Flags, Header, Kind, Own};
use pascaline_wire::round;

use super::{first_come, gradient, part, plan};
use crate::common::{
    self,
    appliance::{Bench, Plan, assert_results},
};
use pascaline_testkit::{Heard, Worker, bytes, trailer};

/// The host that the server runs on, behind port 1.
fn host() -> Worker {
    common::server_host(1)
}

/// Four ranks behind port 0, and a server that has not registered yet.
fn unregistered(policy: Policy, server: &Worker) -> (Bench, Vec<Worker>) {
    let mode = ServerMode::External { address: server.address, udp_port: server.udp_port };
    let mut bench = Bench::new(&Plan { peers: vec![None, None], ..plan(policy, mode) });
    let mut workers: Vec<Worker> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
    bench.join(&mut workers);
    (bench, workers)
}

/// The same with the server registered, which then speaks of the job as it is.
fn registered(policy: Policy, mut server: Worker) -> (Bench, Vec<Worker>, Worker) {
    let (mut bench, workers) = unregistered(policy, &server);
    bench.feed(server.port, [&server.control(Action::Serve)]);
    let heard = bench.heard(1);
    let [ack] = &heard[..] else { panic!("{heard:?}") };
    ack.assert_addressed_to(&server);
    let control = ack.control();
    assert_eq!((control.status, control.answers), (Status::Ok, Some(Action::Serve)));
    assert_eq!((ack.header.fan_in, control.joined, control.payload), (4, 4, 1024));
    (server.fan_in, server.epoch) = (4, ack.header.epoch);
    (bench, workers, server)
}

/// What the server has heard since the last call. Nothing else goes its way, and nothing goes by queue.
#[track_caller]
fn served(bench: &mut Bench, server: &Worker) -> Vec<Heard> {
    assert!(bench.served().is_empty());
    let heard = bench.heard(server.port);
    for heard in &heard {
        let Heard { dst, vlan, from, to, header, .. } = heard;
        assert_eq!((*dst, *vlan, header.job), (server.mac, server.vlan, server.job));
        assert_eq!((*from, *to), ((server.local(), 16420), (server.address, server.udp_port)));
    }
    heard
}

#[test]
fn before_it_has_registered_there_is_none() {
    let (mut bench, workers) = unregistered(first_come(), &host());
    bench.feed(0, [&gradient(&workers[0], 1, 0), &gradient(&workers[1], 2, 0)]);
    assert_eq!(bench.appliance.dropped(DropReason::Conflict), 1);
    let fetch = host().frame(&workers[0].header(Kind::Fetch, 1, 0), &[]);
    bench.feed(1, [&fetch]);
    assert_eq!(bench.appliance.dropped(DropReason::RankSpoofed), 1);
    assert!(bench.heard(1).is_empty());
    bench.end();
}

#[test]
fn what_finds_no_slot_is_sent_there_by_the_way_it_came() {
    // The same layers below as the workers', longer ones, and shorter ones than some.
    let servers = [host(), host().v6().tagged(0x8100, 0x0064), host().tagged(0x88a8, 7).tagged(0x8100, 8)];
    for server in servers {
        let policy = Policy { conflict: ConflictPolicy::Preempt, ..Policy::default() };
        let (mut bench, workers, server) = registered(policy, server);
        bench.feed(0, [&gradient(&workers[3], 1, 8), &gradient(&workers[2], 1, 8)]);
        // A contribution that fails to preempt.
        let mut frame = gradient(&workers[1], 2, 8);
        frame.extend([0xee; 6]);
        bench.feed(0, [&frame]);
        let heard = served(&mut bench, &server);
        let [spilled] = &heard[..] else { panic!("{heard:?}") };
        let expected = Header { own: Own::sum(8, u16::MAX), ..workers[1].header(Kind::Gradient, 2, 1) };
        assert_eq!((spilled.header, spilled.contents()), (expected, (part(1).to_vec(), None)));
        // A partial that is preempted.
        bench.feed(0, [&gradient(&workers[0], 3, 9)]);
        let heard = served(&mut bench, &server);
        let [evicted] = &heard[..] else { panic!("{heard:?}") };
        let Header { kind, flags, rank, count, own, .. } = evicted.header;
        assert_eq!((kind, flags, rank, count, own.priority()), (Kind::Partial, Flags::TRAILER, 0, 2, 4));
        assert_eq!(evicted.contents(), (vec![1100, -2], Some(vec![2, 3])));
        // A reminder, and what goes round the pool.
        bench.feed(0, [&workers[2].reminder(7), &workers[2].bypass(Kind::Result, 7, &bytes(&[5]))]);
        let heard = served(&mut bench, &server);
        let kinds: Vec<_> = heard.iter().map(|heard| (heard.header.kind, heard.header.rank)).collect();
        assert_eq!(kinds, [(Kind::Reminder, 2), (Kind::Result, 2)]);
        assert!(bench.heard(0).is_empty());
        assert_eq!(bench.appliance.get(Counter::ServerSent), 4);
        assert_eq!(bench.appliance.get(Counter::NoBuffer), 0);
        bench.end();
    }
}

#[test]
fn what_it_sends_is_done() {
    for server in [host(), host().v6().tagged(0x8100, 0x0064)] {
        let (mut bench, workers, server) = registered(first_come(), server);
        let about = |kind, psn, count| Header { rank: 0, ..server.header(kind, psn, count) };
        // A partial is fetched.
        bench.feed(0, [&gradient(&workers[3], 1, 0)]);
        bench.feed(1, [&server.frame(&about(Kind::Fetch, 1, 0), &[])]);
        let heard = served(&mut bench, &server);
        assert_eq!((heard.len(), heard[0].header.kind), (1, Kind::Partial));
        assert_eq!(heard[0].contents(), (part(3).to_vec(), Some(vec![3])));
        // The result comes back, to be kept and sent to all.
        let mut result = server.frame(&about(Kind::Result, 1, 4), &bytes(&[7, 8]));
        result.extend([0xee; 4]);
        bench.feed(1, [&result]);
        assert_results(&mut bench, &workers, 1, &[7, 8]);
        // It fetches that.
        bench.feed(1, [&server.frame(&about(Kind::Fetch, 1, 0), &[])]);
        let heard = served(&mut bench, &server);
        assert_eq!((heard.len(), heard[0].header.kind, heard[0].header.count), (1, Kind::Result, 4));
        assert_eq!(heard[0].contents(), (vec![7, 8], None));
        // To one rank.
        let one = Header { rank: 2, flags: Flags::BYPASS, ..about(Kind::Result, 2, 4) };
        bench.feed(1, [&server.frame(&one, &bytes(&[5, 6]))]);
        let heard = bench.heard(0);
        let [answer] = &heard[..] else { panic!("{heard:?}") };
        answer.assert_addressed_to(&workers[2]);
        assert_eq!((answer.header.flags, answer.contents().0), (Flags::NONE, vec![5, 6]));
        let one = Header { rank: 3, flags: Flags::BYPASS, ..about(Kind::Reminder, 2, 0) };
        bench.feed(1, [&server.frame(&one, &[])]);
        let heard = bench.heard(0);
        let [answer] = &heard[..] else { panic!("{heard:?}") };
        answer.assert_addressed_to(&workers[3]);
        assert_eq!((answer.header.kind, answer.header.flags), (Kind::Reminder, Flags::BYPASS));
        assert_eq!(bench.appliance.get(Counter::ServerResults), 1);
        bench.end();
    }
}

#[test]
fn a_result_of_some_ranks_may_be_followed_by_what_belongs_to_nobody() {
    for padding in [0, 1, 7] {
        let (mut bench, _, server) = registered(first_come(), host());
        let header = Header { rank: 0, flags: Flags::TRAILER, ..server.header(Kind::Result, 1, 3) };
        let mut frame = server.frame(&header, &[bytes(&[7, 8]), trailer(&[0, 1, 3], 4)].concat());
        frame.extend(vec![0xee; padding]);
        bench.feed(1, [&frame]);
        let heard = bench.heard(0);
        assert_eq!(heard.len(), 4);
        assert!(heard.iter().all(|heard| heard.contents() == (vec![7, 8], Some(vec![0, 1, 3]))), "{heard:?}");
        bench.end();
    }
}

/// The body of an Ack that refuses a contribution.
fn refusal() -> Vec<u8> {
    let status = Status::PayloadMismatch;
    Control { status, expected: 8, got: 4, ..Control::request(Action::Ack, 0) }.to_bytes().to_vec()
}

#[test]
fn a_rank_is_told_why_the_server_refuses_its_contribution() {
    let (mut bench, workers, server) = registered(first_come(), host());
    let about = Header { rank: 2, flags: Flags::BYPASS, ..server.header(Kind::Control, 1, 0) };
    bench.feed(1, [&server.frame(&about, &refusal())]);
    let heard = bench.heard(workers[2].port);
    let [told] = &heard[..] else { panic!("{heard:?}") };
    told.assert_addressed_to(&workers[2]);
    assert_eq!((told.header.flags, &told.body[..control::LEN]), (Flags::NONE, &refusal()[..]));
    // Nobody answers an Ack, not even of a job that there is not.
    bench.feed(1, [&server.frame(&Header { job: 99, ..about }, &refusal())]);
    bench.feed(1, [&server.frame(&Header { flags: Flags::NONE, ..about }, &refusal())]);
    assert_eq!(bench.appliance.dropped(DropReason::Control), 2);
    assert!(bench.heard(0).is_empty() && bench.heard(1).is_empty());
    bench.end();
}

#[test]
fn nobody_else_is_taken_for_it() {
    let (mut bench, workers, server) = registered(first_come(), host());
    bench.feed(0, [&gradient(&workers[3], 1, 0)]);
    let elsewhere = [
        Worker { udp_port: 1, ..server },
        Worker { address: Address::from_v4([10, 77, 0, 201]), ..server },
        Worker { port: 1, ..workers[0] },
    ];
    for from in elsewhere {
        let about = |kind, count| Header { rank: 0, ..server.header(kind, 1, count) };
        let frames = [
            from.frame(&about(Kind::Fetch, 0), &[]),
            from.frame(&Header { flags: Flags::BYPASS, rank: 2, ..about(Kind::Result, 4) }, &bytes(&[7])),
            from.frame(&Header { flags: Flags::BYPASS, rank: 2, ..about(Kind::Reminder, 0) }, &[]),
            from.frame(&Header { flags: Flags::BYPASS, rank: 2, ..about(Kind::Control, 0) }, &refusal()),
        ];
        let before = bench.appliance.dropped(DropReason::RankSpoofed);
        bench.feed(1, &frames);
        assert_eq!(bench.appliance.dropped(DropReason::RankSpoofed), before + 4, "{from:?}");
    }
    let forged = Worker { udp_port: 1, ..server };
    bench.feed(1, [&forged.frame(&Header { rank: 0, ..server.header(Kind::Result, 1, 4) }, &bytes(&[7]))]);
    assert!(bench.heard(0).is_empty() && bench.heard(1).is_empty());
    // It is bound to the generation itself.
    let old = Header { rank: 0, epoch: server.epoch - 1, ..server.header(Kind::Fetch, 1, 0) };
    bench.feed(1, [&server.frame(&old, &[])]);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 1);
    assert!(bench.heard(1).is_empty());
    // What was inside is inside.
    bench.feed(0, [&gradient(&workers[0], 1, 0), &gradient(&workers[1], 1, 0), &gradient(&workers[2], 1, 0)]);
    assert_results(&mut bench, &workers, 1, &[1111, -4]);
    bench.end();
}

#[test]
fn when_it_is_gone_nothing_goes_there_and_ranks_take_any_result() {
    let (mut bench, workers, mut server) = registered(first_come(), host());
    bench.feed(0, [&gradient(&workers[0], 1, 0), &gradient(&workers[1], 2, 0)]);
    assert_eq!(served(&mut bench, &server).len(), 1, "what finds no slot");
    bench.appliance.now += SILENCE;
    bench.appliance.control_turn();
    // Rank 1 may have promised to take no result but the server's; its original goes nowhere.
    let original = Header { own: Own::sum(7, 0), ..workers[1].header(Kind::Gradient, 2, 1) };
    let original = Header { flags: Flags::BYPASS.with(Flags::RETRANSMISSION), ..original };
    bench.feed(0, [&workers[1].frame(&original, &bytes(&part(1)))]);
    assert_eq!(bench.appliance.dropped(DropReason::NoServer), 1);
    bench.feed(0, [&gradient(&workers[2], 2, 0)]);
    assert_eq!(bench.appliance.dropped(DropReason::Conflict), 1, "refused as without a server");
    assert!(served(&mut bench, &server).is_empty());
    let again = |worker: &Worker| {
        let header = Header { flags: Flags::RETRANSMISSION, ..worker.header(Kind::Gradient, 1, 1) };
        worker.frame(&header, &bytes(&part(worker.rank)))
    };
    // The slot of a sum that the server would have had to judge is lost with it; the ranks send once more.
    let frames: Vec<_> = workers.iter().map(again).collect();
    bench.feed(0, &frames);
    assert!(bench.heard(0).is_empty() && served(&mut bench, &server).is_empty());
    bench.feed(0, &frames);
    let heard = bench.heard(0);
    assert_eq!(heard.len(), 4);
    for heard in &heard {
        assert_eq!((heard.header.kind, heard.header.own.priority()), (Kind::Result, round::TAKEN));
        assert_eq!(heard.contents().0, [1111, -4]);
    }
    // It is kept, and given again as any result.
    bench.feed(0, [&again(&workers[1])]);
    assert_eq!(
        bench.heard(0).iter().map(|heard| heard.header.own.priority()).collect::<Vec<_>>(),
        [round::TAKEN]
    );
    // What the server sends late changes nothing.
    server.rank = 0;
    bench.feed(1, [&server.frame(&server.header(Kind::Result, 2, 4), &bytes(&[7, 8]))]);
    assert!(bench.heard(0).is_empty());
    // It is back.
    bench.feed(1, [&Worker { rank: SERVER_RANK, fan_in: 0, ..server }.control(Action::Serve)]);
    assert_eq!(bench.heard(1).len(), 1);
    bench.feed(0, [&gradient(&workers[0], 3, 0), &gradient(&workers[1], 4, 0)]);
    assert_eq!(served(&mut bench, &server).len(), 1);
    bench.end();
}

/// It is known by session and place also while it is gone.
#[test]
fn a_flood_of_strangers_does_not_keep_it_away() {
    let (mut bench, workers, server) = registered(first_come(), host());
    bench.appliance.now += SILENCE;
    bench.appliance.control_turn();
    for number in 0..3000 {
        let stranger = Worker { session: 9_000 + number, udp_port: 9, ..workers[0] };
        bench.io().arrive(0, &stranger.control(Action::Leave));
    }
    while !bench.io().ports[0].rx.is_empty() {
        bench.appliance.lcores[0].turn();
    }
    assert!(bench.appliance.dropped(DropReason::ControlFull) > 1900);
    bench.io().arrive(1, &Worker { rank: SERVER_RANK, fan_in: 0, ..server }.control(Action::Serve));
    bench.appliance.lcores[0].turn();
    let turn = bench.appliance.control_turn();
    assert_eq!(turn.decided[0].request.control.session, server.session, "the first of all");
    bench.settle();
    bench.end();
}

#[test]
fn what_its_port_does_not_take_is_accounted_for() {
    let (mut bench, workers, server) = registered(first_come(), host());
    bench.feed(0, [&gradient(&workers[0], 0, 0)]);
    bench.io().ports[1].room = 5;
    for psn in 1..=400 {
        bench.feed(0, [&gradient(&workers[1], psn, 0)]);
    }
    let dropped = bench.appliance.get(Counter::TransmitDropped);
    assert!(dropped > 0);
    bench.io().ports[1].room = usize::MAX;
    bench.settle();
    assert_eq!(served(&mut bench, &server).len() as u64, 400 - dropped);
    bench.end();
}
