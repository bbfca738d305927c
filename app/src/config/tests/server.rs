//! The parameter server, and jobs that are formed by Joins alone.

use std::net::SocketAddr;

use pascaline_aggregator::{ConflictPolicy, Policy};

use super::*;

/// A job that shares the pool, with a server.
const SHARED: &str = "kind = \"shared\"\n[jobs.shared]\nserver = true\n";

fn with(more: &str) -> Config {
    parse(&format!("{GOOD}{more}")).unwrap_or_else(|error| panic!("{more}: {error}"))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn the_server_is_embedded_unless_something_else_is_written() {
    assert_eq!(with("").ps.mode.value, PsMode::Embedded);
    assert_eq!(with("[ps]").ps.mode.value, PsMode::Embedded);
    assert_eq!(with("[ps]\nmode = \"none\"").ps.mode.value, PsMode::None);
}

#[test]
fn an_external_server_talks_to_the_appliances_address_of_its_family() {
    let v4 = with("[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\nlisten = \"127.0.0.1:9465\"").ps;
    let expected =
        PsMode::External { address: address("10.77.0.9:16421"), appliance: address("10.77.0.254:16420") };
    assert_eq!(v4.mode.value, expected);
    assert_eq!(v4.listen.unwrap().value, address("127.0.0.1:9465"));
    let v6 = with("[ps]\nmode = \"external\"\naddress = \"fd00::9\"\nport = 7").ps;
    let expected =
        PsMode::External { address: address("[fd00::9]:7"), appliance: address("[fd00::254]:16420") };
    assert_eq!(v6.mode.value, expected);
}

#[test]
fn jobs_share_the_servers_memory_equally() {
    let job = |id: u16, rest: &str| format!("\n[[jobs]]\nid = {id}\nfan_in = 2\n{rest}\n");
    let text = [job(1, "kind = \"dsa\"\nwindow = 700"), job(2, SHARED), job(3, "kind = \"atp\"")].concat();
    let limits = with(&format!("{text}[ps]\nmemory_mb = 48")).ps.limits;
    assert_eq!((limits.jobs, limits.share.bytes, limits.share.entries), (3, 16 << 20, (1 << 16) / 3));
    assert_eq!((limits.config.capacity.bytes, limits.config.cached), (48 << 20, 4096));
    let wide = with("[[jobs]]\nid = 9\nfan_in = 2\nkind = \"dsa\"\nwindow = 7000").ps.limits;
    assert_eq!(wide.config.cached, 7000, "a rank may be late by a window");
    assert_eq!(with("").ps.limits.jobs, 0, "jobs do not use it unless they are told to");
}

#[test]
fn jobs_of_joins_do_without_a_server_where_there_is_none() {
    let config = with("[ps]\nmode = \"none\"\n[admission]\njobs = \"9\"\nfrom = [\"::/0\"]");
    assert!(!config.admission.unwrap().like.kind.policy(0).server);
}

#[test]
fn jobs_may_be_formed_by_joins() {
    assert!(with("").admission.is_none());
    let some = "jobs = \"1000-1999\"\nfrom = [\"10.77.0.0/24\", \"fd77::/64\", \"10.78.0.1\"]";
    let admission = with(&format!("[admission]\n{some}")).admission.unwrap();
    assert_eq!(admission.jobs, 1000..=1999);
    let inside = |text: &str| {
        let address: IpAddr = text.parse().unwrap();
        admission.from.iter().any(|network| network.contains(&address))
    };
    assert!(inside("10.77.0.200") && inside("fd77::1") && inside("10.78.0.1"));
    assert!(!inside("10.77.1.1") && !inside("fd78::1") && !inside("10.78.0.2"));
    assert_eq!((admission.max_jobs, admission.max_fan_in, admission.like.window), (16, 16, 256));
    assert_eq!(admission.max_jobs_per_host, 8, "half, so that one host cannot keep out all others");
    assert_eq!(admission.like.max_ranks_per_host, 16, "all of a job's");
    let sharing = Policy { conflict: ConflictPolicy::Preempt, server: true, ..Policy::default() };
    assert_eq!(admission.like.kind.policy(0), Policy { quota: 256, ..sharing });
    let more = "max_jobs = 3\nmax_fan_in = 64\nmax_ranks_per_host = 8\nslots_per_job = 100";
    let admission = with(&format!("[admission]\n{some}\n{more}")).admission.unwrap();
    assert_eq!((admission.max_jobs, admission.max_fan_in, admission.like.window), (3, 64, 100));
    assert_eq!(admission.max_jobs_per_host, 2, "half, rounded up");
    assert_eq!(admission.like.max_ranks_per_host, 8);
    let one = with(&format!("[admission]\n{some}\nmax_jobs = 3\nmax_jobs_per_host = 1")).admission.unwrap();
    assert_eq!(one.max_jobs_per_host, 1);
    assert_eq!(admission.like.kind.policy(0).quota, 100);
}

#[test]
fn every_mistake_about_the_server_names_its_place() {
    let external = "mode = \"external\"\naddress = \"10.77.0.9\"\n";
    let rank = format!("window = 4\n{SHARED}order = \"rank\"\n");
    let cases: &[(&str, &str, &str)] = &[
        ("[ps]\nmode = \"remote\"", "\"remote\"", "not a choice"),
        ("[ps]\nmode = \"external\"", "\"external\"", "needs an address"),
        ("[ps]\naddress = \"10.77.0.9\"", "\"10.77.0.9\"", "external"),
        ("[ps]\nmode = \"none\"\nport = 1", "1", "external"),
        ("[ps]\nlisten = \"127.0.0.1:1\"", "\"127.0.0.1:1\"", "external"),
        ("[ps]\nmode = \"external\"\naddress = \"ps.example\"", "\"ps.example\"", ""),
        (&format!("[ps]\n{external}port = 0"), "0", "UDP port 0"),
        (&format!("[ps]\n{external}port = 4791"), "4791", "RoCE"),
        (&format!("[ps]\n{external}listen = \"here\""), "\"here\"", ""),
        ("[ps]\nmode = \"external\"\naddress = \"10.77.0.254\"\nport = 16420", "\"10.77.0.254\"", "own"),
        ("[ps]\nmode = \"none\"\nmemory_mb = 9", "9", "does not run"),
        ("[ps]\nmemory_mb = 0", "0", "out of range"),
        ("[ps]\nhost = \"a\"", "host", "unknown field"),
        (
            &format!("[ps]\nmode = \"none\"\n[[jobs]]\nid = 8\nfan_in = 1\n{SHARED}"),
            "true",
            "no parameter server",
        ),
        ("[ps]\nmode = \"none\"\n[[jobs]]\nid = 8\nfan_in = 1\nkind = \"atp\"", "\"atp\"", "needs"),
        (&format!("[ps]\nmemory_mb = 1\n[[jobs]]\nid = 8\nfan_in = 1024\n{rank}"), "1\n", "one PSN of 1024"),
        ("[admission]\nfrom = [\"::/0\"]", "[admission]", "lacks the key jobs"),
        ("[admission]\njobs = \"1-2\"", "[admission]", "lacks the key from"),
        ("[admission]\njobs = \"2-1\"\nfrom = [\"::/0\"]", "\"2-1\"", "no range"),
        ("[admission]\njobs = \"1-70000\"\nfrom = [\"::/0\"]", "\"1-70000\"", "no range"),
        ("[admission]\njobs = \"all\"\nfrom = [\"::/0\"]", "\"all\"", "no range"),
        ("[admission]\njobs = \"1-2\"\nfrom = []", "[]", "no host may"),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"10.77.0.0/33\"]", "\"10.77.0.0/33\"", ""),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"::/0\"]\nmax_jobs = 0", "0", "out of range"),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"::/0\"]\nmax_jobs_per_host = 17", "17", "out of range"),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"::/0\"]\nmax_ranks_per_host = 17", "17", "out of range"),
        ("[[jobs]]\nid = 8\nfan_in = 4\nmax_ranks_per_host = 5", "5", "out of range"),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"::/0\"]\nmax_fan_in = 1025", "1025", "out of range"),
        ("[admission]\njobs = \"1-2\"\nfrom = [\"::/0\"]\nslots_per_job = 4097", "4097", "out of range"),
    ];
    for (more, at, says) in cases {
        let text = format!("{GOOD}{more}\n");
        let error = parse(&text).expect_err(more);
        let place = error.place.expect("a place");
        let lines: Vec<&str> = text.lines().skip(place.line - 1).collect();
        let found: String = lines.join("\n").chars().skip(place.column - 1).collect();
        let message = error.to_string();
        assert!(message.contains(says), "{more}: {message}");
        assert!(found.starts_with(at), "{more}: the place is at {found:?}: {message}");
        assert!(message.contains("remedy: "), "{message}");
    }
}

#[test]
fn a_server_needs_an_address_of_the_appliances_family() {
    let text =
        GOOD.replacen("addresses = [\"10.77.0.254\", \"fd00::254\"]", "addresses = [\"10.77.0.254\"]", 1);
    let error = parse(&format!("{text}[ps]\nmode = \"external\"\naddress = \"fd00::9\"")).unwrap_err();
    assert!(error.to_string().contains("no address to talk to fd00::9"), "{error}");
}
