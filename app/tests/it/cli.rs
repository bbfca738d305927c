//! The command line: what is wrong is said clearly, with its place and a remedy, and the exit status tells
//! whose mistake it was. Needs no privileges.

use std::net::TcpListener;

use crate::common::{self, Ended, Files, pascaline};

/// The annotated example.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/appliance.toml");

/// A configuration that is right in itself. What follows `device` is for the test to say.
fn configuration(device: &str, dataplane: &str, rest: &str) -> String {
    let cores = common::appliance::cores();
    let (main, last) = (cores[0], cores[cores.len() - 1]);
    format!(
        "[appliance]
addresses = [\"10.77.0.254\"]

[dataplane]
main_core = {main}
cores = [{last}]
float = true
hugepages = \"no\"
{dataplane}

[[ports]]
name = \"p0\"
device = \"{device}\"

{rest}
"
    )
}

/// Where a piece of a text stands, as the messages tell it.
fn place(text: &str, piece: &str) -> String {
    let before = &text[..text.find(piece).unwrap()];
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("{}:{column}", before.matches('\n').count() + 1)
}

/// Gives `text` to `check` or `run`.
fn with_file(command: &[&str], text: &str) -> (String, Ended) {
    let files = Files::new();
    let file = files.write("appliance.toml", text);
    let file = file.to_str().unwrap();
    (file.to_owned(), pascaline(&[command, &[file]].concat()))
}

/// The error that `command` gives for `text` stands where `piece` does, says all of this, and gives a remedy.
#[track_caller]
fn refused_at(command: &[&str], text: &str, piece: &str, says: &[&str]) {
    let (file, ended) = with_file(command, text);
    let place = format!("{file}:{}: ", place(text, piece));
    ended.refused(2, &[&[place.as_str(), "\n  remedy: "], says].concat());
}

const CHECK: &[&str] = &["check"];
const RUN: &[&str] = &["run", "-c"];

#[test]
fn the_example_configuration_is_fine() {
    let ended = pascaline(&["check", EXAMPLE]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains(": ok: 1 port(s), 1 lcore(s), 4096 slots, 1 job(s)"), "{ended:?}");
}

#[test]
fn a_misspelt_key_is_named_with_its_place() {
    let text = std::fs::read_to_string(EXAMPLE).unwrap().replacen("udp_port", "upd_port", 1);
    refused_at(CHECK, &text, "upd_port", &["unknown field `upd_port`", "`udp_port`"]);
}

#[test]
fn overlapping_cores_are_refused() {
    let text = std::fs::read_to_string(EXAMPLE).unwrap().replacen("cores = [1]", "cores = [1, 1]", 1);
    refused_at(CHECK, &text, "1] ", &["cores overlap: core 1", "another lcore"]);
    let text = std::fs::read_to_string(EXAMPLE).unwrap().replacen("cores = [1]", "cores = [0]", 1);
    refused_at(RUN, &text, "0] ", &["cores overlap: core 0", "main_core"]);
}

#[test]
fn a_core_that_the_machine_does_not_have_is_refused() {
    let text = configuration("net_null0", "", "").replacen("float = true", "", 1);
    let from = text.find("cores = [").unwrap();
    let to = from + text[from..].find(']').unwrap();
    let text = format!("{}cores = [1000{}", &text[..from], &text[to..]);
    refused_at(RUN, &text, "[1000]", &["core 1000"]);
}

#[test]
fn a_missing_file_is_named() {
    for command in [CHECK, RUN] {
        let ended = pascaline(&[command, &["/nonexistent/appliance.toml"]].concat());
        ended.refused(2, &["/nonexistent/appliance.toml", "remedy: "]);
    }
}

#[test]
fn unknown_commands_and_arguments_are_usage_errors() {
    pascaline(&["agregate"]).refused(2, &["agregate", "--help"]);
    pascaline(&["check"]).refused(2, &["<FILE>"]);
    pascaline(&["run"]).refused(2, &["--config"]);
    pascaline(&["worker", "reduce"]).refused(2, &["reduce"]);
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 6] = [&[], &["worker"], &["run"], &["ps"], &["check"], &["worker", "allreduce"]];
    for command in commands {
        let ended = pascaline(&[command, &["--help"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("Usage: pascaline"), "{command:?}: {}", ended.out);
        let (_, example) =
            ended.out.split_once("Example").unwrap_or_else(|| panic!("{command:?}: {}", ended.out));
        let whole = ["pascaline", &command.join(" ")].join(" ");
        assert!(example.contains(whole.trim_end()), "{command:?}: {}", ended.out);
    }
}

#[test]
fn a_metrics_port_in_use_is_named_with_its_place() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = configuration("net_null0", "", &format!("[telemetry]\nlisten = \"{address}\""));
    let says = ["cannot listen on", &address, "in use", "choose another address or port"];
    refused_at(RUN, &text, &format!("\"{address}\""), &says);
}

#[test]
fn an_interface_that_does_not_exist_is_named_with_its_place_and_may_come_later() {
    for driver in ["net_af_packet0", "net_kernel0"] {
        let device = format!("{driver},iface=nope");
        let text = configuration(&device, "memory_mb = 64", "[pool]\nslots = 256");
        let (file, ended) = with_file(RUN, &text);
        let place = format!("{file}:{}: ", place(&text, &format!("\"{device}\"")));
        ended.refused(1, &[&place, "\n  remedy: ", "nope"]);
        // It is right in itself.
        assert_eq!(with_file(CHECK, &text).1.code, Some(0));
    }
}

#[test]
fn an_address_that_this_machine_does_not_have_yet_may_come_later() {
    let text = configuration("net_null0", "memory_mb = 64", "[telemetry]\nlisten = \"192.0.2.77:9464\"");
    let says = ["192.0.2.77 is no address of this machine", "\n  remedy: "];
    with_file(RUN, &text).1.refused(1, &says);
    with_file(CHECK, &text).1.refused(2, &says);
}

#[test]
fn a_driver_that_does_not_exist_is_named_with_its_place() {
    let text = configuration("net_nodriver0", "memory_mb = 64", "[pool]\nslots = 256");
    refused_at(RUN, &text, "\"net_nodriver0\"", &["net_nodriver0"]);
}

#[test]
fn too_little_memory_says_how_many_buffers_are_needed() {
    let text = configuration("net_null0", "memory_mb = 64", "[pool]\nslots = 65536");
    let (file, ended) = with_file(RUN, &text);
    ended.refused(2, &[&format!("{file}:{}: ", place(&text, "64\n")), "remedy: raise memory_mb"]);
    let (_, needed) =
        ended.err.split_once("the configuration needs ").unwrap_or_else(|| panic!("{}", ended.err));
    let (count, rest) = needed.split_once(' ').unwrap();
    // Every slot keeps a buffer, and there are rings to fill.
    assert!(count.parse::<u32>().unwrap() > 65536, "{needed}");
    assert!(rest.starts_with("packet buffers of 2048 bytes"), "{needed}");
}

#[test]
fn a_worker_with_wrong_arguments_is_refused_before_it_joins() {
    let worker = ["worker", "allreduce", "--appliance", "127.0.0.1", "--job", "1"];
    let of_two = ["--rank", "0", "--ranks", "2"];
    let cases: [(&[&str], &[&str]); 16] = [
        (&["--rank", "0", "--ranks", "2", "--threads"], &["--threads is gone", "leave it out"]),
        (&["--rank", "0", "--ranks", "2", "--mtu", "9000"], &["--mtu", "--driver dpdk"]),
        (&["--rank", "0", "--ranks", "2", "--port", "net_ring0"], &["--port", "--driver dpdk"]),
        (&["--rank", "0", "--ranks", "2", "--address", "10.0.0.1"], &["--address", "--driver dpdk"]),
        (&["--rank", "0", "--ranks", "2", "--spin"], &["--spin", "--driver dpdk"]),
        (&["--rank", "0", "--ranks", "2", "--core", "2000"], &["--core 2000", "nproc"]),
        (&["--rank", "1", "--ranks", "2", "--workers", "1"], &["--workers 1", "--first 0"]),
        (&["--rank", "0", "--ranks", "2", "--elements", "4611686018427387904"], &["too many"]),
        (&["--rank", "0", "--ranks", "2", "--bytes", "9223372036854775804"], &["too many"]),
        (&["--rank", "0", "--ranks", "2", "--bytes", "16MX"], &["--bytes", "MX"]),
        (&["--rank", "0", "--ranks", "2", "--bytes", "10"], &["--bytes 10", "multiple", "4"]),
        (&["--rank", "0", "--ranks", "2", "--elements", "1", "--bytes", "4"], &["--elements", "--bytes"]),
        (&["--rank", "2", "--ranks", "2"], &["rank 2 of 2", "0 to 1"]),
        (&["--rank", "0", "--ranks", "2", "--payload", "1020"], &["1020", "multiple of 8"]),
        (&["--rank", "0", "--ranks", "2", "--dtype", "f17"], &["f17", "f32"]),
        (&["--rank", "0", "--ranks", "2", "--iterations", "0"], &["--iterations"]),
    ];
    for (more, says) in cases {
        pascaline(&[&worker, more].concat()).refused(2, says);
    }
    for (address, says) in [
        ("fe80::1", "link-local"),
        ("[fe80::1]:16420", "link-local"),
        ("fe80::1%eth0", "zone"),
        ("[fe80::1%2]:7", "zone"),
    ] {
        let who = ["worker", "allreduce", "--appliance", address, "--job", "1"];
        pascaline(&[&who[..], &of_two].concat()).refused(2, &[says, "which no appliance has", "fd77::254"]);
    }
    let nowhere = ["worker", "allreduce", "--appliance", "no host", "--job", "1"];
    pascaline(&[&nowhere[..], &of_two].concat()).refused(2, &["no host"]);
}

/// Without a network: each fails before it joins, or where nobody can answer.
#[test]
fn every_worker_command_that_fails_says_so_to_programs() {
    let nowhere: &[&str] = &["--appliance", "no host", "--job", "1", "--rank", "0", "--ranks", "2", "--json"];
    let lost: &[&str] = &["--controller", "unix:/nowhere/at/all", "--job", "1", "--rank", "0", "--json"];
    let beyond: &[&str] =
        &["--appliance", "127.0.0.1", "--job", "1", "--rank", "2", "--ranks", "2", "--json"];
    let commands: [&[&str]; 5] =
        [&["allreduce"], &["bench"], &["iswitch"], &["command", "halt"], &["olaf", "--floats", "8"]];
    for (who, status) in [(nowhere, 2), (lost, 1), (beyond, 2)] {
        for command in commands {
            let ended = pascaline(&[&["worker"][..], command, who].concat());
            assert_eq!(ended.code, Some(status), "{command:?} {who:?}: {}", ended.err);
            let line = ended.json();
            let told = line["error"].as_str().unwrap();
            assert!(ended.err.contains(told) && !told.is_empty(), "{command:?}: {told}");
            assert!(line["waiting_for"].is_array(), "{command:?} {who:?}: {line}");
            assert!(line["rank"].is_number(), "{command:?} {who:?}: {line}");
        }
    }
}

#[test]
fn a_worker_gives_up_where_nobody_answers() {
    // Bound, so that nobody answers and nobody refuses.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let who = ["worker", "allreduce", "--appliance", &address, "--job", "1", "--rank", "0", "--ranks", "2"];
    let ended = pascaline(&[&who[..], &["--join-deadline", "300ms"]].concat());
    ended.refused(1, &[&address, "no answer"]);
}

#[test]
fn commands_of_the_other_program_say_where_they_went() {
    for command in [&["plan", "a b.json", "--json"][..], &["verify", "--help"], &["controller"]] {
        let ended = pascaline(command);
        let there = format!("remedy: pascaline-fleet {}\n", command.join(" "));
        ended.refused(2, &["is a command of pascaline-fleet", &there]);
        assert_eq!(ended.out, "", "{command:?}");
    }
}
