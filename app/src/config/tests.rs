//! Every mistake is found, with its place.

use std::path::Path;

use super::*;

mod admin;
mod memory;
mod mistakes;
mod olaf;
mod parent;
mod policies;
mod server;
mod switchml;

const GOOD: &str = r#"
[appliance]
addresses = ["10.77.0.254", "fd00::254"]

[dataplane]
main_core = 0
cores = [1]

[[ports]]
name = "p0"
device = "net_af_packet0,iface=veth0"

[[ports]]
name = "p1"
device = "0000:01:00.0"
peer = "p0"

[[jobs]]
id = 7
fan_in = 2
members = ["10.77.0.1", "10.77.0.2"]

[telemetry]
listen = "127.0.0.1:9464"
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("test.toml"), text)
}

/// Replaces one piece of the good configuration, and returns the error with the line and column it names and
/// the text that stands there.
fn broken(from: &str, to: &str) -> (String, String) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = parse(&text).expect_err(to);
    let place = error.place.expect("a place");
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    (error.to_string(), line.chars().skip(place.column - 1).collect())
}

#[test]
fn a_good_configuration_is_accepted_with_its_defaults() {
    let config = parse(GOOD).unwrap();
    assert_eq!(config.udp_ports, UdpPorts::single(16420));
    assert_eq!(config.ports[0].peer, Some(1));
    assert_eq!(config.ports[1].peer, Some(0));
    assert_eq!(config.ports[1].device.value, Device::Pci("0000:01:00.0".into()));
    // The job's region.
    assert_eq!(config.pool, PoolConfig { reserved: 1024, ..PoolConfig::default() });
    assert_eq!(config.jobs[0].spec.window, 512);
    assert_eq!(config.jobs[0].name, "job7");
    // The smaller MTU minus IPv6, UDP and the aggregation header, in whole 8-byte elements.
    assert_eq!(config.max_payload(), (1500 - 40 - 8 - 22) / 8 * 8);
}

#[test]
fn ports_of_one_bridge_pass_on_to_each_other_and_two_are_a_pair() {
    let with = |ports: &str| parse(&GOOD.replacen("peer = \"p0\"\n", ports, 1)).unwrap();
    let port = |name: &str, bridge: &str| {
        format!("[[ports]]\nname = \"{name}\"\ndevice = \"net_ring_{name}\"\nbridge = \"{bridge}\"\n")
    };
    let five = [port("a", "x"), port("b", "y"), port("c", "x"), port("d", "y"), port("e", "x")].concat();
    let config = with(&five);
    let beyond: Vec<_> = config.ports.iter().map(|port| port.beyond.iter().collect::<Vec<_>>()).collect();
    assert_eq!(beyond, [vec![], vec![], vec![4, 6], vec![5], vec![2, 6], vec![3], vec![2, 4]]);
    assert_eq!((config.ports[3].peer, config.ports[2].peer), (Some(5), None));
    let settings = config.settings();
    assert_eq!(["dataplane.mark_from", "pool.mark_from"].map(|key| &*settings[key]), ["64", "0.9"]);
    assert_eq!(settings["ports.a.bridge"], "x");
    assert_eq!((&settings["ports.b.peer"][..], &settings["ports.b.bridge"][..]), ("d", "y"));
}

#[test]
fn the_example_configuration_is_accepted() {
    let text = include_str!("../../../conf/appliance.toml");
    let config = Config::parse(Path::new("conf/appliance.toml"), text).unwrap();
    assert!(!config.jobs.is_empty());
}

#[test]
fn what_is_commented_out_in_the_example_is_accepted_too() {
    let text = include_str!("../../../conf/appliance.toml");
    let uncommented = |line: &str| {
        let rest = line.strip_prefix("# ")?;
        let key = rest.split_once(" = ").map(|(key, _)| key);
        let is_key = key.is_some_and(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        (is_key || rest.starts_with('[')).then(|| rest.to_owned())
    };
    let all: Vec<String> =
        text.lines().map(|line| uncommented(line).unwrap_or_else(|| line.to_owned())).collect();
    let all = all.join("\n").replacen("mode = \"embedded\"", "mode = \"external\"", 1);
    // A peer is a second port, and a bridge has several, which the example does not have.
    let all = all.replacen("peer = \"p1\"", "", 1);
    let all = all.replacen("bridge = \"rack\"", "", 1);
    // All its kinds of jobs together need a larger pool.
    let all = all.replacen("slots = 4096 ", "slots = 8192 ", 1);
    // No second appliance is described.
    let all = all.lines().filter(|line| !line.starts_with("parent = ")).collect::<Vec<_>>().join("\n");
    // Its file is not here.
    let all = all.lines().filter(|line| !line.starts_with("verify = ")).collect::<Vec<_>>().join("\n");
    // Nor is the key's.
    let sealed = |line: &&str| line.starts_with("security = ") || line.starts_with("key_file = ");
    let all = all.lines().filter(|line| !sealed(line)).collect::<Vec<_>>().join("\n");
    // TLS is for an address.
    let all = all.replacen("unix:/run/pascaline/admin.sock", "10.0.0.1:9466", 1);
    let config =
        Config::parse(Path::new("conf/appliance.toml"), &all).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.jobs.len(), 5);
    assert!(config.jobs[4].switchml().is_some());
    assert_eq!((config.jobs[3].spec.kind.mode(), config.ports[0].queue), (Mode::Olaf, PortQueue::default()));
    assert!(config.admission.is_some() && config.ps.listen.is_some());
    assert!(config.admin.is_some_and(|admin| admin.tls.is_some() && admin.token_file.is_some()));
    assert_eq!((config.jobs[2].needed(), config.jobs[2].policy().partial_after), (4, 10_000_000));
}

