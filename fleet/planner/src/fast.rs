//! The fast way: leaf-spine networks, decided rate by rate without a solver.
//!
//! All flows of a task have the same rate, so a link of capacity b carries ⌊b/r⌋ of them, and only the rates
//! b/n can be best. Whether a rate is possible is a question about whole numbers of flows ([`decide`]); a
//! binary search over the rates ends between a possible and an impossible one, which is the proof.

mod decide;
mod max_flow;
mod sets;
mod several;
mod view;

use std::time::Instant;

pub(crate) use self::decide::{Verdict, assign, usable};
pub(crate) use self::sets::Chosen;
pub(crate) use self::view::{Caps, View};
use crate::model::{Flows, Instance};
use crate::plan::Binding;

/// The search's result: a rate, flows for every task, and a bound on better rates.
pub(crate) struct Found {
    /// The common rate, Gbit/s.
    pub(crate) rate: f64,
    /// For each task the flows of channels between switches.
    pub(crate) flows: Vec<Flows>,
    /// The best rate that is not excluded.
    pub(crate) bound: f64,
    /// Why no rate is better.
    pub(crate) binding: Binding,
}

/// The rates that can be best, falling: capacities of links over numbers of flows.
pub(crate) fn rates(instance: &Instance) -> Vec<f64> {
    let network = &instance.network;
    let mut capacities: Vec<f64> = Vec::new();
    let mut add = |gbps: f64| {
        if !capacities.contains(&gbps) {
            capacities.push(gbps);
        }
    };
    network.links.iter().for_each(|link| {
        add(link.up_gbps);
        add(link.down_gbps);
    });
    network.servers.iter().for_each(|server| add(server.gbps));
    let flows: usize = instance.tasks.iter().map(|task| task.workers.len()).sum();
    let mut rates: Vec<f64> = (capacities.iter())
        .flat_map(|gbps| (1..=u32::try_from(flows).unwrap_or(u32::MAX)).map(move |n| gbps / f64::from(n)))
        .collect();
    rates.sort_unstable_by(|a, b| b.total_cmp(a));
    rates.dedup();
    rates
}

/// Searches the best common rate. `exact` decides rates that `decide` cannot; without it such a rate counts
/// as impossible for the plan and as possible for the bound.
pub(crate) fn search(
    view: &View<'_>,
    exact: &mut dyn FnMut(&Caps) -> Verdict,
    deadline: Instant,
) -> Option<Found> {
    let rates = rates(view.instance);
    let mut judge = |at: usize| {
        let caps = view.caps(rates[at]);
        match decide::decide(view, &caps, deadline) {
            Verdict::Unknown if Instant::now() < deadline => exact(&caps),
            verdict => verdict,
        }
    };
    let mut best: Option<(usize, Vec<Flows>)> = None;
    // Rates before `excluded` are impossible: an impossible one excludes all faster ones.
    let (mut excluded, mut low, mut high) = (0, 0, rates.len());
    let mut binding = Binding::default();
    while low < high {
        let middle = low.midpoint(high);
        match judge(middle) {
            Verdict::Yes(flows) => {
                best = Some((middle, flows));
                high = middle;
            }
            Verdict::No(why) => {
                (binding, excluded) = (why, middle + 1);
                low = middle + 1;
            }
            Verdict::Unknown => low = middle + 1,
        }
    }
    let (mut at, mut flows) = best?;
    // Faster rates left open: most of them are impossible, which is easily shown.
    let mut open = at;
    while excluded < open && Instant::now() < deadline {
        let middle = excluded.midpoint(open);
        open = match judge(middle) {
            Verdict::Yes(better) => {
                (at, flows) = (middle, better);
                middle
            }
            Verdict::No(why) => {
                (binding, excluded) = (why, middle + 1);
                open
            }
            Verdict::Unknown => middle,
        };
    }
    if at == 0 {
        binding = view.fastest();
    }
    if excluded < at {
        binding =
            Binding { kind: "unknown", why: "the search ended before the proof".into(), channels: vec![] };
    }
    Some(Found { rate: rates[at], flows, bound: rates[at.min(excluded)], binding })
}
