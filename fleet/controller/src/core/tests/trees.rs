//! Jobs with several trees.

use super::*;

/// The example's network with an appliance at each spine, and its first job over as many trees.
pub(super) fn world(trees: u16) -> World {
    let mut text = EXAMPLE.replacen("id = 2\n", "id = 9\n", 1);
    text = text.replacen("\ntrees = 1", &format!("\ntrees = {trees}"), 1);
    text += OTHER_SPINE;
    World::of(&text)
}

fn job(world: &World, name: &str, number: u16) -> Value {
    let at = world.config.network.appliance(name).unwrap();
    world.jobs[at].get(&number).cloned().unwrap_or_default()
}

/// The ways of a rank: of each tree the appliance, and then its backups.
fn ways(world: &World, rank: u16) -> Vec<String> {
    let place = world.core.placement(1, rank).unwrap();
    let all = core::iter::once(place.way).chain(place.further_trees);
    all.map(|way| core::iter::once(way.address).chain(way.backups).collect::<Vec<_>>().join(",")).collect()
}

#[test]
fn each_tree_is_a_job_of_its_own_for_its_appliances() {
    let mut world = world(2);
    world.run(Duration::from_secs(2));
    world.check();
    let (one, two) = (job(&world, "leaf0-a", 1), job(&world, "leaf0-a", 2));
    assert_eq!((&one["name"], &two["name"]), (&json!("resnet"), &json!("resnet tree 2")));
    assert_eq!((&one["members"], &one["fan_in"]), (&two["members"], &two["fan_in"]));
    assert_eq!(
        (&one["parent"]["address"], &two["parent"]["address"]),
        (&json!("10.82.0.254:16420"), &json!("10.82.1.254:16420"))
    );
    assert_eq!((&one["parent"]["rank"], &one["parent"]["ranks"]), (&json!(0), &json!(2)));
    assert_eq!((&two["parent"]["rank"], &two["parent"]["ranks"]), (&json!(0), &json!(2)));
    let backed = "10.80.0.254:16420,10.80.0.253:16420";
    assert_eq!(ways(&world, 1), [backed, backed]);
    let view = world.core.view(world.now);
    let further = &view.jobs[0].further_trees;
    assert!(view.jobs[0].in_force && further[0].in_force);
    assert_eq!((further.len(), further[0].id, &*further[0].tree[0].appliance), (1, 2, "spine1-a"));
    assert!(crate::picture::svg(&world.core, world.now).contains("job 2 &quot;resnet&quot; tree 2: 3 ranks"));
    // A tree's number is no job that a worker may ask for.
    assert!(world.core.placement(2, 0).is_err_and(|refused| !refused.2));
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(world.writes, 0);
}

#[test]
fn a_worker_waits_until_all_of_its_trees_are_there() {
    let mut world = world(2);
    world.run(Duration::from_secs(2));
    let at = world.config.network.appliance("leaf0-a").unwrap();
    world.core.seen[at].in_force.remove(&2);
    let (what, _, again) = world.core.placement(1, 0).unwrap_err();
    assert_eq!((&*what, again), ("appliance leaf0-a does not have job 2 yet", true));
    assert!(!world.core.view(world.now).jobs[0].in_force);
}

#[test]
fn whoever_dies_is_replaced_in_the_trees_that_it_has_a_part_of() {
    let mut world = world(2);
    world.run(Duration::from_secs(2));
    // A root has a part in one tree, and the other root stands by for it.
    let second = world.core.trees[&2].clone();
    world.set("spine0-a", false);
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!(world.core.trees[&1].root().unwrap().appliance, "spine1-a");
    assert_eq!(world.core.trees[&2].nodes.len(), second.nodes.len());
    assert_eq!(world.core.trees[&2].root(), second.root());
    // A leaf has one in both.
    world.set("spine0-a", true);
    world.run(Duration::from_secs(2));
    world.set("leaf0-a", false);
    world.run(Duration::from_secs(6));
    world.check();
    assert!([1, 2].iter().all(|number| world.core.trees[number].node("leaf0-a").is_none()));
    world.set("leaf0-a", true);
    world.run(Duration::from_secs(2));
    let before = ways(&world, 0);
    assert!(before.iter().all(|way| way.contains("10.80.0.254") && !way.starts_with("10.80.0.254")));
    world.restart();
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!((world.writes, ways(&world, 0)), (0, before));
}

#[test]
fn where_appliances_are_alone_each_backs_up_another_tree() {
    let mut text = EXAMPLE.replacen("id = 2\n", "id = 9\n", 1);
    text = text.replacen("\ntrees = 1", "\ntrees = 4", 1);
    text = text.replacen("ranks = [\"w0\", \"w1\", \"w2\"]", "ranks = [\"w0\", \"w1\"]", 1);
    text = text.replacen("spare = true", "spare = false", 1);
    let mut world = World::of(&text);
    world.run(Duration::from_secs(2));
    world.check();
    let ways: Vec<String> = ways(&world, 0);
    let firsts: Vec<&str> = ways.iter().filter_map(|way| way.split(':').next()).collect();
    assert_eq!(firsts, ["10.80.0.254", "10.80.0.253", "10.82.0.254", "10.80.1.254"]);
    let seconds: BTreeSet<&str> = ways.iter().filter_map(|way| way.split([':', ',']).nth(2)).collect();
    assert_eq!(seconds.len(), 4, "an appliance backs up two trees: {ways:?}");
}

#[test]
fn trees_that_cannot_be_kept_are_all_planned_anew() {
    let mut world = world(2);
    world.run(Duration::from_secs(2));
    for name in ["spare", "leaf0-a", "spine0-a"] {
        world.set(name, false);
        world.run(Duration::from_secs(6));
    }
    world.check();
    assert!(world.core.view(world.now).jobs[0].in_force);
    assert_eq!(world.core.placement(1, 0).unwrap().workers, 3);
    for name in ["spare", "leaf0-a", "spine0-a"] {
        world.set(name, true);
    }
    world.run(Duration::from_secs(6));
    world.check();
    // Fewer trees are other trees, and surplus ones are removed; when there are more again, they are made.
    world.config.jobs[0].trees = 1;
    world.restart();
    world.run(Duration::from_secs(3));
    world.check();
    assert!(world.jobs.iter().all(|jobs| !jobs.contains_key(&2)));
    assert_eq!(ways(&world, 0).len(), 1);
    world.config.jobs[0].trees = 2;
    world.restart();
    world.run(Duration::from_secs(3));
    world.check();
    assert_eq!(ways(&world, 0).len(), 2);
}

/// The inputs of a single tree have the same form as before there were several.
#[test]
fn what_was_stored_for_one_tree_is_still_read() {
    let world = world(1);
    let planned = &world.core.trees[&1];
    let tree = Tree {
        nodes: planned.nodes.iter().map(|node| crate::Node { backups: vec![], ..node.clone() }).collect(),
    };
    let nodes = serde_json::to_string(&tree).unwrap();
    let made_for = world.core.made_for(&world.config.jobs[0], core::slice::from_ref(&tree));
    assert_eq!(made_for, format!("[[\"w0\",\"w1\",\"w2\"],{nodes}]"));
}
