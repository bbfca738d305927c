//! `pascaline job`: what an operator orders of a job.

use std::os::unix::fs::PermissionsExt as _;

use pascaline_worker::{Holder, Protection, Secret};

use super::site::Site;
use crate::common::{Ended, Files, pascaline};

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

#[test]
fn keys_are_made_without_an_appliance() {
    let files = Files::new();
    let [job, rank3] = ["job.key", "rank3.key"].map(|name| files.path(name));
    let [of, to] = [&job, &rank3].map(|file| file.to_str().unwrap());
    let made = pascaline(&["job", "key", "--new", of]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for text in
        [": a new key; ", "masked copy it to the hosts of all ranks and to no appliance", "mac or encrypt"]
    {
        assert!(made.out.contains(text), "{text}: {made:?}");
    }
    let mine = ["job", "key", "--new", to, "--of", of, "--job", "7", "--rank", "3"];
    let made = pascaline(&[&mine[..], &["--json"]].concat()).json();
    assert_eq!(made, serde_json::json!({"key": to, "job": 7, "rank": 3}));
    assert_eq!(rank3.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(Secret::read(&job).is_ok() && Holder::read(&rank3, 7, 3, Protection::Mac).is_ok());
    assert!(Holder::read(&rank3, 7, 2, Protection::Mac).is_err());
    pascaline(&mine).refused(1, &["there is one already\n  remedy: "]);
    let again = files.path("again");
    let again = again.to_str().unwrap();
    let of_rank = ["job", "key", "--new", again, "--of", to, "--job", "7", "--rank", "3"];
    pascaline(&of_rank)
        .refused(1, &["the key of one rank (rank 3 of job 7)\n  remedy: name the file of the job"]);
    for some in [&["--of", of][..], &["--job", "7"], &["--rank", "3"], &["--of", of, "--rank", "3"]] {
        pascaline(&[&["job", "key", "--new", again], some].concat()).refused(2, &["required"]);
    }
    let made = pascaline(&["job", "key", "--new", again, "--of", of, "--job", "7", "--rank", "3"]);
    assert!(made.out.contains("the key of rank 3 of job 7"), "{made:?}");
    assert_eq!(std::fs::read(again).unwrap(), std::fs::read(&rank3).unwrap());
}

#[test]
fn another_key_is_put_in_force_once_it_is_in_the_file() {
    let site = Site::start();
    let [file, next, of_rank] = ["job.key", "next.key", "rank.key"].map(|name| site.files.path(name));
    Secret::create(&file).unwrap();
    let sealed = serde_json::json!({
        "id": 9, "fan_in": 2, "window": 16, "kind": "shared", "shared": {"server": false},
        "security": "mac", "key_file": file,
    });
    assert_eq!(site.call("POST", "/api/v1/jobs", &sealed.to_string()).status, 201);
    job(&site, &["rekey", "1"]).refused(1, &["job 1: its packets are not sealed\n  remedy: set `security`"]);
    let same = ["job.key has the key that is in force", "remedy: replace it by the file of another key"];
    job(&site, &["rekey", "9"]).refused(1, &same);

    Secret::create(&next).unwrap();
    std::fs::rename(&next, &file).unwrap();
    let done = job(&site, &["rekey", "9", "--json"]).json();
    assert!(done["done"].as_str().unwrap().contains("takes the one before until all ranks use this"));
    assert_eq!(done["job"]["former_key"], serde_json::json!([]));
    job(&site, &["rekey", "9"]).refused(1, &same);
    let at_once = job(&site, &["rekey", "9", "--now"]);
    assert!(at_once.out.contains("with the key in") && at_once.code == Some(0), "{at_once:?}");

    // Over the API: from a file of the operator's into the appliance's.
    Secret::create(&next).unwrap();
    let mine = next.to_str().unwrap();
    let given = job(&site, &["key", "9", "--give", mine, "--json"]).json();
    assert!(given["done"].as_str().unwrap().contains("takes the one before until all ranks use this"));
    let [text, there] = [&next, &file].map(|file| std::fs::read_to_string(file).unwrap());
    assert_eq!((&text, file.metadata().unwrap().permissions().mode() & 0o777), (&there, 0o600));
    assert!(!site.log().contains(text.trim()), "no log has a key");
    job(&site, &["key", "9", "--give", mine]).refused(1, &same);
    job(&site, &["key", "1", "--give", mine]).refused(1, &["job 1: its packets are not sealed"]);
    job(&site, &["key", "7", "--give", mine]).refused(1, &["no job 7"]);
    pascaline(&["job", "key", "9", "--give", mine, "--admin", "192.0.2.1:9466"])
        .refused(1, &["a key is not sent over plain TCP to another host", "remedy: --admin https://"]);
    for arguments in
        [&["key", "9"][..], &["key", "--give", mine], &["key", "--new", mine, "--give", mine, "9"]]
    {
        assert_eq!(job(&site, arguments).code, Some(2), "{arguments:?}");
    }
    for body in ["{}", r#"{"key": "c2hvcnQ="}"#, r#"{"key": "no key"}"#] {
        let refused = site.call("POST", "/api/v1/jobs/9/key", body);
        assert!(matches!(refused.status, 400 | 422) && refused.json()["remedy"].is_string(), "{body}");
    }

    Secret::read(&file).unwrap().create_of_rank(&of_rank, 9, 1).unwrap();
    std::fs::rename(&of_rank, &file).unwrap();
    job(&site, &["rekey", "9"]).refused(1, &["the key of one rank (rank 1 of job 9)", "remedy: "]);
    std::fs::remove_file(&file).unwrap();
    job(&site, &["rekey", "9"]).refused(1, &["job.key", "No such file"]);
    let log = site.log();
    assert!(log.contains("audit: ") && log.contains("rekey") && log.contains("\\\"now\\\":true"), "{log}");
}
