//! Sums, times and shares in small clusters.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::{Job, Scheme, Setting, run};

fn setting(scheme: Scheme, workers: usize, packets: u32) -> Setting {
    let job = Job { workers: (0..workers).collect(), packets, computes: 100_000, begins: 0 };
    Setting {
        clos: Clos::square(4),
        scheme,
        jobs: vec![job],
        gbps: 10,
        marks_from: 85,
        delay: 500,
        host: 0,
        lasts: 20_000_000,
        iterations: 0,
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

/// Jobs that share all links: every sum is right, and the same again gives the same.
#[test]
fn jobs_that_share_are_exact_and_repeatable() {
    for scheme in [Scheme::Ring, Scheme::Trees(4, Fixed, 64), Scheme::Trees(4, Panama, 256)] {
        let mut setting = Setting { lasts: 12_000_000, ..setting(scheme, 12, 500) };
        let other = Job { workers: (4..16).collect(), begins: 30_000, ..setting.jobs[0].clone() };
        setting.jobs.push(other);
        let [once, again] = [0, 1].map(|_| run(&setting).unwrap());
        assert_eq!(once, again);
        assert_eq!(once.wrong, 0);
        assert!(once.iterations.iter().all(|&ended| ended > 1), "{scheme:?}: {:?}", once.iterations);
    }
}
