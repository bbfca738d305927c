//! Which appliances stand by, what they are given for it, and which one has the part then.

use super::*;

fn part(world: &World, name: &str) -> Option<Value> {
    let at = world.config.network.appliance(name).unwrap();
    world.jobs[at].get(&1).cloned()
}

fn addresses(world: &World, rank: u16) -> Vec<String> {
    let way = world.core.placement(1, rank).unwrap().way;
    core::iter::once(way.address).chain(way.backups).collect()
}

#[test]
fn a_backup_has_the_part_before_it_is_needed_and_the_failed_one_backs_it_up() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    let (leaf, ready) = (part(&world, "leaf0-a").unwrap(), part(&world, "spare").unwrap());
    let mut same = ready.clone();
    same["parent"]["from"] = json!("10.80.0.254");
    same["parent"]["port"] = json!("up");
    same.as_object_mut().unwrap().remove("dead_after");
    assert_eq!((same, &ready["dead_after"]), (leaf, &json!("0s")));
    assert_eq!(addresses(&world, 1), ["10.80.0.254:16420", "10.80.0.253:16420"]);
    assert_eq!(addresses(&world, 2), ["10.80.1.254:16420"]);
    // No appliance gets an order: those below have turned to it.
    world.set("leaf0-a", false);
    (world.writes, world.joined) = (0, 0);
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!((world.writes, part(&world, "spare").as_ref()), (0, Some(&ready)));
    assert_eq!(addresses(&world, 1), ["10.80.0.253:16420", "10.80.0.254:16420"]);
    // While ranks are elsewhere they do not count as dead; once all have come they do.
    world.joined = 2;
    world.run(Duration::from_secs(2));
    world.check();
    assert!(part(&world, "spare").unwrap().get("dead_after").is_none());
    world.set("leaf0-a", true);
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!(part(&world, "leaf0-a").unwrap()["dead_after"], "0s");
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!((world.writes, addresses(&world, 1).len()), (0, 2));
}

/// The parents of the leaves, in their order.
fn above(world: &World, leaf: &str) -> Vec<Value> {
    let parent = part(world, leaf).unwrap()["parent"].clone();
    let backups = parent["backups"].as_array().cloned().unwrap_or_default();
    core::iter::once(&parent).chain(&backups).map(|parent| parent["address"].clone()).collect()
}

#[test]
fn appliances_below_are_told_the_backup_and_keep_the_one_that_they_have_turned_from() {
    let mut world = World::of(&EXAMPLE.replacen(
        "name = \"spare\"\nat = \"leaf0\"",
        "name = \"spare\"\nat = \"spine0\"",
        1,
    ));
    world.run(Duration::from_secs(2));
    world.check();
    let (root, spare) = ("10.82.0.254:16420", "10.80.0.253:16420");
    for leaf in ["leaf0-a", "leaf1-a"] {
        assert_eq!(above(&world, leaf), [root, spare]);
    }
    let ready = part(&world, "spare");
    world.set("spine0-a", false);
    world.run(Duration::from_secs(6));
    world.check();
    for leaf in ["leaf0-a", "leaf1-a"] {
        assert_eq!(above(&world, leaf), [spare, root]);
    }
    assert_eq!(part(&world, "spare"), ready);
}

#[test]
fn without_backups_the_spare_has_nothing_until_one_fails() {
    let text = EXAMPLE.replace("backups = true", "backups = false");
    let mut world = World::of(&text);
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!((part(&world, "spare"), addresses(&world, 0).len()), (None, 1));
    world.set("leaf0-a", false);
    world.run(Duration::from_secs(6));
    world.check();
    assert!(
        part(&world, "spare").is_some() && world.core.trees[&1].nodes.iter().all(|it| it.backups.is_empty())
    );
    // Written later, it holds for the existing tree; and the other way round.
    world.config = World::new().config;
    world.set("leaf0-a", true);
    world.restart();
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!(addresses(&world, 0), ["10.80.0.253:16420", "10.80.0.254:16420"]);
    world.config = World::of(&text).config;
    world.restart();
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!((part(&world, "leaf0-a"), addresses(&world, 0).len()), (None, 1));
}

#[test]
fn who_stands_by_for_one_takes_the_part_of_another_that_has_nobody() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    world.set("leaf1-a", false);
    world.run(Duration::from_secs(6));
    world.check();
    assert_eq!(world.core.placement(1, 2).unwrap().way.appliance, "spare");
    assert_eq!(addresses(&world, 2), ["10.80.0.253:16420", "10.80.1.254:16420"]);
    assert_eq!(addresses(&world, 0), ["10.80.0.254:16420"]);
}

/// The example's network with a free appliance at the other spine: nearer to leaves than to the root.
#[test]
fn a_free_appliance_beside_the_root_stands_by_for_it_and_not_for_a_rack() {
    for (tree, wanted) in [
        ("", [("spine0-a", "spine1-a"), ("leaf0-a", "spare"), ("leaf1-a", "")]),
        (
            "[{ appliance = \"leaf0-a\", parent = \"spine0-a\" }, \
              { appliance = \"spine0-a\", parent = \"leaf1-a\" }]",
            [("leaf1-a", ""), ("spine0-a", "spine1-a"), ("leaf0-a", "spare")],
        ),
    ] {
        let mut text = EXAMPLE.to_owned();
        if !tree.is_empty() {
            text = text.replacen("\ntrees = 1", &format!("\ntree = {tree}"), 1);
        }
        text += OTHER_SPINE;
        // The one in the middle has to reach the one above it.
        text = text.replacen("mac = \"02:00:00:00:82:fe\"", "router = \"02:50:00:00:00:04\"", 1);
        let mut world = World::of(&text);
        world.run(Duration::from_secs(2));
        world.check();
        let backed = world.core.trees[&1]
            .nodes
            .iter()
            .map(|node| (node.appliance.clone(), node.backups.first().cloned().unwrap_or_default()));
        assert_eq!(backed.collect::<Vec<_>>(), wanted.map(|(one, by)| (one.to_owned(), by.to_owned())));
    }
}
