//! What operators do with it.

use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

use nix::sys::signal::Signal;
use serde_json::json;

use super::site::Site;
use crate::common::{Files, pascaline};

/// A job without a server, which the site's appliance does not have.
const NINE: &str = r#"{"id": 9, "name": "nine", "fan_in": 4, "window": 32,
    "kind": "shared", "shared": {"server": false}}"#;

#[test]
fn jobs_are_created_changed_and_deleted() {
    let site = Site::start();
    assert_eq!(site.jobs(), [1, 2, 3]);
    let made = site.call("POST", "/api/v1/jobs", NINE);
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["jobs"], json!([{ "id": 9, "name": "nine", "what": "added" }]));
    assert_eq!(site.jobs(), [1, 2, 3, 9]);
    // By name or by number; null takes a key out.
    let changed = site.call("PATCH", "/api/v1/jobs/nine", r#"{"shared": {"quota": 8}, "window": null}"#);
    assert_eq!((changed.status, &changed.json()["jobs"][0]["what"]), (200, &json!("changed")));
    let terms = &site.get("/api/v1/jobs/9")["terms"];
    assert_eq!(
        (&terms["shared"]["quota"], &terms["window"], &terms["name"]),
        (&json!(8), &json!(512), &json!("nine"))
    );
    // Another fan-in is another generation.
    let epoch = site.get("/api/v1/jobs/9")["epoch"].as_u64().unwrap();
    let changed = site.call("PATCH", "/api/v1/jobs/9", r#"{"fan_in": 3}"#);
    assert_eq!(changed.json()["jobs"][0]["what"], "reformed");
    assert_eq!(site.get("/api/v1/jobs/9")["epoch"].as_u64(), Some((epoch + 1) % (1 << 16)));
    assert_eq!(site.call("DELETE", "/api/v1/jobs/nine", "").json()["jobs"][0]["what"], "removed");
    assert_eq!((site.jobs(), site.call("GET", "/api/v1/jobs/9", "").status), (vec![1, 2, 3], 404));
}

#[test]
fn keys_of_a_table_are_changed_one_by_one() {
    let site = Site::start();
    let parent =
        r#"{"parent": {"address": "10.78.0.254", "rank": 0, "ranks": 2, "mac": "02:00:00:00:00:fe"}}"#;
    for (patch, address, rank) in [
        (parent, "10.78.0.254", 0),
        (r#"{"parent": {"rank": 1, "mac": null}}"#, "10.78.0.254", 1),
        (r#"{"parent": {"address": "10.78.0.253"}}"#, "10.78.0.253", 1),
    ] {
        let changed = site.call("PATCH", "/api/v1/jobs/3", patch);
        assert_eq!(changed.status, 200, "{patch}: {}", String::from_utf8_lossy(&changed.body));
        let told = &site.get("/api/v1/jobs/3")["terms"]["parent"];
        assert!(told["address"].as_str().is_some_and(|at| at.starts_with(address)), "{told}");
        assert_eq!(told["rank"], rank, "{told}");
    }
    let refused = site.call("PATCH", "/api/v1/jobs/3", r#"{"parent": {"address": null}}"#);
    assert_eq!(
        (refused.status, site.call("PATCH", "/api/v1/jobs/3", r#"{"parent": null}"#).status),
        (422, 200)
    );
    assert!(site.get("/api/v1/jobs/3")["terms"]["parent"].is_null());
}

#[test]
fn what_makes_no_job_is_refused_and_changes_nothing() {
    let site = Site::start();
    let before = site.get("/api/v1/config");
    for (method, path, body, status, says) in [
        ("POST", "/api/v1/jobs", r#"{"id": 1, "fan_in": 2}"#, 409, "there is a job 1"),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "name": "one", "fan_in": 2}"#, 409, "there is a job 1"),
        ("POST", "/api/v1/jobs", r#"{"fan_in": 2}"#, 422, "lacks the key id"),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": 0}"#, 422, "fan_in = 0 is out of range"),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": 2, "fan_out": 2}"#, 422, "unknown field `fan_out`"),
        (
            "POST",
            "/api/v1/jobs",
            r#"{"id": 9, "fan_in": 1, "members": ["0.0.0.0"]}"#,
            422,
            "stands for no host",
        ),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": 1, "name": "2"}"#, 422, "another job's number"),
        ("PATCH", "/api/v1/jobs/2", r#"{"name": "a\nb"}"#, 422, "the name of a job contains"),
        ("PATCH", "/api/v1/jobs/2", r#"{"dead_after": "1ms"}"#, 422, "every 100ms"),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": null}"#, 422, "fan_in is null"),
        (
            "POST",
            "/api/v1/jobs",
            r#"{"id": 9, "fan_in": 65, "window": 8, "kind": "shared", "shared": {"server": false}}"#,
            422,
            "65 ranks",
        ),
        (
            "POST",
            "/api/v1/jobs",
            r#"{"id": 9, "fan_in": 2, "kind": "shared", "shared": {"server": true}}"#,
            422,
            "without a parameter server",
        ),
        ("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": 2, "window": 16}"#, 422, "no room for a region"),
        ("POST", "/api/v1/jobs", r#"{"id": {"a": [1, {}]}, "fan_in": 2}"#, 422, "cannot stand here"),
        ("PATCH", "/api/v1/jobs/1", r#"{"window": 100000}"#, 422, "window: integer `100000`"),
        ("PATCH", "/api/v1/jobs/77", r#"{"window": 8}"#, 404, "no configured job 77"),
        ("DELETE", "/api/v1/jobs/seven", "", 404, "no job \"seven\""),
        ("DELETE", "/api/v1/jobs/1017", "", 404, "no job 1017"),
        ("POST", "/api/v1/reload", r#"{"now": true}"#, 400, "unknown field `now`"),
    ] {
        let response = site.call(method, path, body);
        let problem = response.json();
        let error = problem["error"].as_str().unwrap_or_default();
        assert_eq!(
            (response.status, error.contains(says)),
            (status, true),
            "{method} {path} {body}: {problem}"
        );
        assert!(problem["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{problem}");
    }
    assert_eq!(site.get("/api/v1/config"), before);
}

#[test]
fn a_reload_changes_jobs_and_names_what_it_cannot_change() {
    let mut site = Site::start();
    let epoch = |site: &Site, job: u16| site.get(&format!("/api/v1/jobs/{job}"))["epoch"].clone();
    let before = epoch(&site, 1);
    site.rewrite(&[
        ("id = 2\nfan_in = 2", "id = 4\nfan_in = 3"),
        ("drain = \"1s\"", "drain = \"2s\""),
        ("slots = 1024", "slots = 2048"),
    ]);
    let report = site.call("POST", "/api/v1/reload", "");
    assert_eq!(report.status, 200, "{report:?}");
    let report = report.json();
    let jobs =
        json!([{ "id": 2, "name": "job2", "what": "removed" }, { "id": 4, "name": "job4", "what": "added" }]);
    assert_eq!(report["jobs"], jobs);
    assert_eq!(report["settings"], json!(["dataplane.drain"]));
    assert_eq!(report["kept"], json!([{ "key": "pool.slots", "running": "1024", "file": "2048" }]));
    assert_eq!((site.jobs(), epoch(&site, 1)), (vec![1, 3, 4], before.clone()));
    let config = site.get("/api/v1/config");
    assert_eq!(
        (&config["settings"]["dataplane.drain"], &config["settings"]["pool.slots"]),
        (&json!("2s"), &json!("1024"))
    );
    // The same by signal.
    site.rewrite(&[]);
    site.signal(Signal::SIGHUP);
    let status = site.status_when("the second reload", |status| status["reloads"]["done"] == 2);
    assert_eq!(status["reloads"]["refused"], 0);
    assert_eq!((site.jobs(), epoch(&site, 1)), (vec![1, 2, 3], before));
}

#[test]
fn a_broken_file_changes_nothing() {
    let mut site = Site::start();
    let before = (site.get("/api/v1/config"), site.get("/api/v1/jobs"));
    for (from, to, says, placed) in [
        ("[pool]", "[pool", "", true),
        ("fan_in = 2", "fan_in = 0", "fan_in = 0 is out of range", true),
        ("fan_in = 2", "fanin = 2", "unknown field `fanin`", true),
        ("server = false", "server = true", "without a parameter server", false),
    ] {
        site.rewrite(&[(from, to)]);
        let response = site.call("POST", "/api/v1/reload", "");
        let problem = response.json();
        assert_eq!((response.status, problem["place"].is_object()), (422, placed), "{problem}");
        assert!(problem["error"].as_str().is_some_and(|error| error.contains(says)), "{problem}");
    }
    std::fs::remove_file(site.files.path("appliance.toml")).unwrap();
    assert_eq!(site.call("POST", "/api/v1/reload", "").status, 422);
    site.signal(Signal::SIGHUP);
    let status = site.status_when("the last refusal", |status| status["reloads"]["refused"] == 6);
    assert_eq!(status["reloads"]["done"], 0);
    assert_eq!((site.get("/api/v1/config"), site.get("/api/v1/jobs")), before);
}

#[test]
fn explain_says_what_it_knows() {
    let site = Site::start();
    let at = format!("unix:{}", site.socket().display());
    let ended = pascaline(&["explain", "one", "--admin", &at]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.starts_with("Job 1 \"one\": there has been nothing to aggregate here yet."),
        "{ended:?}"
    );
    assert_eq!(ended.out.matches("No rank has joined.").count(), 1, "{ended:?}");
    let ended = pascaline(&["explain", "1", "--json", "--admin", &at]);
    let told = ended.json();
    assert_eq!((&told["aggregated"], &told["share"]), (&json!("nothing"), &json!(null)));
    assert_eq!(told["reasons"][0]["kind"], "not-member");
    pascaline(&["explain", "../status", "--admin", &at]).refused(1, &["no job \"../status\"", "remedy: "]);
    pascaline(&["explain", "1", "--admin", "unix:/nonexistent"]).refused(1, &["is the appliance running"]);
    pascaline(&["explain", "1", "--admin", "nowhere"]).refused(2, &["none of unix:PATH"]);
}

#[test]
fn a_capture_of_nothing_is_an_empty_file_and_there_is_one_at_a_time() {
    let site = Site::start();
    let response = std::thread::scope(|scope| {
        let first =
            scope.spawn(|| site.call("POST", "/api/v1/jobs/1/capture", r#"{"packets": 5, "seconds": 2}"#));
        site.status_when("a capture under way", |status| status["capturing"] == true);
        let second = site.call("POST", "/api/v1/jobs/2/capture", "{}");
        assert_eq!((second.status, &second.json()["error"]), (409, &json!("another capture is under way")));
        first.join().unwrap()
    });
    assert_eq!((response.status, response.body.len()), (200, 24), "{}", response.head);
    assert_eq!(response.body[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert!(response.head.contains("pascaline-packets: 0") && response.head.contains("pascaline-dropped: 0"));
    for body in [r#"{"packets": 0}"#, r#"{"packets": 4097}"#, r#"{"seconds": 61}"#] {
        assert_eq!(site.call("POST", "/api/v1/jobs/1/capture", body).status, 422, "{body}");
    }
    assert_eq!(site.call("POST", "/api/v1/jobs/99/capture", "").status, 404);
    // Whoever goes away ends the capture.
    let long = super::site::request("POST", "/api/v1/jobs/1/capture", "", r#"{"seconds": 60}"#);
    let mut stream = site.connect();
    stream.write_all(long.as_bytes()).unwrap();
    site.status_when("a long capture", |status| status["capturing"] == true);
    drop(stream);
    site.status_when("no capture", |status| status["capturing"] == false);
}

#[test]
fn to_drain_is_to_end_in_order() {
    let site = Site::start();
    let socket = site.socket();
    let metadata = std::fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o660, "others must not get in");
    let response = site.call("POST", "/api/v1/drain", "");
    assert_eq!((response.status, response.json()), (202, json!({ "open": 0, "limit_seconds": 1.0 })));
    let ended = site.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("every packet accounted for"), "{}", ended.err);
    assert!(!socket.exists(), "the socket goes with its appliance");
}

#[test]
fn the_socket_of_a_dead_appliance_is_taken_over_and_nothing_else() {
    let files = Files::new();
    let socket = files.path("admin.sock");
    let listen = format!("listen = \"unix:{}\"", socket.display());
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let site = Site::with(files, &listen).ready();
    assert_eq!(site.jobs(), [1, 2, 3]);
    let second = Site::with(Files::new(), &listen).ended();
    second.refused(2, &["another process listens there", "remedy: "]);
    assert_eq!(site.jobs(), [1, 2, 3]);
    let files = Files::new();
    let file = files.write("admin.sock", "precious");
    Site::with(Files::new(), &format!("listen = \"unix:{}\"", file.display()))
        .ended()
        .refused(2, &["there is a file that is no socket"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}
