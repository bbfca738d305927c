//! `pascaline doctor`: each thing that can be wrong with a machine is found, as bad as it is, with a remedy.

mod defects;

use serde_json::Value;

use crate::common::tree::Tree;
use crate::common::{Ended, pascaline};

/// Fits the server of [`Tree::server`].
const CONFIG: &str = r#"
[appliance]
addresses = ["10.77.0.254", "fd00::254"]

[dataplane]
main_core = 0
cores = [2, 3]
idle = "spin"
hugepages = "require"
memory_mb = 512

[[ports]]
name = "p0"
device = "0000:01:00.0"
mtu = 9000

[[jobs]]
id = 1
fan_in = 4
"#;

/// Runs it on a machine with a configuration.
fn doctor(tree: &Tree, config: &str) -> Ended {
    let file = tree.file("appliance.toml", config);
    pascaline(&["doctor", "--json", "--root", &tree.root(), "-c", &file])
}

fn findings(ended: &Ended) -> Vec<Value> {
    let findings = ended.json()["findings"].as_array().unwrap_or_else(|| panic!("{ended:?}")).clone();
    assert!(!findings.is_empty());
    findings
}

/// The finding of a check that says this.
#[track_caller]
fn finding(ended: &Ended, check: &str, says: &str) -> Value {
    let all = findings(ended);
    let found = all
        .iter()
        .find(|finding| finding["check"] == check && finding["detail"].as_str().unwrap().contains(says));
    found.unwrap_or_else(|| panic!("no {check} that says {says:?} in {all:#?}")).clone()
}

#[test]
fn a_machine_that_is_well_prepared_has_nothing_to_complain_of() {
    let tree = Tree::server();
    let ended = doctor(&tree, CONFIG);
    for finding in findings(&ended) {
        // What a card that is DPDK's can do, nobody knows before the start.
        let expected = if finding["check"] == "mtu" { "unknown" } else { "ok" };
        assert_eq!(finding["status"], expected, "{finding}");
    }
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.json()["ok"], true);
    let checks = [
        "hugepages",
        "hugetlbfs",
        "hugepages-numa",
        "memlock",
        "iommu",
        "vfio",
        "driver",
        "mtu",
        "cores",
        "hyperthreads",
        "isolation",
        "numa",
        "governor",
        "clock",
        "udp-port",
        "firewall",
        "addresses",
        "dpdk",
        "privileges",
    ];
    for check in checks {
        finding(&ended, check, "");
    }
}

#[test]
fn what_is_not_ok_always_has_a_remedy() {
    // A machine without anything is as bad as it gets.
    let tree = Tree::empty();
    for ended in [doctor(&tree, CONFIG), pascaline(&["doctor", "--json", "--root", &tree.root()])] {
        for finding in findings(&ended) {
            let good = finding["status"] == "ok";
            assert_eq!(finding["remedy"].as_str().unwrap().is_empty(), good, "{finding}");
            assert!(!finding["detail"].as_str().unwrap().is_empty(), "{finding}");
        }
    }
}

#[test]
fn without_a_configuration_it_says_which_cards_there_are() {
    let tree = Tree::server();
    let ended = pascaline(&["doctor", "--json", "--root", &tree.root()]);
    assert_eq!(finding(&ended, "driver", "0000:01:00.0 [8086:1572]: driver vfio-pci")["status"], "ok");
    assert_eq!(finding(&ended, "driver", "0000:02:00.0 [8086:1521] (eno1)")["status"], "ok");
    let spare = finding(&ended, "driver", "0000:81:00.0 [8086:10fb] (ens1): driver ixgbe");
    assert_eq!(spare["status"], "warn");
    assert!(spare["remedy"].as_str().unwrap().contains("--bind=vfio-pci 0000:81:00.0"), "{spare}");
    tree.above("bond0", &["ens1"]);
    tree.default_route_6("bond0");
    let ended = pascaline(&["doctor", "--json", "--root", &tree.root()]);
    assert_eq!(finding(&ended, "driver", "0000:81:00.0 [8086:10fb] (ens1)")["status"], "ok");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_shared_driver_needs_nothing_to_be_bound() {
    let tree = Tree::server();
    tree.card("0000:81:00.0", ("0x15b3", "0x1019"), "mlx5_core", 0);
    tree.remove("sys/kernel/iommu_groups");
    tree.remove("sys/module/vfio_pci");
    let ended = doctor(&tree, &CONFIG.replace("0000:01:00.0", "0000:81:00.0"));
    assert_eq!(finding(&ended, "driver", "mlx5_core")["status"], "ok");
    assert_eq!(finding(&ended, "mtu", "ens1 has 9000")["status"], "ok");
    assert_eq!(finding(&ended, "iommu", "no port needs it")["status"], "ok");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn drivers_that_make_their_interface_need_none() {
    let tree = Tree::server();
    let ended = doctor(&tree, &CONFIG.replace("0000:01:00.0", "net_tap0,iface=pas0"));
    assert_eq!(finding(&ended, "driver", "net_tap0,iface=pas0 makes pas0")["status"], "ok");
}

#[test]
fn text_names_each_check_and_ends_with_a_sum() {
    let tree = Tree::server();
    tree.hugepages(0, 0);
    let file = tree.file("appliance.toml", CONFIG);
    let ended = pascaline(&["doctor", "--root", &tree.root(), "-c", &file]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("FAIL    hugepages "), "{}", ended.out);
    assert!(ended.out.contains("remedy: reserve some"), "{}", ended.out);
    assert!(ended.out.lines().last().unwrap().contains("1 failures"), "{}", ended.out);
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let tree = Tree::server();
    let file = tree.file("appliance.toml", &CONFIG.replace("fan_in = 4", "fan_in = 0"));
    pascaline(&["doctor", "--root", &tree.root(), "-c", &file])
        .refused(2, &["appliance.toml:19:10", "remedy: "]);
}

#[test]
fn this_very_machine_can_be_examined() {
    let ended = pascaline(&["doctor", "--json"]);
    let failed = findings(&ended).iter().any(|finding| finding["status"] == "fail");
    assert_eq!(ended.code, Some(i32::from(failed)), "{ended:?}");
    // DPDK is here, or this program would not have started.
    assert_ne!(finding(&ended, "dpdk", "")["status"], "fail");
}

#[test]
fn help_has_an_example() {
    let ended = pascaline(&["doctor", "--help"]);
    assert!(ended.out.contains("Examples:\n  pascaline doctor"), "{}", ended.out);
}
