use super::*;
use crate::model::{Aggregates, Job};
use crate::{plan, to_json};

/// Two leaves with four servers each, two spines that add, and jobs of one task between the leaves.
fn instance(jobs: &[(&str, usize, &[usize])]) -> Instance {
    let mut network = Network::leaf_spine(2, 2, 4, 100.0);
    for switch in &mut network.switches {
        switch.aggregates = Aggregates::Inside { pipelines: 1 };
    }
    let named = |name: &str| Job { name: name.to_owned(), weight: 1.0 };
    let tasks = jobs.iter().enumerate().map(|(job, &(name, server, workers))| Task {
        name: name.to_owned(),
        job,
        server,
        workers: workers.to_vec(),
    });
    Instance {
        name: String::new(),
        network,
        jobs: jobs.iter().map(|(name, ..)| named(name)).collect(),
        tasks: tasks.collect(),
        mu: 0.001,
    }
}

fn routes_of(plan: &Plan, task: usize) -> &[Vec<Channel>] {
    &plan.tasks[task].paths
}

#[test]
fn a_job_comes_and_the_other_keeps_its_way() {
    let one = instance(&[("a", 0, &[4, 5])]);
    let before = plan(&one, &Options::default()).unwrap();
    let former = Former::read(&to_json(&one, &before).to_string()).unwrap();
    let two = instance(&[("a", 0, &[4, 5]), ("b", 1, &[6, 7])]);
    let (after, kept) = extend(&two, &former, 0, &Options::default()).unwrap();
    assert_eq!(routes_of(&after, 0), routes_of(&before, 0));
    assert_eq!((kept.kept, kept.new), (vec!["a".to_owned()], vec!["b".to_owned()]));
    // There is another spine: no job is in another's way.
    assert_eq!((after.k, after.proof), (1, crate::Proof::Optimal));

    let by = |solver| extend(&two, &former, 0, &Options { solver, ..Options::default() });
    assert!(
        by(crate::Solver::Milp).is_ok() && matches!(by(crate::Solver::Random), Err(PlanError::Input { .. }))
    );

    // After its removal the other has it alone.
    let (alone, kept) = extend(&one, &former, 0, &Options::default()).unwrap();
    assert_eq!((routes_of(&alone, 0), alone.objective), (routes_of(&before, 0), before.objective));
    assert_eq!(kept.new, Vec::<String>::new());
}

/// Both went over one spine; only if one may move has each a spine of its own.
#[test]
fn staying_costs_what_the_gap_says_and_moves_mend_it() {
    let two = instance(&[("a", 0, &[4, 5]), ("b", 1, &[6, 7])]);
    let mut bad = plan(&two, &Options::default()).unwrap();
    let (network, spine) = (&two.network, |path: &[Channel]| match two.network.ends(path[1]) {
        (_, End::Switch { switch, .. }) => switch,
        _ => unreachable!(),
    });
    let first = spine(&bad.tasks[0].paths[0]);
    for path in &mut bad.tasks[1].paths {
        let between = |from: usize, to: usize| {
            (0..network.channels()).find(|&channel| match network.ends(channel) {
                (End::Switch { switch: a, .. }, End::Switch { switch: b, .. }) => (a, b) == (from, to),
                _ => false,
            })
        };
        (path[1], path[2]) = (between(1, first).unwrap(), between(first, 0).unwrap());
    }
    let former = Former::read(&to_json(&two, &bad).to_string()).unwrap();
    let (stays, kept) = extend(&two, &former, 0, &Options::default()).unwrap();
    assert_eq!((kept.kept.len(), stays.k), (2, 2));
    assert!((stays.gap() - 0.5).abs() < 1e-6, "{}", stays.gap());
    let (moved, kept) = extend(&two, &former, 1, &Options::default()).unwrap();
    assert_eq!((kept.kept.len(), kept.moved.len(), moved.k), (1, 1, 1));
    assert!(moved.gap() < 1e-6);
}

/// Two links between the same two switches: each worker stays on its own.
#[test]
fn ways_over_parallel_links_are_kept() {
    let mut one = instance(&[("a", 0, &[4, 5])]);
    one.network.switches.iter_mut().for_each(|switch| switch.aggregates = Aggregates::No);
    one.network.links.retain(|link| link.upper == 2);
    let links = one.network.links.clone();
    one.network.links.extend(links);
    one.network.servers[0].gbps = 1000.0;
    let before = plan(&one, &Options::default()).unwrap();
    assert!((before.objective - 100.0).abs() < 1e-6);
    let former = Former::read(&to_json(&one, &before).to_string()).unwrap();
    let (after, kept) = extend(&one, &former, 0, &Options::default()).unwrap();
    assert_eq!((routes_of(&after, 0), kept.kept.len()), (routes_of(&before, 0), 1));
    assert!((after.objective - 100.0).abs() < 1e-6, "{}", after.objective);
}

#[test]
fn a_file_that_is_no_earlier_plan_is_refused() {
    assert!(Former::read("{}").unwrap_err().to_string().contains("pascaline-fleet plan --json"));
    let one = instance(&[("a", 0, &[4, 5])]);
    let text = to_json(&one, &plan(&one, &Options::default()).unwrap()).to_string();
    let former = Former::read(&text.replace("spine", "gone")).unwrap();
    let error = extend(&one, &former, 0, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("is not there any more"), "{error}");
    // With other workers it is another task.
    let former = Former::read(&text).unwrap();
    let (_, kept) = extend(&instance(&[("a", 0, &[4, 6])]), &former, 0, &Options::default()).unwrap();
    assert_eq!(kept.new, ["a"]);
}
