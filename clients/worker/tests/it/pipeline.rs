//! Asynchronous training without a server, over loopback sockets: two of three gradients complete an
//! iteration.

use std::sync::{Condvar, Mutex};

use pascaline_worker::pipeline::{PipelineConfig, PipelineReport, train};

use crate::adversary::Conditions;
use crate::aggregator::Aggregator;
use crate::driver::{Appliance, JOB, RANKS, on_every_rank};

const CONFIG: PipelineConfig = PipelineConfig { iterations: 200, bound: 3, rate: 0.1 };
/// A packet has room for 16.
const FLOATS: usize = 16;

/// Where gradients lead.
fn target(index: usize) -> f32 {
    if index.is_multiple_of(2) { 3.0 } else { -5.0 }
}

/// How many results the weights of rank 0 have seen, for those who want to be slower.
#[derive(Default)]
struct Clock {
    iteration: Mutex<u64>,
    changed: Condvar,
}

impl Clock {
    fn set(&self, iteration: u64) {
        *self.iteration.lock().unwrap() = iteration;
        self.changed.notify_all();
    }

    fn wait_for(&self, iteration: u64) {
        let now = self.iteration.lock().unwrap();
        drop(self.changed.wait_while(now, |now| *now < iteration).unwrap());
    }
}

/// Rank 2 computes only when rank 0 is `lag` iterations ahead of its weights.
fn run(lag: u64, conditions: Conditions) -> Vec<PipelineReport> {
    let mut aggregator = Aggregator::new(JOB, RANKS, 64);
    aggregator.threshold = Some(2);
    let appliance = Appliance::run("127.0.0.1:0", conditions, aggregator);
    let clock = Clock::default();
    on_every_rank(&appliance, |rank, mut worker| {
        let report = train(&mut worker, &CONFIG, vec![0.0; FLOATS], |iteration, weights, gradient| {
            match rank {
                0 => clock.set(iteration),
                2 => clock.wait_for(iteration + lag),
                _ => {}
            }
            for (index, (gradient, weight)) in gradient.iter_mut().zip(weights).enumerate() {
                *gradient = weight - target(index);
            }
        });
        if rank == 0 {
            clock.set(u64::MAX);
        }
        let report = report.unwrap();
        worker.leave();
        report
    })
}

fn all_agree(reports: &[PipelineReport]) {
    for report in reports {
        let bits = |report: &PipelineReport| {
            report.weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(report), bits(&reports[0]), "decentralised weights, the same everywhere");
        assert_eq!(report.contributed + report.missed, CONFIG.iterations);
        assert!(report.most_stale <= CONFIG.bound);
    }
    for (index, weight) in reports[0].weights.iter().enumerate() {
        assert!((weight - target(index)).abs() < 0.01, "{weight} is not near {}", target(index));
    }
}

#[test]
fn workers_agree_whoever_has_contributed() {
    let reports = run(0, Conditions::IDEAL);
    all_agree(&reports);
    let contributed: u64 = reports.iter().map(|report| report.contributed).sum();
    assert_eq!(contributed, 2 * CONFIG.iterations, "two complete an iteration, a third one is too late");
}

#[test]
fn workers_agree_over_a_bad_network() {
    all_agree(&run(0, Conditions { loss: 0.02, ..Conditions::IDEAL }));
}

#[test]
fn a_slow_worker_stays_behind_and_gives_up_what_is_stale() {
    let reports = run(CONFIG.bound + 3, Conditions::IDEAL);
    all_agree(&reports);
    let [first, second, slow] = &reports[..] else { panic!("three ranks") };
    assert_eq!((first.contributed, second.contributed), (CONFIG.iterations, CONFIG.iterations));
    assert_eq!(slow.contributed, 0);
    // Each gradient is offered in the iterations that the bound allows, four at the most, and then given up.
    assert!(slow.stale >= CONFIG.iterations / (CONFIG.bound + 1) - 1, "{slow:?}");
    assert_eq!(slow.most_stale, CONFIG.bound, "the last one that is allowed");
}
