//! `pascaline check`: what a configuration amounts to. Needs no privileges.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Files, pascaline};

const BASE: &str = "[appliance]
addresses = [\"10.77.0.254\"]

[dataplane]
main_core = 0
cores = [1]

[[ports]]
name = \"p0\"
device = \"net_null0\"
";

/// What is said about a configuration that is fine.
#[track_caller]
fn check(more: &str) -> String {
    let files = Files::new();
    let file = files.write("appliance.toml", &format!("{BASE}{more}"));
    let ended = pascaline(&["check", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

fn job(id: u16, keys: &str) -> String {
    format!("[[jobs]]\nid = {id}\nfan_in = 4\nwindow = 64\n{keys}\n")
}

#[test]
fn every_profile_says_what_it_does() {
    let cases = [
        ("", "region of 32 sets from set 992, first-come, order of arrival, no server; complete with 4;"),
        ("addressing = \"shared\"", "shared, preempt, order of arrival, with server; complete with 4;"),
        (
            "addressing = \"shared\"\nserver = false",
            "shared, first-come, order of arrival, no server; complete with 4;",
        ),
        ("profile = \"dsa\"", "shared, preempt, order of arrival, with server; complete with 4;"),
        ("profile = \"atp\"", "shared, first-come, order of arrival, with server; complete with 4;"),
        (
            "profile = \"switchml\"",
            "region of 32 sets from set 992, first-come, order of arrival, no server; complete with 4;",
        ),
        (
            "profile = \"iswitch\"",
            "first-come, order of arrival, no server; complete with 4, or as SetH and FBcast say;",
        ),
        (
            "profile = \"panama\"\nthreshold = 0.7",
            "first-come, order of arrival, no server; complete with 3, or as SetH and FBcast say;",
        ),
        (
            "profile = \"dsa\"\norder = \"rank\"\nconflict = \"coin\"",
            "shared, coin, order of rank, at most 64 partials, with server; complete with 4;",
        ),
    ];
    for (keys, says) in cases {
        let out = check(&job(1, keys));
        assert!(out.contains("job 1 \"job1\": 4 ranks, window 64; ") && out.contains(says), "{keys}: {out}");
    }
}

#[test]
fn memory_server_and_admission_are_told() {
    let admission = "[admission]\njobs = \"100-199\"\nfrom = [\"10.77.0.0/24\"]\n";
    let jobs = [
        job(1, "addressing = \"shared\"\nserver = true"),
        job(2, "profile = \"switchml\"\ndead_after = \"0s\""),
    ]
    .concat();
    let out =
        check(&format!("{jobs}{admission}[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\nmemory_mb = 4"));
    for says in [
        "ok: 1 port(s), 1 lcore(s), 4096 slots, 2 job(s), payload up to 1448 bytes",
        // A region of 128; 64 partials each of two jobs with three packets more, and the rest of the shared
        // part with fifteen more for jobs that may yet be formed.
        "pool: 3968 of 4096 slots shared; slots keep up to 63808 packets",
        "; never lost",
        "; lost after 20s: fail",
        "jobs 100 to 199 may be formed from 10.77.0.0/24: up to 16 at a time, of up to 16 ranks",
        "parameter server: 10.77.0.9:16421, for the appliance at 10.77.0.254:16420, room for \
         3855 PSNs in 246723 bytes for each of 17 job(s)",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    assert!(check(&job(1, "")).contains("parameter server: no job uses one"));
    assert!(check("[ps]\nmode = \"none\"").contains("parameter server: none"));
}