#[test]
fn every_mistake_names_its_place() {
    let cases = [
        ("main_core", "main_cor", "main_cor = 0", "unknown field"),
        ("cores = [1]", "cores = [1, 1]", "1]", "another lcore"),
        ("cores = [1]", "cores = [0]", "0]", "main_core"),
        ("cores = [1]", "cores = []", "[]", "no dataplane core"),
        ("cores = [1]", "cores = [1]\nidle = \"nap\"", "\"nap\"", "not a choice"),
        ("cores = [1]", "cores = [1]\nhugepages = \"maybe\"", "\"maybe\"", "not a choice"),
        ("cores = [1]", "cores = [1]\npassing_queue = \"yes\"", "\"yes\"", "not a choice"),
        (
            "cores = [1]",
            "cores = [1]\npassing = \"in-turn\"\npassing_queue = \"require\"",
            "\"require\"",
            "in turn",
        ),
        ("cores = [1]", "cores = [1]\ndrain = \"soon\"", "\"soon\"", ""),
        ("cores = [1]", "cores = [1]\ndrain = \"0s\"", "\"0s\"", "zero"),
        ("\"10.77.0.254\"", "\"10.77.0.256\"", "\"10.77.0.256\", \"fd00::254\"]", "10.77.0.256"),
        ("[\"10.77.0.254\", \"fd00::254\"]", "[]", "[]", "no address"),
        ("name = \"p1\"", "name = \"p0\"", "\"p0\"", "two ports"),
        ("peer = \"p0\"", "peer = \"p1\"", "\"p1\"", "no other port"),
        ("peer = \"p0\"", "bridge = \"b\"", "\"b\"", "one port only"),
        ("peer = \"p0\"", "peer = \"p0\"\nbridge = \"b\"", "\"b\"", "has a peer already"),
        ("cores = [1]", "cores = [1]\nbridge_addresses = 2", "2", "out of range"),
        ("cores = [1]", "cores = [1]\nbridge_age = \"1h\"", "\"1h\"", "out of range"),
        ("addresses =", "udp_port = 0\naddresses =", "0", "UDP port 0"),
        ("addresses =", "udp_ports = 0\naddresses =", "0", "power of two"),
        ("addresses =", "udp_ports = 3\naddresses =", "3", "power of two"),
        ("addresses =", "udp_ports = 128\naddresses =", "128", "at most 64"),
        ("addresses =", "udp_ports = 8\naddresses =", "8", "udp_port = 16416"),
        ("addresses =", "udp_port = 5\nudp_ports = 8\naddresses =", "5", "udp_port = 8"),
        ("peer = \"p0\"", "mtu = 60", "60", "out of range"),
        ("id = 7", "id = 70000", "70000", ""),
        ("fan_in = 2", "fan_in = 0", "0", "out of range"),
        ("fan_in = 2", "fan_in = 1025", "1025", "out of range"),
        ("fan_in = 2", "fan_in = 3", "[\"10.77.0.1\", \"10.77.0.2\"]", "2 members"),
        ("fan_in = 2", "fan_in = 2\nwindow = 0", "0", "out of range"),
        ("[[jobs]]", "[pool]\nslots = 1000\n[[jobs]]", "1000", "power of two"),
        ("[[jobs]]", "[pool]\nways = 3\n[[jobs]]", "3", "1, 2, 4 or 8"),
        ("127.0.0.1:9464", "127.0.0.1", "\"127.0.0.1\"", ""),
        ("id = 7", "id = 7\nfan_in = 2", "fan_in = 2", "duplicate key"),
    ];
    for (from, to, at, says) in cases {
        let (message, found) = broken(from, to);
        assert!(message.contains(says), "{to}: {message}");
        assert!(found.starts_with(at), "{to}: the place is at {found:?}: {message}");
        assert!(message.contains("remedy: "), "{message}");
    }
}

#[test]
fn several_udp_ports_are_told_from_others_by_their_upper_bits() {
    for (lines, expected) in
        [("udp_ports = 4", (16420, 4)), ("udp_port = 20480\nudp_ports = 64", (20480, 64))]
    {
        let config = parse(&GOOD.replacen("addresses =", &format!("{lines}\naddresses ="), 1)).unwrap();
        assert_eq!((config.udp_ports.first(), config.udp_ports.count()), expected);
    }
}

#[test]
fn a_second_job_of_the_same_number_is_refused() {
    let text = format!("{GOOD}\n[[jobs]]\nid = 7\nfan_in = 4\n");
    assert!(parse(&text).unwrap_err().to_string().contains("two jobs"));
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/appliance.toml")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/appliance.toml"), "{error}");
}
