//! A parameter server whose packets are sealed: of the appliance's own process, and of another one.

use std::sync::Arc;

use pascaline_aggregator::{ConflictPolicy, Order};
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_seal::{Holder, JobKeys, Protection};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, Worker, contents};
use pascaline_wire::Element;
use pascaline_wire::control::{Action, Control, SERVER_RANK, Status};
use pascaline_wire::header::{Flags, Header, Kind, Own};

use super::{RANKS, Rank, fed, join, secret, spec};
use crate::common::{
    self,
    appliance::{Bench, Plan},
};

/// The host of a server, behind the ranks' port.
pub(super) fn host() -> Worker {
    Worker { session: 9999, ..common::server_host(0) }
}

/// Where a job's configuration says that it is.
pub(super) fn outside() -> ServerMode {
    ServerMode::External { address: host().address, udp_port: host().udp_port }
}

/// A job in a pool of one slot, with a server there.
fn started(protection: Protection, server: ServerMode) -> (Bench, Vec<Rank>) {
    let kind =
        JobKind::Shared { conflict: ConflictPolicy::FirstCome, order: Order::Arrival, quota: 0, server };
    let job = JobSpec { kind, ..spec(protection) };
    let plain = Plan::one_armed();
    let pool = pascaline_aggregator::PoolConfig { slots: 1, ways: 1, ..plain.pool };
    let mut bench = Bench::new(&Plan { jobs: vec![job], pool, ..plain });
    let mut ranks = Rank::all(protection, false);
    join(&mut bench, &mut ranks, 0);
    (bench, ranks)
}

/// The answer to a Serve.
pub(super) fn serve(bench: &mut Bench, server: &mut Rank, cookie: u64) -> Option<(Header, Control)> {
    server.number += 1;
    let control =
        Control { number: server.number, cookie, ..Control::request(Action::Serve, server.worker.session) };
    let header = server.worker.header(Kind::Control, 0, 0);
    let header = Header { epoch: 0, element: Element::F32_SUM, ..header };
    let asked = server.sealed(&header, &control.to_bytes());
    let sent = fed(bench, [&asked]);
    (!sent.is_empty()).then(|| server.answer(&sent))
}

/// Holds R14.10 and R14.11 of protocol.md.
#[test]
fn what_goes_to_a_server_and_comes_from_it_is_sealed() {
    for protection in Protection::ALL {
        let (mut bench, mut ranks) = started(protection, outside());
        // Without a seal it hears what the job demands, and is no server.
        let plain = host().control(Action::Serve);
        let told = pascaline_testkit::Heard::parse(&fed(&mut bench, [&plain])[0]).control();
        assert_eq!((told.status, told.answers), (Status::Unproven, Some(Action::Serve)));
        let mut server = Rank::of(host(), &secret(1), protection);
        let (header, ack) = serve(&mut bench, &mut server, 0).unwrap();
        assert_eq!((ack.status, ack.payload), (Status::Ok, 1024));
        assert_ne!(ack.salt(), 0);
        (server.worker.epoch, server.worker.fan_in) = (header.epoch, RANKS);

        // What finds no slot goes there.
        let (first, second) = (ranks[0].gradient(1, &[1; 16]), ranks[1].gradient(2, &[7; 16]));
        let (spilled, faults) = server.heard(&fed(&mut bench, [&first, &second]));
        let [(header, body)] = &spilled[..] else { panic!("{spilled:?} {faults:?}") };
        assert_eq!((header.kind, header.psn, header.rank), (Kind::Gradient, 2, 1));
        assert_eq!(contents(header, body).0, [7; 16]);

        // A result of its own goes to all; one in its name, unsealed or of a rank's key, is dropped.
        let result =
            Header { rank: 0, own: Own::vote(1, u16::MAX), ..server.worker.header(Kind::Result, 2, RANKS) };
        let body = pascaline_testkit::bytes(&[21; 16]);
        let unsealed = server.worker.frame(&result, &body);
        let pretends = Worker { rank: 1, ..server.worker };
        let pretends = Rank::of(pretends, &secret(1), protection).sealed(&result, &body);
        assert!(fed(&mut bench, [&unsealed, &pretends]).is_empty());
        let dropped = [DropReason::Unsealed, DropReason::Forged].map(|it| bench.appliance.dropped(it));
        assert_eq!(dropped, [2, 1]);
        let sent = server.sealed(&result, &body);
        let sent = fed(&mut bench, [&sent]);
        for rank in &mut ranks {
            let (opened, faults) = rank.heard(&sent);
            let [(header, body)] = &opened[..] else { panic!("{faults:?}") };
            assert_eq!((header.kind, header.psn), (Kind::Result, 2));
            assert_eq!(contents(header, body).0, [21; 16]);
        }
        // And one for one rank alone.
        let alone = Header { rank: 2, flags: Flags::BYPASS, ..result };
        let sent = server.sealed(&alone, &body);
        let sent = fed(&mut bench, [&sent]);
        assert_eq!(sent.len(), 1);
        assert_eq!(ranks[2].heard(&sent).0.len(), 1);
        assert_eq!(bench.appliance.get(Counter::NoBuffer), 0);
        bench.end();
    }
}

/// A recorded Serve does not keep a server alive that is gone.
#[test]
fn a_serve_that_comes_again_changes_nothing() {
    let (mut bench, _) = started(Protection::Mac, outside());
    let mut server = Rank::of(host(), &secret(1), Protection::Mac);
    assert!(serve(&mut bench, &mut server, 0).is_some());
    let (number, control) = (server.number, Control::request(Action::Serve, server.worker.session));
    let header = Header { element: Element::F32_SUM, ..server.worker.header(Kind::Control, 0, 0) };
    let recorded = server.sealed(&header, &Control { number, ..control }.to_bytes());
    assert!(fed(&mut bench, [&recorded]).is_empty());
    let next = server.sealed(&header, &Control { number: number + 1, ..control }.to_bytes());
    assert_eq!(fed(&mut bench, [&next]).len(), 1);
    bench.end();
}

/// The appliance has another key, and the ranks do: results wait for the server as well.
///
/// Holds R14.14 of protocol.md.
#[test]
fn a_key_is_in_force_once_the_server_has_it_too() {
    let (mut bench, mut ranks) = started(Protection::Mac, outside());
    let mut server = Rank::of(host(), &secret(1), Protection::Mac);
    serve(&mut bench, &mut server, 0).unwrap();
    let keys = Arc::new(JobKeys::new(&secret(2), JOB, Protection::Mac));
    let now = bench.appliance.now;
    assert!(bench.appliance.plane.rekey(now, JOB, keys));
    bench.appliance.control_turn();
    for rank in &mut ranks {
        let own = rank.worker.rank;
        assert!(rank.end.renew(Holder::of(&secret(2), JOB, own, Protection::Mac)));
        for _ in 0..2 {
            let asked = rank.request(Action::Join, 0, 0);
            let _ = rank.answer(&fed(&mut bench, [&asked]));
        }
    }
    let behind = |bench: &Bench| bench.appliance.plane.membership().with_former_keys(JOB);
    assert_eq!(behind(&bench), [SERVER_RANK]);
    assert!(server.end.renew(Holder::of(&secret(2), JOB, SERVER_RANK, Protection::Mac)));
    (0..2).for_each(|_| assert!(serve(&mut bench, &mut server, 0).is_some()));
    assert_eq!(behind(&bench), [0; 0]);
    bench.end();
}
