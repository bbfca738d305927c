//! Changes at appliances, and withdrawals.

use super::*;

/// As an appliance merges a change into what it has (RFC 7396).
pub(super) fn merge(into: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *into = change;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in change {
        match (value, into.as_object_mut().unwrap()) {
            (Value::Null, into) => drop(into.remove(&key)),
            (value, into) => merge(into.entry(key).or_insert(Value::Null), value),
        }
    }
}

/// With many appliances an idle controller would be busy otherwise.
#[test]
fn parts_are_looked_for_only_when_something_has_changed() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    for change in [false, true] {
        world.run(Duration::from_secs(2));
        assert!(!world.core.unsettled, "after everybody had its part");
        world.set("leaf0-a", change);
        world.run(Duration::from_secs(6));
        assert!(!world.core.unsettled && world.core.trees[&1].node("spare").is_some());
        world.check();
    }
}

/// An appliance merges orders into what it has: a key to be removed has to be named.
#[test]
fn what_is_taken_out_of_the_file_is_withdrawn() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    let leaf = world.config.network.appliance("leaf0-a").unwrap();
    let has = |world: &World| {
        let job = &world.jobs[leaf][&1];
        (job["shared"]["order"].clone(), job["parent"]["port"].clone())
    };
    assert_eq!(has(&world), (json!("rank"), json!("up")));
    let file =
        EXAMPLE.replacen(", shared = { order = \"rank\" }", "", 1).replacen("\nport = \"up\"", "\n", 1);
    world.config = World::of(&file).config;
    world.restart();
    world.run(Duration::from_secs(2));
    world.check();
    assert_eq!(has(&world), (Value::Null, Value::Null));
    // A value that an operator has set and no controller ever did stays, but for the parent's.
    let job = world.jobs[leaf].get_mut(&1).unwrap();
    (job["control"], job["fan_in"]) = (json!("root"), json!(9));
    job["parent"]["via"] = json!("10.80.0.1");
    job["parent"]["backups"] = json!([{ "address": "10.80.0.2:16420" }]);
    world.run(Duration::from_secs(2));
    let job = world.jobs[leaf].get_mut(&1).unwrap();
    assert_eq!(job.as_object_mut().unwrap().remove("control"), Some(json!("root")));
    world.check();
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(world.writes, 0);
}

/// A new file comes to those that follow first.
#[test]
fn one_that_follows_with_a_newer_file_answers_what_is_in_force() {
    let ranks = "ranks = [\"w0\", \"w1\", \"w2\"]";
    for (from, to) in [
        (ranks, "ranks = [\"w0\", \"w1\"]"),
        (ranks, "ranks = [\"w2\"]"),
        (ranks, "ranks = [\"w2\", \"w1\", \"w0\"]"),
        ("window = 512", "window = 256"),
        ("name = \"resnet\"", "name = \"vgg\""),
    ] {
        let mut world = World::new();
        world.run(Duration::from_secs(2));
        let newer = World::of(&EXAMPLE.replacen(from, to, 1)).config;
        let leader = core::mem::replace(&mut world.core, Core::following(&newer, Some("b"), world.now));
        world.core.learn(world.stored.clone(), world.now);
        world.writes = 0;
        world.run(Duration::from_secs(3));
        assert_eq!(world.writes, 0);
        for rank in 0..4 {
            assert_eq!(world.core.placement(1, rank), leader.placement(1, rank), "{to}: rank {rank}");
        }
        assert!(world.core.view(world.now).jobs.iter().all(|job| job.in_force), "{to}");
        // A part changed by hand is not in force, at any controller, until the leader has changed it back.
        let leaf = world.config.network.appliance("leaf0-a").unwrap();
        for (fan_in, right) in [(9, false), (2, true)] {
            world.jobs[leaf].get_mut(&1).unwrap()["fan_in"] = json!(fan_in);
            world.run(Duration::from_secs(2));
            assert_eq!(world.core.placement(1, 0).is_ok(), right);
        }
        // Once it leads its own file counts.
        world.config = newer;
        let until = world.now + Duration::from_secs(9);
        lead(&mut world.core, &world.stored, 2, until, world.now);
        world.run(Duration::from_secs(3));
        world.check();
    }
}

