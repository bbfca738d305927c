//! On small random networks the fast way, the exact program and trying everything say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pascaline_planner::model::{Aggregates, Instance, Job, Network, PortMap, Task};
use pascaline_planner::{Options, PlanError, Proof, Setting, Solver, plan, replay};

/// A leaf-spine network of a few switches with random roles, port maps and, for every other seed, capacities.
fn small(seed: u64, server_leaf_adds: bool) -> Instance {
    let random = &mut fastrand::Rng::with_seed(seed);
    let (leaves, spines, servers) = (random.usize(2..=4), random.usize(1..=3), 4);
    let mut network = Network::leaf_spine(leaves, spines, servers, 100.0);
    let pipelines = random.u16(1..=3);
    for at in 0..leaves + spines {
        if random.bool() {
            network.switches[at].aggregates = Aggregates::Inside { pipelines };
        }
    }
    network.switches[0].aggregates =
        if server_leaf_adds { Aggregates::Inside { pipelines } } else { Aggregates::No };
    let uneven = seed % 2 == 1;
    let gbps =
        |random: &mut fastrand::Rng| if uneven { [25.0, 40.0, 100.0][random.usize(..3)] } else { 100.0 };
    for link in &mut network.links {
        (link.up_gbps, link.down_gbps) = (gbps(random), gbps(random));
        link.lower_pipeline = random.u16(..pipelines);
        link.upper_pipeline = random.u16(..pipelines);
    }
    for server in &mut network.servers {
        server.gbps = gbps(random);
        server.pipeline = random.u16(..pipelines);
    }
    let mut workers: Vec<usize> = (1..leaves * servers).collect();
    random.shuffle(&mut workers);
    workers.truncate(random.usize(1..=7));
    Instance {
        name: format!("seed {seed}"),
        network,
        jobs: vec![Job { name: "job".into(), weight: 1.0 }],
        tasks: vec![Task { name: "task".into(), job: 0, server: 0, workers }],
        mu: 0.0,
    }
}

/// Where flows come from: a worker below a leaf that forwards, or a pipeline of one that adds.
type Source = (usize, Option<u16>);

/// The flows that leave leaves for spines, and those of the parameter server's own leaf.
fn sources(instance: &Instance) -> (Vec<Source>, Vec<Source>) {
    let network = &instance.network;
    let (mut far, mut local): (Vec<Source>, Vec<Source>) = (Vec::new(), Vec::new());
    for server in instance.tasks[0].workers.iter().map(|&worker| &network.servers[worker]) {
        let source = (server.switch, network.pipelines(server.switch).map(|_| server.pipeline));
        let list = if server.switch == network.servers[0].switch { &mut local } else { &mut far };
        if source.1.is_none() || !list.contains(&source) {
            list.push(source);
        }
    }
    (far, local)
}

/// The best rate with these flows on each link up, worked out from the definition.
fn rate(instance: &Instance, up: &BTreeMap<usize, u32>, local: &[Source]) -> f64 {
    let network = &instance.network;
    let target = network.servers[0].switch;
    let slowest = instance.tasks[0].workers.iter().map(|&worker| network.servers[worker].gbps);
    let mut rate = slowest.fold(f64::INFINITY, f64::min);
    let (mut arriving, mut pipelines) = (0, BTreeSet::new());
    for spine in (0..network.switches.len()).filter(|&at| network.switches[at].tier == 1) {
        let into = || up.iter().filter(|(at, _)| network.links[**at].upper == spine);
        for (&at, &number) in into() {
            rate = rate.min(network.links[at].up_gbps / f64::from(number));
        }
        let entered: BTreeSet<u16> = into().map(|(&at, _)| network.links[at].upper_pipeline).collect();
        let out = match network.pipelines(spine) {
            Some(_) => u32::try_from(entered.len()).unwrap(),
            None => into().map(|(_, number)| number).sum(),
        };
        if out > 0 {
            let down = network.links.iter().find(|link| link.lower == target && link.upper == spine).unwrap();
            rate = rate.min(down.down_gbps / f64::from(out));
            arriving += out;
            pipelines.insert(down.lower_pipeline);
        }
    }
    local.iter().for_each(|(_, pipeline)| pipelines.extend(*pipeline));
    let last = match network.pipelines(target) {
        Some(_) => u32::try_from(pipelines.len()).unwrap(),
        None => arriving + u32::try_from(local.len()).unwrap(),
    };
    rate.min(network.servers[0].gbps / f64::from(last))
}

