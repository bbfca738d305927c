use serde_json::{Value, json};

use super::{SCHEMA, read};
use crate::PlanError;

const FAT_TREE: &str = include_str!("../../../examples/plans/fat-tree.json");
const APPLIANCES: &str = include_str!("../../../examples/plans/appliances.json");
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

/// What the schema refuses the reader refuses as well: a key too many, one too few, a wrong type.
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
        (APPLIANCES, "/jobs/0/tasks/0/server", json!("nobody"), "jobs[0].tasks[0].server", "nobody"),
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
