//! Updates that are still on their way when their cluster's generation ends.

use pascaline_pipelines::updates::Fate;
use pascaline_telemetry::DropReason;
use pascaline_wire::control::Status;

use super::{Rig, SERVER_PORT, plan, queue};
use pascaline_testkit::{JOB, Worker};

/// Lets a cluster's workers join anew.
fn next_generation(rig: &mut Rig) {
    rig.workers[0].iter_mut().for_each(|worker| worker.session += 1);
    let before = rig.workers[0][0].epoch;
    rig.bench.join(&mut rig.workers[0]);
    assert_eq!(rig.workers[0][0].epoch, before.wrapping_add(1));
}

/// Holds R15.1 of protocol.md.
#[test]
fn before_the_server_has_registered_there_is_no_way() {
    let mut rig = Rig::unregistered(&plan(queue(8)));
    let frame = rig.update(&rig.worker(0, 0), 0, &[1]);
    rig.send([frame]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::NoServer), 1);
    rig.end();
}

#[test]
fn what_waits_is_given_up_when_its_generation_is_over() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let frames = [rig.update(&rig.worker(0, 0), 0, &[1]), rig.update(&rig.worker(1, 0), 0, &[2])];
    rig.send(frames);
    next_generation(&mut rig);
    let served: Vec<_> = rig.unplug().iter().map(|update| update.header.job).collect();
    assert_eq!(served, [JOB + 1]);
    assert_eq!(rig.fate(Fate::Stale), 1);
    rig.end();
}

#[test]
fn generations_are_not_combined() {
    let mut rig = Rig::new(queue(8));
    rig.plug();
    let frames = [rig.update(&rig.worker(0, 0), 0, &[1]), rig.update(&rig.worker(0, 1), 0, &[2])];
    rig.send(frames);
    next_generation(&mut rig);
    // Another length, too: the new generation need not be like the old one.
    let frame = rig.update(&rig.worker(0, 2), 0, &[4, 4]);
    rig.send([frame]);
    let served = rig.unplug();
    let [got] = &served[..] else { panic!("{served:?}") };
    assert_eq!((got.brief(), &got.values), ((JOB, 2, 0, 1), &vec![4, 4]));
    assert_eq!(got.header.epoch, rig.worker(0, 2).epoch);
    assert_eq!(rig.fate(Fate::Renewed), 1);
    rig.end();
}

#[test]
fn an_update_of_the_generation_before_is_refused_and_its_worker_told() {
    let mut rig = Rig::new(queue(8));
    let old = rig.worker(0, 0);
    next_generation(&mut rig);
    rig.bench.clock.advance(2_000_000);
    let frame = rig.update(&old, 0, &[1]);
    rig.send([frame]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::WrongEpoch), 1);
    let told = rig.bench.heard_by(&Worker { ..old });
    assert_eq!(told[0].objection().status, Status::WrongEpoch);
    assert!(rig.bench.heard(SERVER_PORT).is_empty());
    rig.end();
}
