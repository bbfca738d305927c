//! Asynchronous training without a server (iSwitch) through an appliance on real DPDK ports.

use pascaline_worker::pipeline::{PipelineConfig, PipelineReport, train};
use pascaline_worker::{Config, Worker};

use crate::common::appliance::{Appliance, EARLY_JOB, UDP_PORT, Wanted};
use crate::common::net::{Network, possible};

const RANKS: u16 = 3;
const FLOATS: usize = 256;
/// Fewer than results are kept for: however late a rank is, it finds what it has missed.
const CONFIG: PipelineConfig = PipelineConfig { iterations: 100, bound: 3, rate: 0.1 };

fn run(network: &Network, rank: u16) -> PipelineReport {
    let config = Config {
        accept_partial: true,
        ..Config::new(([10, 77, 0, 254], UDP_PORT).into(), EARLY_JOB, rank, RANKS)
    };
    let mut worker = network.workers[usize::from(rank)].within(|| Worker::join(config).unwrap());
    let report = train(&mut worker, &CONFIG, vec![0.0; FLOATS], |_, weights, gradient| {
        for (gradient, weight) in gradient.iter_mut().zip(weights) {
            // Each rank pulls elsewhere: who is inside shows in the weights.
            *gradient = weight - f32::from(rank);
        }
    });
    worker.leave();
    report.unwrap()
}

#[test]
fn workers_agree_on_the_weights_whoever_is_inside() {
    if !possible() {
        return;
    }
    let network = Network::new(3);
    let mut appliance = Appliance::start(&network, Wanted { early: true, ..Wanted::default() });
    let reports: Vec<PipelineReport> = std::thread::scope(|scope| {
        let network = &network;
        let threads: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || run(network, rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let bits =
        |report: &PipelineReport| report.weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>();
    for report in &reports {
        assert_eq!(bits(report), bits(&reports[0]), "{reports:?}");
        assert!(report.most_stale <= CONFIG.bound, "{report:?}");
        assert_eq!(report.contributed + report.missed, CONFIG.iterations, "{report:?}");
        assert!(report.weights.iter().all(|weight| (0.0..=2.0).contains(weight)), "{report:?}");
    }
    let contributed: u64 = reports.iter().map(|report| report.contributed).sum();
    assert_eq!(contributed, 2 * CONFIG.iterations, "two of three complete an iteration");
    appliance.terminate();
    appliance.ends_well();
}
