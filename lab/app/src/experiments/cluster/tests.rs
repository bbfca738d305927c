//! Sums, times and shares in small clusters.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use pascaline_sim::fabric::{Clos, Cuts};
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::asynchronous::{Training, served, switched};
use super::{Job, Load, Plain, Scheme, Setting, Transport, draw, run};

fn setting(scheme: Scheme, workers: usize, packets: u32) -> Setting {
    let job = Job { workers: (0..workers).collect(), packets, computes: 100_000, begins: 0, spine: 0 };
    Setting { jobs: vec![job], ..Setting::idle(Clos::square(4), scheme, 20_000_000) }
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

/// Jobs that share all links: every sum is right, and a repetition gives the same.
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

/// A flow's share of its first link, over which a worker of a job sends too.
fn share(scheme: Scheme, transport: Transport, jitter: u64) -> f64 {
    let flows = vec![Plain { from: 0, to: 8, packets: u32::MAX, begins: 0 }];
    let empty = setting(scheme, 3, 1_000_000);
    let setting = Setting { flows, transport, jitter, samples: 30_000_000, lasts: 60_000_000, ..empty };
    let outcome = run(&setting).unwrap();
    assert_eq!(outcome.wrong, 0);
    let [flow, job] = outcome.samples[1];
    flow as f64 / (flow + job) as f64
}

/// Figure 10 of PANAMA: under the same control a flow and a job get halves, unless hosts are in lock-step;
/// a fixed window starves the flow.
#[test]
fn a_flow_keeps_its_share_beside_panama() {
    let panama = Scheme::Trees(1, Panama, 256);
    let (halves, locked) = (share(panama, Transport::Panama, 30_000), share(panama, Transport::Panama, 0));
    assert!((0.42..0.58).contains(&halves), "{halves}");
    assert!(locked > 0.7, "{locked}");
    let rfc = Transport::Dctcp(Cuts::Once);
    let (flow, starved) = (share(panama, rfc, 10_000), share(Scheme::Trees(1, Fixed, 256), rfc, 10_000));
    assert!((0.5..0.75).contains(&flow), "{flow}");
    assert!(starved < 0.1, "{starved}");
}

/// A drawn load loads the links as it should, and no sum is wrong.
#[test]
fn a_shared_cluster_has_its_load_and_is_exact() {
    let (clos, lasts) = (Clos::square(8), 20_000_000);
    let load =
        Load { clos, flows: 0.2, jobs: 0.4, scale: 200.0, computes: 1.0, websearch: 0.5, lasts, seed: 3 };
    let (jobs, flows) = draw(&Load { lasts: 100 * lasts, ..load });
    assert!(jobs.iter().all(|job| (4..=6).contains(&job.workers.len())));
    let bits: f64 = flows.iter().map(|flow| f64::from(flow.packets) * 12_000.0).sum();
    let part = bits / (100.0 * lasts as f64 * 10.0 * clos.hosts() as f64);
    assert!((0.17..0.23).contains(&part), "{part}");
    let flows: Vec<Plain> = flows.into_iter().filter(|flow| flow.begins < lasts).collect();
    for scheme in [Scheme::Ring, Scheme::Trees(4, Fixed, 64), Scheme::Trees(4, Panama, 256)] {
        let (jobs, flows) = (jobs.clone(), flows.clone());
        let outcome =
            run(&Setting { jobs, flows, jitter: 10_000, ..Setting::idle(clos, scheme, lasts) }).unwrap();
        assert_eq!(outcome.wrong, 0);
        assert!(outcome.iterations.iter().all(|&ended| ended > 0), "{:?}", outcome.iterations);
        assert!(outcome.flows.iter().all(|&(wanted, arrived, _)| arrived <= wanted));
    }
}

/// No worker waits: with H of four an iteration takes the time of its slowest computation, and combining is
/// hidden; with fewer it takes less. A server changes weights at the rate of four workers' updates, or at its
/// own limit.
#[test]
fn who_waits_for_nobody_is_late_within_the_bound() {
    let (workers, needed, bound, computes) = (4, 4, 3, 20_000_000);
    let (there, back, serves, iterations, seed) = (2_000_000, 2_000_000, 0, 2000, 1);
    let all = Training { workers, needed, bound, computes, there, back, serves, iterations, seed };
    let mut last = f64::INFINITY;
    for needed in [4, 3, 2] {
        let trained = switched(&Training { needed, ..all }).unwrap();
        assert_eq!(trained, switched(&Training { needed, ..all }).unwrap());
        assert!(trained.interval < last && trained.most <= 3, "{needed}: {trained:?}");
        last = trained.interval;
        if needed == 4 {
            assert!((20e6..23e6).contains(&trained.interval), "{trained:?}");
            assert_eq!(trained.refused, 0);
        }
    }
    let trained = served(&all).unwrap();
    assert!((6e6..7e6).contains(&trained.interval) && trained.most <= 3, "{trained:?}");
    let slow = served(&Training { serves: 30_000_000, ..all }).unwrap();
    assert!((30e6..31e6).contains(&slow.interval), "{slow:?}");
}
