//! Sums, times and shares in small clusters.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::{Job, Load, Plain, Scheme, Setting, draw, run};

fn setting(scheme: Scheme, workers: usize, packets: u32) -> Setting {
    let job = Job { workers: (0..workers).collect(), packets, computes: 100_000, begins: 0 };
    Setting {
        clos: Clos::square(4),
        scheme,
        jobs: vec![job],
        flows: Vec::new(),
        gbps: 10,
        marks_from: 85,
        delay: 500,
        host: 0,
        lasts: 20_000_000,
        samples: 0,
    }
}

/// 1,000 packets at 10 Gbit/s take 1.22 ms: once over trees, 2 (n − 1) / n times in a ring, 2 n times at a
/// server.
#[test]
fn combining_takes_what_the_links_take() {
    let once = 1_000.0 * 1.2192;
    for (scheme, workers, times) in [
        (Scheme::Trees(1, Fixed, 64), 3, 1.0),
        (Scheme::Trees(4, Panama, 64), 12, 1.0),
        (Scheme::Ring, 4, 1.5),
        (Scheme::Ring, 12, 22.0 / 12.0),
        (Scheme::Server, 5, 8.0),
    ] {
        let outcome = run(&setting(scheme, workers, 1000)).unwrap();
        assert_eq!(outcome.wrong, 0);
        assert!(outcome.combining[0].len() >= 2, "{scheme:?}: {:?}", outcome.combining);
        let took = outcome.combining[0][1] as f64 / 1000.0;
        assert!((0.99..1.15).contains(&(took / once / times)), "{scheme:?}, {workers}: {took} µs");
    }
}

/// Flows and jobs at once: every sum is right, and the same seed gives the same.
#[test]
fn a_shared_cluster_is_exact_and_repeatable() {
    let clos = Clos::square(8);
    let lasts = 3_000_000;
    let load =
        Load { clos, flows: 0.2, jobs: 0.4, models: 1000.0, sizes: 10.0, computes: 1.0, lasts, seed: 3 };
    let (jobs, flows) = draw(&load);
    assert!(jobs.len() > 2 && flows.len() > 10);
    for scheme in [Scheme::Ring, Scheme::Trees(4, Fixed, 64), Scheme::Trees(4, Panama, 256)] {
        let setting =
            Setting { clos, jobs: jobs.clone(), flows: flows.clone(), lasts, ..setting(scheme, 1, 1) };
        let [once, again] = [0, 1].map(|_| run(&setting).unwrap());
        assert_eq!(once, again);
        assert_eq!(once.wrong, 0);
        assert!(once.iterations.iter().any(|each| !each.is_empty()));
        assert!(once.flows.iter().all(|&(wanted, arrived, _)| arrived <= wanted));
    }
}

/// PANAMA's window leaves a DCTCP flow its half of a link; a fixed one does not (Figure 10).
#[test]
fn a_flow_keeps_its_share_beside_panama() {
    let share = |control| {
        let flows = vec![Plain { from: 0, to: 8, packets: u32::MAX, begins: 0 }];
        let mut setting =
            Setting { flows, samples: 10_000_000, ..setting(Scheme::Trees(1, control, 256), 3, 30_000) };
        setting.jobs[0].computes = 1_000_000;
        let outcome = run(&setting).unwrap();
        let [flow, job] = outcome.samples[1];
        flow as f64 / (flow + job) as f64
    };
    let (panama, fixed) = (share(Panama), share(Fixed));
    assert!((0.35..0.65).contains(&panama), "{panama}");
    assert!(fixed < 0.35 && fixed < panama, "{fixed}");
}
