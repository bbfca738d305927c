//! Jobs of SwitchML's own clients.

use pascaline_aggregator::Policy;
use serde_json::json;

use super::*;

const KEYS: &str = "kind = \"switchml\"\n[jobs.switchml]\ncontroller = \"192.0.2.1:50099\"";

fn with_keys(keys: &str) -> String {
    GOOD.replacen("members = [\"10.77.0.1\", \"10.77.0.2\"]", keys, 1)
}

#[test]
fn such_a_job_has_a_set_of_ways_for_each_slot_and_is_never_lost() {
    let config = parse(&with_keys(KEYS)).unwrap();
    let job = &config.jobs[0];
    let (controller, registry) = job.switchml().unwrap();
    assert_eq!(controller.value.to_string(), "192.0.2.1:50099");
    assert_eq!((registry.udp_port, job.spec.dead_after), (48864, None));
    let region = job.spec.kind.place().unwrap();
    assert_eq!((job.spec.window, region.sets), (512, 512));
    assert_eq!(job.policy(), Policy { region: Some(region), ..Policy::default() });
    let other = parse(&with_keys(&format!("window = 100\n{KEYS}\nudp_port = 5000"))).unwrap();
    assert_eq!(other.jobs[0].switchml().unwrap().1.udp_port, 5000);
    assert_eq!(other.jobs[0].spec.kind.place().unwrap().sets, 128);
    assert_eq!(config.warnings(), [""; 0]);
    let [warning] = &*other.warnings() else { panic!("{:?}", other.warnings()) };
    assert!(warning.contains("send to UDP port 48864") && warning.contains("udp_port = 5000"), "{warning}");
}

#[test]
fn its_window_is_no_larger_than_the_slots_that_clients_may_name() {
    // Four ways: of 512 slots a client may name 128.
    let config = parse(&with_keys(&format!("{KEYS}\nslots = 512"))).unwrap();
    assert_eq!((config.jobs[0].spec.window, config.jobs[0].spec.kind.place().unwrap().sets), (128, 128));
    assert!(parse(&with_keys(&format!("window = 128\n{KEYS}\nslots = 512"))).is_ok());
    let error = parse(&with_keys(&format!("window = 129\n{KEYS}\nslots = 512"))).unwrap_err();
    assert!(error.to_string().contains("may name 128 slots"), "{error}");
}

#[test]
fn what_is_in_force_says_that_it_is_such_a_job() {
    let config = parse(&with_keys(KEYS)).unwrap();
    let terms = serde_json::to_value(config.jobs[0].terms(config.pool.ways)).unwrap();
    for (key, value) in [
        ("kind", json!("switchml")),
        ("switchml", json!({ "controller": "192.0.2.1:50099", "udp_port": 48864, "slots": 2048 })),
        ("on_death", json!(null)),
        ("control", json!(null)),
        ("congestion", json!(null)),
    ] {
        assert_eq!(terms[key], value, "{key}");
    }
    let told = config.to_string();
    assert!(told.contains("switchml, region"), "{told}");
    assert!(told.contains("; controller 192.0.2.1:50099, UDP port 48864"), "{told}");
    assert!(!told.contains("congestion control"), "{told}");
}

#[test]
fn what_it_cannot_have_is_refused_with_its_place() {
    for (keys, what) in [
        ("kind = \"switchml\"", "without its table"),
        ("kind = \"switchml\"\n[jobs.switchml]\nudp_port = 48864", "lacks the key controller"),
        ("[jobs.switchml]\ncontroller = \"192.0.2.1:50099\"", "in a job of kind"),
        ("kind = \"switchml\"\n[jobs.switchml]\ncontroller = \"192.0.2.1\"", "192.0.2.1"),
        ("kind = \"switchml\"\n[jobs.switchml]\ncontroller = \"10.77.0.254:50099\"", "own address"),
    ] {
        let error = parse(&with_keys(keys)).unwrap_err();
        assert!(error.message().contains(what) || error.to_string().contains(what), "{keys}: {error}");
        assert!(error.place().is_some(), "{keys}");
    }
    for (more, what) in [("udp_port = 0", "UDP port 0"), ("udp_port = 16420", "is taken")] {
        let error = parse(&with_keys(&format!("{KEYS}\n{more}"))).unwrap_err();
        assert!(error.to_string().contains(what), "{more}: {error}");
    }
    for (keys, what) in [
        ("members = []", "members has no meaning"),
        ("dead_after = \"20s\"", "dead_after has no meaning"),
        ("congestion = \"dsa\"", "congestion has no meaning"),
        ("parent = { address = \"10.78.0.254\", rank = 1, ranks = 2 }", "parent has no meaning"),
    ] {
        let error = parse(&with_keys(&format!("{keys}\n{KEYS}"))).unwrap_err();
        assert!(error.to_string().contains(what) && error.place().is_some(), "{keys}: {error}");
    }
    let crowd = with_keys(KEYS).replacen("fan_in = 2", "fan_in = 33", 1);
    assert!(parse(&crowd).unwrap_err().to_string().contains("fan_in"));
    let one_way = format!("{}\n[pool]\nways = 1\n", with_keys(KEYS));
    assert!(parse(&one_way).unwrap_err().to_string().contains("ways"));
}
