//! `pascaline job`: what an operator orders of a job.

use super::site::Site;
use crate::common::{Ended, pascaline};

fn job(site: &Site, arguments: &[&str]) -> Ended {
    let at = format!("unix:{}", site.socket().display());
    pascaline(&[&["job"], arguments, &["--admin", &at]].concat())
}

#[test]
fn a_halted_job_is_explained_and_healed() {
    let site = Site::start();
    let state = || site.get("/api/v1/jobs/1")["state"].as_str().unwrap().to_owned();
    let before = site.get("/api/v1/jobs/1")["epoch"].as_u64().unwrap();
    let halted = job(&site, &["halt", "1"]);
    assert_eq!(
        (halted.code, halted.out.trim()),
        (Some(0), "job 1 is suspended until `pascaline job reset 1`")
    );
    assert_eq!(state(), "halted");
    let at = format!("unix:{}", site.socket().display());
    let told = pascaline(&["explain", "1", "--admin", &at]).out;
    assert!(told.contains("Halted: ") && told.contains("remedy: pascaline job reset 1"), "{told}");
    let reset = job(&site, &["reset", "one", "--json"]).json();
    assert_eq!((reset["job"]["state"].as_str(), reset["job"]["id"].as_u64()), (Some("idle"), Some(1)));
    assert_eq!(reset["job"]["epoch"].as_u64(), Some((before + 1) % (1 << 16)));
    assert_ne!(state(), "halted");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_remedy() {
    let site = Site::start();
    for (arguments, says) in [
        (&["reset", "99"][..], &["no job 99"][..]),
        (&["seth", "1", "2"], &["job 1: the job's results are never partial", "remedy: set kind"]),
        (&["fbcast", "1", "7"], &["nobody has joined", "remedy: start its workers"]),
        (&["help", "1", "7"], &["nobody has joined"]),
        (&["leave", "1", "0"], &["rank 0 is no member: it has not joined"]),
        (&["leave", "1", "1024"], &["the job has ranks 0 to "]),
    ] {
        job(&site, arguments).refused(1, says);
    }
    for arguments in [&["reset"][..], &["help", "1"], &["seth", "1", "-1"], &["explode", "1"]] {
        assert_eq!(job(&site, arguments).code, Some(2), "{arguments:?}");
    }
    for body in
        ["{}", r#"{"command": "explode"}"#, r#"{"command": "seth"}"#, r#"{"command": "halt", "x": 1}"#]
    {
        let refused = site.call("POST", "/api/v1/jobs/1/command", body);
        assert_eq!((refused.status, refused.json()["remedy"].is_string()), (400, true), "{body}");
    }
}