/// The best rate of all ways to give each flow a spine.
fn by_trying_everything(instance: &Instance) -> f64 {
    let network = &instance.network;
    let (sources, local) = sources(instance);
    let spines: Vec<usize> =
        (0..network.switches.len()).filter(|&at| network.switches[at].tier == 1).collect();
    let ways = spines.len().pow(u32::try_from(sources.len()).unwrap());
    let one = |mut way: usize| {
        let mut up: BTreeMap<usize, u32> = BTreeMap::new();
        for &(leaf, _) in &sources {
            let spine = spines[way % spines.len()];
            way /= spines.len();
            let joins = |link: &pascaline_planner::model::Link| link.lower == leaf && link.upper == spine;
            *up.entry(network.links.iter().position(joins).unwrap()).or_insert(0) += 1;
        }
        rate(instance, &up, &local)
    };
    (0..ways).map(one).fold(0.0, f64::max)
}

#[test]
fn fast_way_program_and_trying_everything_agree() {
    for seed in 0..120 {
        let instance = small(seed, true);
        let known = by_trying_everything(&instance);
        for solver in [Solver::Auto, Solver::Milp] {
            let plan = plan(&instance, &Options { solver, ..Options::default() }).unwrap();
            assert!(
                (plan.objective - known).abs() < known * 1e-6,
                "seed {seed}, {solver:?}: {} {known}",
                plan.objective
            );
            assert_eq!(plan.proof, Proof::Optimal, "seed {seed}, {solver:?}");
            replay(&instance, &plan).unwrap();
        }
    }
}

/// A parameter server below a leaf that forwards: only the exact program applies.
#[test]
fn the_program_agrees_where_the_fast_way_does_not_apply() {
    for seed in 0..60 {
        let instance = small(seed, false);
        let known = by_trying_everything(&instance);
        let plan = plan(&instance, &Options::default()).unwrap();
        assert!((plan.objective - known).abs() < known * 1e-6, "seed {seed}: {} {known}", plan.objective);
        assert_eq!(plan.proof, Proof::Optimal, "seed {seed}");
    }
}

/// Two jobs whose parameter servers are at different leaves, with links and port maps at random.
fn two_jobs(seed: u64) -> Instance {
    let one = small(2 * seed + 1, true);
    let random = &mut fastrand::Rng::with_seed(seed);
    let (mut network, servers) = (one.network, 4);
    for leaf in 0..2 {
        network.switches[leaf].aggregates = Aggregates::Inside { pipelines: 3 };
    }
    let mut task = |job: usize| {
        let mut workers: Vec<usize> = (0..network.servers.len()).filter(|at| at / servers != job).collect();
        random.shuffle(&mut workers);
        workers.truncate(random.usize(2..=6));
        Task { name: format!("task {job}"), job, server: job * servers, workers }
    };
    let tasks = vec![task(0), task(1)];
    let named = |name: &str| Job { name: name.into(), weight: 1.0 };
    Instance { network, jobs: vec![named("a"), named("b")], tasks, mu: 0.001, name: one.name }
}

/// Rates are set anew once routes are known, and other links are full then.
#[test]
fn links_that_are_said_to_be_full_are() {
    for seed in 360..420 {
        let mut instance = two_jobs(seed);
        instance.jobs.truncate(1);
        instance.tasks.iter_mut().for_each(|task| task.job = 0);
        let plan = plan(&instance, &Options { solver: Solver::Milp, ..Options::default() }).unwrap();
        let (loads, channels) = (plan.loads(), &plan.binding.channels);
        let is_full = |at| loads.get(at) >= Some(&(instance.network.capacity(*at) * (1.0 - 1e-6)));
        assert!(!channels.is_empty() && channels.iter().all(is_full), "seed {seed}: {:?}", plan.binding);
    }
}

