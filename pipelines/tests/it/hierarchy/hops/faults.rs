//! What is lost between hops, who starts anew, and who says what he cannot say.

use std::cell::Cell;
use std::rc::Rc;

use pascaline_pipelines::updates::Fate;
use pascaline_telemetry::DropReason;
use pascaline_testkit::{UDP_PORT, Worker, bytes, emitted};
use pascaline_wire::control;
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{Trailer, Update};

use super::{Rig, SLOW, THREE, TWO, like, queue, update};

/// What departs below arrives above, or is lost on the wire.
#[test]
fn no_update_is_lost_but_on_the_wire() {
    let (sent, lost) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
    let mut rig = Rig::new(THREE, &[queue(2, SLOW / 2), queue(2, 3 * SLOW), queue(2, 2 * SLOW)]);
    let (climbing, missing) = (Rc::clone(&sent), Rc::clone(&lost));
    rig.tree.wire = Box::new(move |heard| {
        if heard.header.kind != Kind::Update {
            return 1;
        }
        climbing.set(climbing.get() + 1);
        let gone = climbing.get().is_multiple_of(3);
        missing.set(missing.get() + u64::from(gone) * u64::from(heard.header.count));
        usize::from(!gone)
    });
    let base = rig.all[0].base;
    let mut random = fastrand::Rng::with_seed(29);
    let mut pushed = [0; 2];
    for _ in 0..400 {
        let at = random.usize(..2);
        rig.push(at, base + pushed[at], &[1, 1]);
        pushed[at] += 1;
        rig.pass(random.usize(..4));
    }
    rig.pass(300);
    for node in 0..3 {
        rig.assert_conserved(node);
    }
    assert!(rig.fate(0, Fate::Aggregated) > 0);
    assert!(lost.get() > 10, "{lost:?} of {sent:?}");
    assert_eq!(rig.stood_for(2, "accepted"), 400);
    let below = rig.stood_for(2, "departed") + rig.stood_for(1, "departed");
    assert_eq!(rig.stood_for(1, "accepted") + rig.stood_for(0, "accepted") + lost.get(), below);
    let served = rig.updates();
    let counts = served.iter().map(|(header, _)| u64::from(header.count)).sum::<u64>();
    let sums = served.iter().map(|(_, sum)| u64::try_from(sum[0]).unwrap()).sum::<u64>();
    assert_eq!((counts, sums), (rig.stood_for(0, "departed"), counts));
    rig.tree.end();
}

/// Every hop may repeat what it carries, combined updates included.
#[test]
fn what_is_repeated_between_hops_comes_in_once() {
    let mut rig = Rig::new(THREE, &[queue(8, 0), queue(8, 0), queue(8, SLOW)]);
    rig.tree.wire = Box::new(|heard| if heard.header.kind == Kind::Update { 2 } else { 1 });
    let base = rig.all[0].base;
    for psn in 0..3 {
        (0..2).for_each(|at| rig.push(at, base + psn, &[1, 1]));
    }
    rig.pass(200);
    let served = rig.updates();
    assert!(served.iter().any(|(header, _)| header.count > 1), "{served:?}");
    let counts: u64 = served.iter().map(|(header, _)| u64::from(header.count)).sum();
    assert_eq!(counts, rig.stood_for(2, "departed"), "{served:?}");
    assert_eq!((rig.stood_for(1, "accepted"), rig.stood_for(0, "accepted")), (counts, counts));
    assert!((0..2).all(|node| rig.dropped(node, DropReason::Duplicate) == served.len() as u64));
    rig.tree.end();
}