#[test]
fn one_that_follows_answers_nothing_where_it_does_not_know_an_appliance() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    for up in [false, true] {
        world.set("leaf0-a", up);
        world.run(Duration::from_secs(6));
    }
    assert_eq!(world.core.placement(1, 0).unwrap().way.appliance, "spare");
    let (before, rest) = EXAMPLE.split_once("[[appliances]]\nname = \"spare\"").unwrap();
    let text = before.to_owned() + &rest[rest.find("[[hosts]]").unwrap()..];
    world.core = Core::following(&World::of(&text).config, Some("b"), world.now);
    world.core.learn(world.stored.clone(), world.now);
    world.jobs.pop();
    world.run(Duration::from_secs(3));
    assert!(world.core.placement(1, 0).is_err_and(|refused| refused.2));
}

#[test]
fn one_that_was_held_up_does_not_take_that_for_the_silence_of_appliances() {
    let mut world = World::new();
    world.run(Duration::from_secs(2));
    let trees = world.core.trees.clone();
    world.writes = 0;
    for held_up in [Duration::from_millis(2900), Duration::from_secs(60)] {
        world.now += held_up;
        world.run(Duration::from_secs(2));
        assert_eq!((world.writes, &world.core.trees), (0, &trees), "{:?}", world.stored.moves);
        assert!(world.core.seen.iter().all(|seen| seen.health == Health::Up));
    }
    // A long wait for answers is no stall: the store's keeper is polled meanwhile.
    let alone = Standing { leads_until: Some(Duration::MAX), ..Standing::default() };
    let asks: Vec<Ask> = (0..world.up.len())
        .filter_map(|at| match world.core.next(at, world.now) {
            Next::Ask(ask) => Some(ask),
            Next::Wait(_) => None,
        })
        .collect();
    for _ in 0..40 {
        world.now += STEP;
        assert!(!world.core.set_standing(alone.clone(), world.now));
    }
    world.core.answered(&asks[0], Err("no answer".to_owned()), world.now);
    assert!(world.core.seen.iter().all(|seen| seen.health == Health::Down));
}

/// The next leader has to know what an appliance has received.
#[test]
fn no_appliance_is_told_of_a_tree_before_the_store_has_it() {
    let mut world = World::new();
    for _ in 0..20 {
        world.ask();
        drop(world.core.take_notes());
        world.now += STEP;
    }
    assert_eq!(world.writes, 0);
    world.core.remembered(&[]);
    world.run(Duration::from_secs(2));
    world.check();
    // Nor of another one.
    world.set("leaf0-a", false);
    world.writes = 0;
    for _ in 0..60 {
        world.ask();
        world.now += STEP;
    }
    assert_eq!(world.writes, 0);
    assert!(world.core.trees[&1].node("spare").is_some());
    // A decision counts once the store has it; the silence of an appliance is a fact at once.
    let told = |world: &World, text: &str| {
        let view = world.core.view(world.now);
        view.moves.iter().any(|moved| moved.text.contains(text))
    };
    let decision = "spare takes the part of leaf0-a";
    assert!(told(&world, "leaf0-a has not answered") && !told(&world, decision));
    let notes = world.core.take_notes();
    assert!(!told(&world, decision), "handed to the store, which may not take it");
    assert!(notes.iter().any(|note| matches!(note, Note::Moved(moved) if moved.text.contains(decision))));
    world.core.remembered(&notes);
    assert!(told(&world, decision));
    let times: Vec<f64> = world.core.view(world.now).moves.iter().map(|moved| moved.seconds_ago).collect();
    assert!(times.is_sorted(), "the latest first: {times:?}");
    world.run(STEP);
    world.run(STEP);
    world.check();
}

/// What seals a job's packets holds between its appliances as well, as long as it is in the file.
#[test]
fn a_sealed_job_is_sealed_between_its_appliances() {
    let key = "/etc/pascaline/job1.key";
    let sealed = format!(", security = \"mac\", key_file = \"{key}\"");
    let mut world = World::of(&EXAMPLE.replacen(", shared = { order = \"rank\" }", &sealed, 1));
    world.run(Duration::from_secs(2));
    world.check();
    let [leaf, root] = ["leaf0-a", "spine0-a"].map(|name| world.config.network.appliance(name).unwrap());
    let has = |of: &Value| (of["security"].clone(), of["key_file"].clone());
    for of in [&world.jobs[leaf][&1], &world.jobs[leaf][&1]["parent"], &world.jobs[root][&1]] {
        assert_eq!(has(of), (json!("mac"), json!(key)));
    }
    assert_eq!(world.jobs[root][&1].get("parent"), None);
    world.config = World::of(EXAMPLE).config;
    world.restart();
    world.run(Duration::from_secs(2));
    world.check();
    for of in [&world.jobs[leaf][&1], &world.jobs[leaf][&1]["parent"]] {
        assert_eq!(has(of), (Value::Null, Value::Null));
    }
}