/// What the fast way leaves open it does not exclude.
#[test]
fn nothing_is_better_than_the_bound_of_the_fast_way() {
    for seed in 0..250 {
        let instance = two_jobs(seed);
        let with = |solver| plan(&instance, &Options { solver, ..Options::default() }).unwrap();
        let (fast, known) = (with(Solver::Fast), with(Solver::Milp));
        assert!(
            known.objective <= fast.bound * (1.0 + 1e-6),
            "seed {seed}: {} is above {}",
            known.objective,
            fast.bound
        );
    }
}

/// More sets of pipelines at the parameter server's leaf than there is time and memory for.
#[test]
fn very_many_sets_of_pipelines_are_not_enumerated() {
    let mut network = Network::leaf_spine(3, 32, 32, 100.0);
    network.aggregate(0, 32, PortMap::RoundRobin);
    let task = Task { name: "task".into(), job: 0, server: 0, workers: (32..64).collect() };
    let jobs = vec![Job { name: "job".into(), weight: 1.0 }];
    let instance = Instance { name: String::new(), network, jobs, tasks: vec![task], mu: 0.0 };
    for solver in [Solver::Fast, Solver::Auto] {
        let options = Options { solver, time_limit: Duration::from_secs(20), ..Options::default() };
        let plan = plan(&instance, &options).unwrap();
        // It ends: with all of them it would be years. On a busy machine the limit may come first.
        assert!(plan.objective > 3.0 && plan.seconds < 60.0, "{} after {} s", plan.objective, plan.seconds);
    }
}

/// The solvers that are compared with the planner's own way.
const COMPARED: [Solver; 7] = [
    Solver::Aro,
    Solver::AroAcc,
    Solver::Random,
    Solver::Grid,
    Solver::AggTree,
    Solver::RoundRobin,
    Solver::Spread,
];

/// With a link or two that are not there, every method has a plan, or says that it has none and why: none
/// reports a defect, or blames the time.
#[test]
fn what_is_compared_takes_networks_that_lack_links() {
    let (mut made, mut without) = (0, 0);
    for seed in 0..60 {
        let mut instance = small(seed, true);
        for _ in 0..seed % 2 + 1 {
            let links = &mut instance.network.links;
            links.remove(usize::try_from(seed).unwrap() * 7 % links.len());
        }
        let Ok(best) = plan(&instance, &Options::default()) else { continue };
        for solver in COMPARED {
            match plan(&instance, &Options { solver, seed, ..Options::default() }) {
                Ok(plan) => {
                    assert!(plan.objective <= best.objective * (1.0 + 1e-9), "seed {seed}, {solver:?}");
                    made += 1;
                }
                Err(PlanError::Input { .. }) => without += 1,
                Err(error) => panic!("seed {seed}, {solver:?}: {error}"),
            }
        }
    }
    assert!(made > 200 && without < made / 10, "{made} made, {without} not");
}

/// No method is better than the optimum, all pass the replay, and the same seed gives the same.
#[test]
fn what_is_compared_is_no_better() {
    for seed in 0..40 {
        let instance = small(seed, true);
        let best = plan(&instance, &Options::default()).unwrap();
        for solver in COMPARED {
            let options = Options { solver, seed, ..Options::default() };
            let made = plan(&instance, &options).unwrap();
            assert!(made.objective <= best.objective * (1.0 + 1e-9), "seed {seed}, {solver:?}");
            assert_eq!(made.proof, Proof::None);
            assert_eq!(made.tasks, plan(&instance, &options).unwrap().tasks, "seed {seed}, {solver:?}");
        }
    }
}

/// Several tasks over each other, some at leaves of another one's server: every method has a plan that
/// the replay takes.
#[test]
fn every_method_plans_several_tasks() {
    for seed in 0..12 {
        let (jobs, tasks) = [(1, 2), (1, 4), (2, 2), (3, 1)][usize::try_from(seed % 4).unwrap()];
        let setting =
            Setting { side: 6, servers: 6, adding: 0.5, workers: 8, jobs, tasks, ..Setting::default() };
        let instance = setting.instance(seed);
        for solver in COMPARED.into_iter().chain([Solver::Auto]).filter(|&solver| solver != Solver::Spread) {
            let options = Options { solver, seed, time_limit: Duration::from_secs(2) };
            let made =
                plan(&instance, &options).unwrap_or_else(|error| panic!("seed {seed}, {solver:?}: {error}"));
            assert_eq!(made.tasks.len(), jobs * tasks);
        }
    }
}
