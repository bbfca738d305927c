use serde_json::{Value, json};

use super::{SCHEMA, read};
use crate::PlanError;

const FAT_TREE: &str = include_str!("../../../../clients/examples/plans/fat-tree.json");
const APPLIANCES: &str = include_str!("../../../../clients/examples/plans/appliances.json");
const SJST: &str = include_str!("../../tests/instances/20_small_rand.json");

/// The file with one value changed, by its JSON pointer; the value may be new.
fn changed(text: &str, pointer: &str, value: Value) -> String {
    let mut file: Value = serde_json::from_str(text).unwrap();
    match file.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            file.pointer_mut(parent).unwrap()[key] = value;
        }
    }
    file.to_string()
}

fn refused(text: &str) -> (String, String) {
    match read(text).and_then(|instance| crate::plan(&instance, &crate::Options::default())) {
        Err(PlanError::Input { place, problem, remedy }) => {
            assert!(!remedy.is_empty());
            (place, problem)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn examples_keep_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for text in [FAT_TREE, APPLIANCES] {
        let file: Value = serde_json::from_str(text).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&file).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        read(text).unwrap();
    }
}

/// The reader refuses all that the schema refuses: a key too many, one too few, a wrong type.
#[test]
fn schema_and_reader_refuse_the_same() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (pointer, value) in [
        ("/topology/clos/links/0/mbps", json!(3)),
        ("/topology/clos/links/0/gbps", json!("fast")),
        ("/topology/clos/links/0/gbps", json!(0)),
        ("/topology/clos/links/0/gbps", json!(-1.0)),
        ("/topology/clos/links/0/gbps", json!(1e9)),
        ("/jobs/0/weight", json!(1e-9)),
        ("/topology/clos/switches/0/tier", json!(-1)),
        ("/topology/clos/servers/0/switch", json!(7)),
        ("/jobs/0/tasks/0/workers", json!([])),
        ("/jobs/0/tasks", json!([])),
        ("/jobs/0/weight", json!(0)),
        ("/jobs", json!([])),
        ("/mu", json!(1.0)),
        ("/topology", json!({})),
        ("/format", json!("pascaline-plan-v0")),
    ] {
        let text = changed(APPLIANCES, pointer, value.clone());
        assert!(!validator.is_valid(&serde_json::from_str(&text).unwrap()), "{pointer} = {value}: schema");
        assert!(read(&text).is_err(), "{pointer} = {value}: reader");
    }
    for entry in [json!({"switch": "core 0.0"}), json!({"switch": "core 0.0", "port_map": "block"})] {
        let text = changed(FAT_TREE, "/topology/fat_tree/aggregating/0", entry.clone());
        assert!(!validator.is_valid(&serde_json::from_str(&text).unwrap()), "{entry}: schema");
        let (said, what) = refused(&text);
        assert!(said.ends_with("aggregating[0]") && what.contains("adds nothing"), "{entry}: {said}: {what}");
    }
}

/// Readers of the plan could not distinguish two things of one name.
#[test]
fn what_is_there_twice_is_refused() {
    let mut file: Value = serde_json::from_str(FAT_TREE).unwrap();
    let entry = file.pointer("/topology/fat_tree/aggregating/0").unwrap().clone();
    file["topology"]["fat_tree"]["aggregating"].as_array_mut().unwrap().push(entry);
    let (said, what) = refused(&file.to_string());
    assert!(said.starts_with("topology.fat_tree.aggregating[") && what.contains("as well"), "{said}: {what}");
    let first = serde_json::from_str::<Value>(FAT_TREE).unwrap()["jobs"][0]["name"].clone();
    let (said, what) = refused(&changed(FAT_TREE, "/jobs/1/name", first));
    assert!(said == "jobs[1]" && what.contains("as well"), "{said}: {what}");
    let mut file: Value = serde_json::from_str(APPLIANCES).unwrap();
    let mut task = file["jobs"][0]["tasks"][0].clone();
    task["name"] = json!("one");
    file["jobs"][0]["tasks"] = json!([task, task]);
    let (said, what) = refused(&file.to_string());
    assert!(said == "jobs[0].tasks[1]" && what.contains("as well"), "{said}: {what}");
}

