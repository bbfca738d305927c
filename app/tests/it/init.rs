//! `pascaline init`: what it writes for a machine is accepted, fits the machine, and never costs anybody a
//! file.

use crate::common::tree::Tree;
use crate::common::{Ended, pascaline};

/// Shows what it would write for a machine; it must be accepted.
#[track_caller]
fn init(tree: &Tree, more: &[&str]) -> Ended {
    let ended = pascaline(&[&["init", "--dry-run", "--root", &tree.root()], more].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let file = tree.file("shown.toml", &ended.out);
    let checked = pascaline(&["check", "--elsewhere", &file]);
    assert_eq!(checked.code, Some(0), "{checked:?}\n{}", ended.out);
    ended
}

/// The lines that are in force, without their comments.
fn in_force(ended: &Ended) -> Vec<String> {
    let code = ended.out.lines().map(|line| line.split(" #").next().unwrap().trim_end().to_owned());
    code.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[track_caller]
fn has(ended: &Ended, lines: &[&str]) {
    let found = in_force(ended);
    for line in lines {
        assert!(found.iter().any(|have| have == line), "{line} is not in force in\n{}", ended.out);
    }
}

#[test]
fn a_card_that_is_ready_is_used_with_isolated_cores_of_its_node() {
    let ended = init(&Tree::server(), &[]);
    has(
        &ended,
        &["device = \"0000:01:00.0\"", "cores = [2, 3]", "main_core = 0", "idle = \"spin\"", "mtu = 1500"],
    );
    // The others are shown, and only that; the one of the login not even that.
    assert!(ended.out.contains("# device = \"0000:81:00.0\""), "{}", ended.out);
    assert!(ended.out.contains("dpdk-devbind.py --bind=vfio-pci 0000:81:00.0"), "{}", ended.out);
    assert!(!ended.out.contains("0000:02:00.0"), "{}", ended.out);
    assert!(ended.err.contains("0000:02:00.0 carries this machine's default route"), "{}", ended.err);
}

#[test]
fn what_it_writes_passes_the_doctor() {
    let tree = Tree::server();
    let file = tree.file("appliance.toml", &init(&tree, &[]).out);
    let ended = pascaline(&["doctor", "--json", "--root", &tree.root(), "-c", &file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for finding in ended.json()["findings"].as_array().unwrap() {
        assert!(finding["status"] == "ok" || finding["check"] == "mtu", "{finding}");
    }
}

#[test]
fn a_card_of_the_kernels_is_named_with_what_is_to_be_done() {
    let tree = Tree::server();
    tree.remove("sys/bus/pci/devices/0000:01:00.0");
    let ended = init(&tree, &[]);
    // Node 1 has no isolated core: one that is not the kernel's favourite, beside another for the control
    // plane.
    has(
        &ended,
        &["device = \"0000:81:00.0\"", "mtu = 9000", "cores = [4]", "main_core = 5", "idle = \"backoff\""],
    );
    assert!(ended.err.contains("0000:81:00.0 is still bound to the kernel"), "{}", ended.err);
    assert!(ended.err.contains("dpdk-devbind.py --bind=vfio-pci 0000:81:00.0"), "{}", ended.err);
}

#[test]
fn the_card_of_the_login_is_shared_and_not_taken() {
    let tree = Tree::server();
    tree.remove("sys/bus/pci/devices/0000:01:00.0");
    tree.remove("sys/bus/pci/devices/0000:81:00.0");
    let ended = init(&tree, &[]);
    has(&ended, &["device = \"net_kernel0,iface=eno1\""]);
    assert!(ended.err.contains("default route and is left to the kernel"), "{}", ended.err);
    assert!(ended.err.contains("net_kernel"), "{}", ended.err);
}

/// The route may be one of IPv6 only, and go over a bridge over a VLAN over a bond over cards.
#[test]
fn a_card_of_the_login_is_known_below_bonds_vlans_and_bridges() {
    let tree = Tree::server();
    tree.above("bond0", &["eno1", "ens1"]);
    tree.above("bond0.7", &["bond0"]);
    tree.above("br0", &["bond0.7", "br0"]);
    tree.default_route("br0");
    for of_6 in [false, true] {
        if of_6 {
            tree.remove("proc/net/route");
            tree.default_route_6("br0");
        }
        let ended = init(&tree, &[]);
        for card in ["0000:02:00.0", "0000:81:00.0"] {
            assert!(!ended.out.contains(card), "{}", ended.out);
            assert!(ended.err.contains(&format!("{card} carries this machine's default route")), "{ended:?}");
        }
    }
    tree.remove("sys/bus/pci/devices/0000:01:00.0");
    has(&init(&tree, &[]), &["device = \"net_kernel0,iface=br0\""]);
    tree.default_route_6("eno1");
    has(&init(&tree, &[]), &["device = \"0000:81:00.0\""]);
}

#[test]
fn a_machine_without_a_card_gets_an_interface() {
    let tree = Tree::empty();
    tree.interface("lo", None, 65536);
    let args = ["init", "--dry-run", "--root", &tree.root()];
    pascaline(&args).refused(1, &["no network card", "remedy: ", "--interface"]);
    let ended = init(&tree, &["--interface", "veth7"]);
    has(&ended, &["device = \"net_kernel0,iface=veth7\"", "cores = [0]", "main_core = 0", "float = true"]);
    assert!(ended.err.contains("there is no interface veth7 yet"), "{}", ended.err);
    tree.interface("veth3", None, 1500);
    let ended = init(&tree, &[]);
    has(&ended, &["device = \"net_kernel0,iface=veth3\""]);
    assert!(ended.err.contains("no network card on a PCI bus"), "{}", ended.err);
    assert!(!ended.err.contains("yet"), "{}", ended.err);
}

#[test]
fn long_frames_are_taken_as_the_interface_has_them() {
    let ended = init(&Tree::server(), &["--interface", "ens1"]);
    has(&ended, &["device = \"net_kernel0,iface=ens1\"", "mtu = 9000"]);
}

#[test]
fn addresses_and_ranks_are_the_users() {
    let ended = init(&Tree::server(), &["--address", "192.0.2.7", "--address", "fd00::7", "--ranks", "16"]);
    has(&ended, &["addresses = [\"192.0.2.7\", \"fd00::7\"]", "fan_in = 16"]);
}

#[test]
fn hostile_names_and_impossible_numbers_are_refused() {
    let root = Tree::server();
    let with = |more: &[&str]| pascaline(&[&["init", "--dry-run", "--root", &root.root()], more].concat());
    for name in ["", "a,b", "a\"b", "../x", "a b"] {
        with(&["--interface", name]).refused(1, &["no name of an interface", "remedy: "]);
    }
    with(&["--ranks", "0"]).refused(2, &["fan_in"]);
    with(&["--address", "10.77.0.254/24"]).refused(2, &["--address"]);
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let tree = Tree::server();
    let file = tree.file("mine.toml", "precious");
    let ended = pascaline(&["init", "--root", &tree.root(), "-o", &file]);
    ended.refused(1, &["mine.toml is there already", "remedy: ", "--dry-run"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn it_writes_what_it_shows() {
    let tree = Tree::server();
    let shown = init(&tree, &[]).out;
    let file = format!("{}/new.toml", tree.root());
    let ended = pascaline(&["init", "--root", &tree.root(), "-o", &file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("new.toml written"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
}

#[test]
fn help_has_an_example() {
    let ended = pascaline(&["init", "--help"]);
    assert!(ended.out.contains("Examples:\n  pascaline init --dry-run"), "{}", ended.out);
}
