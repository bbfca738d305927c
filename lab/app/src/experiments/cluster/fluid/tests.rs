//! Rates computed by hand, and general invariants.

use pascaline_sim::fabric::Clos;
use pascaline_sim::random::Random;
use pascaline_wire::CongestionControl::Panama;

use super::*;
use crate::experiments::cluster::Job;

fn stream(links: &[usize], weight: f64) -> Stream {
    let links = links.iter().map(|&link| (link, 1.0)).collect();
    Stream { links, weight, left: 1.0, rate: 0.0, owner: Owner::Flow(0) }
}

/// Three on one link, of which one is limited by another link: the others get the rest.
#[test]
fn what_one_cannot_use_others_have() {
    let mut streams = [stream(&[0], 1.0), stream(&[0], 3.0), stream(&[0, 1], 1.0), stream(&[1], 9.0)];
    Links::new(2).share(&mut streams, 10.0);
    let rates = streams.map(|stream| stream.rate);
    for (rate, wanted) in rates.into_iter().zip([2.25, 6.75, 1.0, 9.0]) {
        assert!((rate - wanted).abs() < 1e-9, "{rates:?}");
    }
}

/// No link carries more than it can, and each stream has a full link on which none has more for its weight.
#[test]
fn rates_are_fair_and_fit() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let mut streams: Vec<Stream> = (0..random.between(1, 40))
            .map(|_| {
                let links: std::collections::BTreeSet<usize> = (0..4).map(|_| random.index(12)).collect();
                stream(&links.into_iter().collect::<Vec<_>>(), random.between(1, 9) as f64)
            })
            .collect();
        Links::new(12).share(&mut streams, 5.0);
        let on =
            |link: usize| streams.iter().filter(move |stream| stream.links.iter().any(|of| of.0 == link));
        let load = |link: usize| on(link).map(|stream| stream.rate).sum::<f64>();
        assert!((0..12).all(|link| load(link) < 5.0 + 1e-6));
        for stream in &streams {
            let level = |stream: &Stream| stream.rate / stream.weight;
            assert!(stream.links.iter().any(|&(link, _)| {
                load(link) > 5.0 - 1e-6 && on(link).all(|other| level(other) < level(stream) + 1e-6)
            }));
        }
    }
}

/// Alone, a flow, a ring and trees take the time of their packets, and twice that if a flow shares their
/// link.
#[test]
fn alone_they_take_what_links_take() {
    let job = Job { workers: (0..8).collect(), packets: 10_000, computes: 1000, begins: 0, spine: 0 };
    for (scheme, times) in [(Scheme::Trees(4, Panama, 256), 1.0), (Scheme::Ring, 1.75)] {
        let empty = Setting::idle(Clos::square(4), scheme, 400_000_000);
        let setting = Setting { jobs: vec![job.clone()], ..empty };
        let once = 10_000.0 * 1219.2 * times;
        let took = |outcome: &Outcome| outcome.combining[0][1] as f64 / once;
        let alone = took(&run(&setting, 0.25, 100_000));
        assert!((0.98..1.02).contains(&alone), "{scheme:?}: {alone}");
        // In the ring 0 sends to 1, as the flow does.
        let flows = vec![Plain { from: 0, to: 1, packets: u32::MAX, begins: 0 }];
        let shared = took(&run(&Setting { flows, ..setting }, 0.25, 100_000));
        assert!((1.9..2.1).contains(&shared), "{scheme:?}: {shared}");
    }
}