/// Whichever appliance is started anew, workers go on, and what belongs to the generation before comes to
/// nothing.
#[test]
fn updates_go_on_after_an_appliance_has_started_anew() {
    for node in 0..3 {
        let mut rig = Rig::new(THREE, &[queue(8, 0)]);
        let base = rig.all[0].base;
        rig.push(0, base, &[1, 1]);
        let (old, _) = rig.updates().remove(0);
        let before = rig.all[0].worker.epoch;
        let former = rig.server;
        rig.tree.restart(node, &like());
        let got = control::generation(before);
        for at in 0..2 {
            let mut below = rig.all[at];
            rig.tree.join(&mut below, 0, got);
        }
        rig.tree.pass(20);
        rig.tree.form(&mut rig.all, got);
        rig.register();
        assert_ne!(rig.server.epoch, former.epoch);
        // Answers of before, by a server that does not know yet.
        let now = core::mem::replace(&mut rig.server, former);
        rig.answer(&old, Flags::NONE, 1);
        rig.server = now;
        assert_eq!((rig.acks(0), rig.dropped(0, DropReason::WrongEpoch)), (vec![], 1));
        rig.push(1, base + 7, &[2, 2]);
        let (header, _) = rig.updates().remove(0);
        rig.answer(&header, Flags::NONE, 1);
        for at in 0..2 {
            let (rank, psn, _) = rig.acks(at)[0];
            assert_eq!((rank, psn), (1, base + 7), "node {node}");
        }
        rig.tree.end();
    }
}

/// The parent of leaf 1, with something to say.
fn parent(rig: &Rig) -> Worker {
    let (address, epoch) = (Address::from_v4([10, 78, 0, 254]), rig.all[0].worker.epoch);
    Worker { address, udp_port: UDP_PORT, rank: 0, fan_in: 2, epoch, ..Worker::new(0, 2) }
}

/// Why it is dropped, who says it, and what.
type Case = (DropReason, fn(Worker) -> Worker, Kind, Flags);

/// Holds R15.6 of protocol.md.
#[test]
fn what_a_parent_cannot_say_is_dropped_by_reason() {
    use DropReason as R;
    let about = Update { reward: 0.0, generated_ns: 1 };
    let end = emitted(&Trailer { update: Some(about), ..Trailer::default() });
    let (ack, none) = (Kind::Ack, Flags::NONE);
    let cases: [Case; 6] = [
        (R::WrongEpoch, |up| Worker { epoch: up.epoch + 1, ..up }, ack, none),
        (R::FanInMismatch, |up| Worker { fan_in: 3, ..up }, ack, none),
        (R::RankSpoofed, |up| Worker { udp_port: 9, ..up }, ack, none),
        // For one alone, and nothing has gone up under that number.
        (R::NotMember, |up| up, ack, Flags::BYPASS),
        (R::UnhandledKind, |up| up, Kind::Result, none),
        (R::UnhandledKind, |up| up, Kind::Reminder, none),
    ];
    for (reason, change, kind, flags) in cases {
        let mut rig = Rig::new(TWO, &[queue(8, 0)]);
        let from = change(parent(&rig));
        let with = |flags: Flags, body: &[u8]| from.frame(&Header { flags, ..from.header(kind, 9, 1) }, body);
        let frame = match kind {
            Kind::Ack => with(flags.with(Flags::TRAILER), &[bytes(&[7, 7]), end.clone()].concat()),
            Kind::Result => with(flags, &bytes(&[7, 7])),
            _ => from.reminder(9),
        };
        rig.tree.nodes[1].io().arrive(0, &frame);
        rig.tree.pass(1);
        assert_eq!(rig.dropped(1, reason), 1, "{}", reason.name());
        assert_eq!(rig.acks(0), []);
        rig.tree.end();
    }
}

/// Only an appliance speaks for several, and nobody for none.
#[test]
fn counts_that_cannot_be_are_dropped() {
    for (node, count) in [(1, 2), (1, 0), (0, 0)] {
        let mut rig = Rig::new(TWO, &[queue(8, 0)]);
        let from = if node == 0 {
            let address = Address::from_v4([10, 78, 1, 1]);
            Worker { address, udp_port: UDP_PORT, ..parent(&rig) }
        } else {
            rig.all[0].worker
        };
        let frame = update(&from, rig.all[0].base, count, &[1, 1], rig.now(node));
        rig.tree.nodes[node].io().arrive(0, &frame);
        rig.tree.pass(1);
        assert_eq!((rig.dropped(node, DropReason::BadCount), rig.updates().len()), (1, 0), "{node} {count}");
        rig.tree.end();
    }
}
