//! How fast a queue is drained: its shaper, and its port.

use core::num::NonZeroU64;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::updates::Fate;
use pascaline_queue::{Config, Discipline};

use super::{Rig, SERVER_PORT, queue};
use pascaline_testkit::JOB;

/// Bits of an update of so many elements on the wire: headers, payload, trailer, and what Ethernet adds.
const fn bits(elements: u64) -> u64 {
    (64 + 4 * elements + 16 + 24) * 8
}

fn shaped(segments: u16, rate: u64, discipline: Discipline) -> PortQueue {
    let queue = Config { segments, discipline, ..Config::default() };
    PortQueue { queue, rate: NonZeroU64::new(rate) }
}

#[test]
fn a_shaper_counts_bits_on_the_wire() {
    // An update of 99 elements takes a millisecond.
    let mut rig = Rig::new(shaped(64, bits(99) * 1000, Discipline::Fifo));
    let worker = rig.worker(0, 0);
    let mut departed = 0;
    for step in 0..1000u32 {
        // Twice as much as can leave, in steps of a tenth of a millisecond.
        if step % 5 == 0 {
            let frame = rig.update(&worker, step, &[0; 99]);
            rig.send([frame]);
        }
        rig.bench.settle();
        rig.bench.clock.advance(100_000);
        departed += rig.bench.heard(SERVER_PORT).len();
    }
    // 100 ms at the rate, and the millisecond that had been saved up, with one packet that puts the bucket
    // into debt.
    assert_eq!(departed, 101);
    assert_eq!(rig.fate(Fate::Departed), 101);
    assert_eq!(rig.reading().waiting, 64);
    rig.end();
}

#[test]
fn an_update_leaves_when_the_one_before_has_gone_over_the_wire() {
    let mut rig = Rig::new(shaped(8, bits(1) * 1000, Discipline::Olaf));
    let frames: Vec<_> = (0..3).map(|cluster| rig.update(&rig.worker(cluster, 0), 0, &[1])).collect();
    rig.send(frames);
    assert_eq!(
        rig.served().len(),
        2,
        "for one there is a millisecond saved up, and the next may go into debt"
    );
    rig.bench.clock.advance(999_999);
    assert_eq!(rig.served().len(), 0);
    rig.bench.clock.advance(1);
    assert_eq!(rig.served().len(), 1);
    rig.end();
}

#[test]
fn what_a_full_port_refuses_waits_where_it_can_be_combined() {
    let mut rig = Rig::new(queue(8));
    // The port takes ever more, until it takes nothing.
    for psn in 0..64 {
        let frame = rig.update(&rig.worker(0, 0), psn, &[1]);
        rig.send([frame]);
    }
    assert_eq!(rig.served().len(), 64);
    rig.bench.io().ports[SERVER_PORT].room = 0;
    for psn in 64..69u32 {
        for cluster in 0..3 {
            let frames: Vec<_> =
                (0..3).map(|rank| rig.update(&rig.worker(cluster, rank), psn, &[1])).collect();
            rig.send(frames);
        }
    }
    // One is in the hands of the port, and cannot be changed any more; the others wait.
    assert_eq!(rig.bench.appliance.lcores[0].waiting(), 1);
    assert_eq!(rig.reading().waiting, 3);
    rig.bench.io().ports[SERVER_PORT].room = usize::MAX;
    let served: Vec<_> = rig.served().iter().map(|update| (update.header.job, update.header.count)).collect();
    assert_eq!(served.len(), 4);
    assert_eq!(served[0], (JOB, 3), "a burst is taken in before anything leaves");
    assert_eq!(served.iter().map(|(_, count)| count).sum::<u16>() + replaced(&rig), 45);
    rig.end();
}

/// Updates that gave way to newer ones of their workers.
fn replaced(rig: &Rig) -> u16 {
    u16::try_from(rig.fate(Fate::Replaced)).unwrap()
}
