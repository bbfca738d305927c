use super::*;
use crate::Solver;
use crate::model::{Job, Network, Task};

/// Three leaves, three spines of which each may add, workers at two leaves and the server at the third.
fn instance(servers: usize) -> Instance {
    let mut network = Network::leaf_spine(3, 3, servers, 100.0);
    for switch in &mut network.switches {
        switch.aggregates = Aggregates::Inside { pipelines: 1 };
    }
    Instance {
        name: String::new(),
        network,
        jobs: vec![Job { name: "job".into(), weight: 1.0 }],
        tasks: vec![Task {
            name: "task".into(),
            job: 0,
            server: 0,
            workers: (servers..3 * servers).collect(),
        }],
        mu: 0.0,
    }
}

/// The best of all choices, by trying them here.
fn best(instance: &Instance, count: usize) -> f64 {
    let n = instance.network.switches.len();
    let mut chosen: Vec<usize> = (0..count).collect();
    let mut best: f64 = 0.0;
    loop {
        best = best.max(plan(&only(instance, &chosen), &Options::default()).unwrap().objective);
        if !next(&mut chosen, n) {
            return best;
        }
    }
}

#[test]
fn few_choices_are_all_tried() {
    let instance = instance(3);
    let mut last = 0.0;
    for count in 0..=6 {
        let (placed, plan, placement) = place(&instance, count, &Options::default()).unwrap();
        assert_eq!((placement.chosen.len(), placement.proof), (count, Proof::Optimal));
        assert!((plan.objective - best(&instance, count)).abs() < 1e-6, "{count}");
        assert!(plan.objective >= last && plan.objective <= placement.bound * (1.0 + 1e-9));
        let adding = placed.network.switches.iter().filter(|switch| switch.aggregates != Aggregates::No);
        assert_eq!(adding.count(), count);
        last = plan.objective;
    }
    let error = place(&instance, 7, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("7 of 6"), "{error}");
}

/// The greedy search with exchanges finds the same as trying all choices.
#[test]
fn many_choices_are_searched() {
    let instance = instance(2);
    let candidates: Vec<usize> = (0..6).collect();
    let (options, deadline) = (Options::default(), Instant::now() + Duration::from_secs(60));
    for count in 1..6 {
        let mut search = Search {
            instance: &instance,
            options,
            deadline,
            tried: 0,
            optimal: true,
            cut: false,
            best: None,
        };
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < count {
            search.best = None;
            for &more in candidates.iter().filter(|at| !chosen.contains(at)).collect::<Vec<_>>() {
                search.consider([chosen.as_slice(), &[more]].concat()).unwrap();
            }
            chosen = search.best.as_ref().unwrap().chosen.clone();
        }
        search.exchange(&candidates, f64::INFINITY).unwrap();
        let found = search.best.unwrap().plan.objective;
        assert!((found - best(&instance, count)).abs() < 1e-6, "{count}: {found}");
    }
}

/// Without the leaf of the parameter server among them the fast way takes none.
#[test]
fn choices_that_a_method_does_not_take_are_passed_over() {
    for (servers, solver, tried) in [(3, Solver::Fast, 1), (3, Solver::Random, 1), (30, Solver::Fast, 1)] {
        let options = Options { solver, ..Options::default() };
        let (_, plan, placement) = place(&instance(servers), 1, &options).unwrap();
        assert_eq!((placement.chosen, placement.tried), (vec![0], tried), "{solver:?}");
        assert!(plan.objective > 0.0 && !plan.timed_out);
    }
    let fast = Options { solver: Solver::Fast, ..Options::default() };
    let error = place(&instance(3), 0, &fast).unwrap_err().to_string();
    assert!(error.contains("choices of 1 or more: leaf 0"), "{error}");
}

#[test]
fn a_search_that_the_time_limit_ends_says_so() {
    let mut network = Network::leaf_spine(20, 20, 2, 100.0);
    network.switches.iter_mut().for_each(|switch| switch.aggregates = Aggregates::Inside { pipelines: 1 });
    let large = Instance { network, ..instance(2) };
    let options = Options { time_limit: Duration::ZERO, ..Options::default() };
    let (_, plan, placement) = place(&large, 2, &options).unwrap();
    assert!(plan.timed_out && placement.chosen.len() == 2 && placement.tried < 3, "{placement:?}");
    // A limit beyond all clocks is none.
    let options = Options { time_limit: Duration::MAX, ..Options::default() };
    assert!(!place(&instance(2), 2, &options).unwrap().1.timed_out);
}

#[test]
fn choices_are_counted_and_named_once() {
    assert_eq!((choices(6, 3), choices(24, 12), choices(5, 0), choices(5, 5)), (20, 2_704_156, 1, 1));
    let (mut chosen, mut seen) = (vec![0, 1, 2], 1);
    while next(&mut chosen, 6) {
        seen += 1;
    }
    assert_eq!((seen, chosen), (20, vec![3, 4, 5]));
}

/// If the method needs all that are to be chosen, there is only one choice.
#[test]
fn what_is_needed_is_chosen_where_nothing_else_can_be() {
    let mut network = Network::leaf_spine(300, 2, 1, 100.0);
    for switch in &mut network.switches {
        switch.aggregates = Aggregates::Inside { pipelines: 1 };
    }
    let task = Task { name: "task".into(), job: 0, server: 0, workers: vec![1, 2, 3] };
    let jobs = vec![Job { name: "job".into(), weight: 1.0 }];
    let instance = Instance { name: String::new(), network, jobs, tasks: vec![task], mu: 0.0 };
    let options = Options { solver: Solver::Fast, ..Options::default() };
    let (_, plan, placement) = place(&instance, 1, &options).unwrap();
    assert_eq!((placement.chosen.len(), placement.tried, placement.candidates), (1, 1, 302));
    assert!(plan.objective > 0.0 && !plan.timed_out);
}