/// Each of them is in bounds, and no program can have both.
#[test]
fn what_is_too_far_apart_is_refused() {
    let far = changed(APPLIANCES, "/topology/clos/links/2/gbps", json!(1e-4));
    let (said, what) = refused(&changed(&far, "/topology/clos/links/0/gbps", json!(1e6)));
    assert!(said.contains("leaf-b") && what.contains("more than 100000000 times"), "{said}: {what}");
    let heavy = changed(FAT_TREE, "/jobs/0/weight", json!(1e6));
    let (said, what) = refused(&changed(&heavy, "/jobs/1/weight", json!(1e-4)));
    assert!(said.ends_with(": weight") && what.contains("together more than"), "{said}: {what}");
    // The widest allowed ratio is planned: three flows of five are on one of the thin links.
    let switches = [("a", 0), ("b", 0), ("s", 1), ("t", 1)];
    let switches = switches.map(|(name, tier)| json!({ "name": name, "tier": tier }));
    let links = [("a", "s", 1e4), ("a", "t", 1e4), ("b", "s", 1e-4), ("b", "t", 1e-4)];
    let links = links.map(|(lower, upper, gbps)| json!({ "lower": lower, "upper": upper, "gbps": gbps }));
    let servers = [0, 1, 2, 3, 4, 5]
        .map(|at| json!({ "name": at.to_string(), "switch": if at == 0 { "a" } else { "b" }, "gbps": 1e4 }));
    let clos = json!({
        "switches": switches,
        "links": links,
        "servers": servers,
    });
    let file = json!({"format": "pascaline-plan-v1", "topology": {"clos": clos},
        "jobs": [{"name": "j", "tasks": [{"server": "0", "workers": ["1", "2", "3", "4", "5"]}]}]});
    let plan = crate::plan(&read(&file.to_string()).unwrap(), &crate::Options::default()).unwrap();
    assert!((plan.objective / (1e-4 / 3.0) - 1.0).abs() < 1e-6, "{}", plan.objective);
}

#[test]
fn numbers_that_solvers_do_not_tell_apart_are_refused() {
    for (text, pointer, value, place) in [
        (SJST, "/link_capacity_gbps", json!(1e12), "link leaf 0 - spine 0"),
        (APPLIANCES, "/topology/clos/links/2/gbps", json!(1e308), "link leaf-b - spine-1"),
        (APPLIANCES, "/topology/clos/servers/0/gbps", json!(1e-9), "server ps"),
        (APPLIANCES, "/topology/clos/switches/0/appliance_gbps", json!(1e14), "the appliance of leaf-a"),
    ] {
        let (said, what) = refused(&changed(text, pointer, value.clone()));
        assert!(said.starts_with(place), "{pointer} = {value}: {said}: {what}");
        assert!(what.contains("is not in 0.0001..=1000000"), "{pointer} = {value}: {said}: {what}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, pointer, value, place, problem) in [
        (SJST, "/link_capacity_gbps", json!(0), "link leaf 0 - spine 0", "carries nothing"),
        (SJST, "/link_capacity_gbps", json!(-100.0), "link leaf 0 - spine 0", "carries nothing"),
        (SJST, "/link_capacity_gbps", json!(null), "line 1", "invalid type"),
        (SJST, "/n_spine", json!(0), "leaf_uplink_port_pipeline[0]", "5 ports"),
        (SJST, "/ps", json!([9, 0]), "ps", "no server [9, 0]"),
        (SJST, "/workers/3", json!([0, 99]), "workers[3]", "no server [0, 99]"),
        (SJST, "/workers/3", json!([0, 3]), "task task: workers", "twice"),
        (SJST, "/workers/3", json!([0, 0]), "task task: workers", "is the parameter server"),
        (SJST, "/workers", json!([]), "task task: workers", "none"),
        (SJST, "/pipelines", json!(1), "leaf_server_port_pipeline[0][0]", "pipeline 1 of 1"),
        (SJST, "/format", json!("aro"), "format", "unknown"),
        (APPLIANCES, "/topology/clos/links/2/gbps", json!(0), "link leaf-b - spine-1", "carries nothing"),
        (
            APPLIANCES,
            "/topology/clos/links/2/upper",
            json!("leaf-a"),
            "link leaf-b - leaf-a",
            "tiers 0 and 0",
        ),
        (APPLIANCES, "/topology/clos/switches/0/tier", json!(255), "link leaf-a - ", "tiers 255 and 1"),
        (APPLIANCES, "/topology/clos/links/2/upper", json!("s"), "topology.clos.links[2].upper", "no switch"),
        (
            APPLIANCES,
            "/topology/clos/switches/1/name",
            json!("leaf-a"),
            "topology.clos.switches[1]",
            "as well",
        ),
        (APPLIANCES, "/topology/clos/switches/0/pipelines", json!(2), "topology.clos.switches[0]", "both"),
        (
            APPLIANCES,
            "/topology/clos/switches/0/appliance_gbps",
            json!(0),
            "the appliance of leaf-a",
            "nothing",
        ),
        (APPLIANCES, "/topology/clos/links", json!([]), "task training.0: worker w0", "no way"),
        (APPLIANCES, "/jobs/0/tasks/0/server", json!("unknown"), "jobs[0].tasks[0].server", "unknown"),
        (APPLIANCES, "/mu", json!(2.0), "mu", "not in 0..1"),
        (FAT_TREE, "/topology/fat_tree/ports", json!(5), "topology.fat_tree.ports", "odd"),
        (
            FAT_TREE,
            "/topology/fat_tree/aggregating/0/switch",
            json!("x"),
            "topology.fat_tree.aggregating[0]",
            "x",
        ),
    ] {
        let (said, what) = refused(&changed(text, pointer, value.clone()));
        assert!(said.starts_with(place), "{pointer} = {value}: {said}: {what}");
        assert!(what.contains(problem), "{pointer} = {value}: {said}: {what}");
    }
    for text in ["", "{", "[]", "nonsense", r#"{"format":"aro-sjst-v1","n_leaf":1e999}"#] {
        refused(text);
    }
}
