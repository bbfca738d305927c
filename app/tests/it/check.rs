//! `pascaline check`: what a configuration amounts to. Needs no privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::common::{BINARY, Ended, Files, pascaline};

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
fn every_kind_says_what_it_does() {
    const WITH: &str = "with server, share 1 (100 %); complete with";
    const NONE: &str = "no server, share 1 (100 %); complete with";
    let cases = [
        ("", "region of 32 sets from set 992, first-come, order of arrival, NONE 4;"),
        ("kind = \"shared\"\n[jobs.shared]", "shared, preempt, order of arrival, WITH 4;"),
        ("kind = \"shared\"\n[jobs.shared]\nserver = false", "shared, first-come, order of arrival, NONE 4;"),
        ("kind = \"dsa\"", "shared, preempt, order of arrival, WITH 4;"),
        ("kind = \"atp\"", "shared, first-come, order of arrival, WITH 4;"),
        (
            "kind = \"iswitch\"",
            "early, region of 32 sets from set 992, first-come, order of arrival, NONE 4, or as SetH and",
        ),
        (
            "kind = \"panama\"\n[jobs.early]\nthreshold = 0.7",
            "first-come, order of arrival, NONE 3, or as SetH and FBcast say;",
        ),
        (
            "kind = \"dsa\"\n[jobs.shared]\norder = \"rank\"\nconflict = \"coin\"",
            "shared, coin, order of rank, at most 64 partials, WITH 4;",
        ),
    ];
    for (keys, says) in cases {
        let (out, says) = (check(&job(1, keys)), says.replace("WITH", WITH).replace("NONE", NONE));
        assert!(out.contains("job 1 \"job1\": 4 ranks, window 64; ") && out.contains(&says), "{keys}: {out}");
    }
}

#[test]
fn memory_server_and_admission_are_told() {
    let admission = "[admission]\njobs = \"100-199\"\nfrom = [\"10.77.0.0/24\"]\n";
    let jobs = [job(1, "kind = \"dsa\""), job(2, "dead_after = \"0s\"")].concat();
    let out =
        check(&format!("{jobs}{admission}[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\nmemory_mb = 4"));
    for says in [
        "ok: 1 port(s), 1 lcore(s), 4096 slots, 2 job(s), payload up to 1448 bytes",
        // A region of 128; 64 partials each of two jobs with three packets more, and the rest of the shared
        // part with fifteen more for jobs that may yet be formed.
        "pool: 3968 of 4096 slots shared; slots keep up to 63808 packets",
        "; never lost",
        "; lost after 20s: fail",
        "jobs 100 to 199 may be formed from 10.77.0.0/24: up to 16 at a time, 8 by one host, of up to \
         16 ranks",
        "parameter server: 10.77.0.9:16421, for the appliance at 10.77.0.254:16420, room for \
         3855 PSNs in 246723 bytes for each of 17 job(s)",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    assert!(check(&job(1, "")).contains("parameter server: no job uses one"));
    assert!(check("[ps]\nmode = \"none\"").contains("parameter server: none"));
}

/// What is said about a configuration that is not: it ends with status 2.
#[track_caller]
fn refused(more: &str, says: &[&str]) {
    refused_by(2, &format!("{BASE}{more}"), says);
}

/// The same, where `run` ends with another status: with 1, a later start may succeed.
#[track_caller]
fn refused_by(run: i32, text: &str, says: &[&str]) {
    let files = Files::new();
    let file = files.write("appliance.toml", text);
    for (command, code) in [(&["check"][..], 2), (&["run", "-c"], run)] {
        pascaline(&[command, &[file.to_str().unwrap()]].concat()).refused(code, says);
    }
    let elsewhere = pascaline(&["check", "--elsewhere", file.to_str().unwrap()]);
    assert_eq!(elsewhere.code, Some(0), "{elsewhere:?}");
}

#[test]
fn what_this_machine_does_not_have_is_refused_as_run_does() {
    let files = Files::new();
    let admin = |more: &str| format!("[admin]\nlisten = \"127.0.0.1:9466\"\n{more}\n");
    let write = |name: &str, text: &str| {
        let path = files.write(name, text);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pair = || {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    };
    let ((cert, key), (_, other)) = (pair(), pair());
    let (cert, key, other) = (write("cert.pem", &cert), write("key.pem", &key), write("other.pem", &other));
    let (short, long) = (write("short", "abc"), write("long", &"a".repeat(600)));
    let token = |file: &str| admin(&format!("token_file = {file:?}"));
    let tls = |cert: &str, key: &str| admin(&format!("tls_cert = {cert:?}\ntls_key = {key:?}"));
    let missing = token("/nonexistent/token");
    refused(&missing, &[":13:14: token file /nonexistent/token: there is no such file", "remedy: "]);
    refused(&token("/dev/zero"), &["it is no regular file", "remedy: "]);
    refused(&token("/tmp"), &["it is a directory", "remedy: "]);
    let listen = |at: &str| format!("[admin]\nlisten = {at:?}\n");
    refused(&listen("unix:/nonexistent/more/admin.sock"), &[":12:10: ", "the one above", "make them"]);
    refused(&listen(&format!("unix:{short}")), &[":12:10: ", "a file that is no socket", "another path"]);
    let page = "[telemetry]\nlisten = \"192.0.2.7:9464\"\n";
    refused_by(
        1,
        &format!("{BASE}{page}"),
        &[":12:10: 192.0.2.7 is no address of this machine", "127.0.0.1"],
    );
    let clients = job(1, "kind = \"switchml\"\n[jobs.switchml]\ncontroller = \"192.0.2.7:50099\"");
    refused_by(
        1,
        &format!("{BASE}{clients}"),
        &[":17:14: 192.0.2.7 is no address of this machine", "`ip address`"],
    );
    refused(&token(&short), &["16 to 512 visible", "openssl rand"]);
    refused(&token(&long), &["longer than 514 bytes", "remedy: "]);
    refused(&tls("/nonexistent", &key), &[":13:12: /nonexistent: there is no such file", "remedy: "]);
    refused(&tls(&cert, "/nonexistent"), &[":14:11: /nonexistent: there is no such file", "remedy: "]);
    refused(&tls(&key, &key), &["there is no certificate in it", "-----BEGIN CERTIFICATE-----"]);
    refused(&tls(&cert, &cert), &["there is no private key in it", "remedy: "]);
    refused(
        &tls(&cert, &other),
        &[":14:11: ", "it does not belong to", "give the key that this certificate"],
    );
    assert!(!check(&tls(&cert, &key)).contains("warning"));
    let wide = format!("[admin]\nlisten = \"127.0.0.2:9466\"\ntls_cert = {cert:?}\ntls_key = {key:?}\n");
    assert!(check(&wide).contains("warning: tls_cert ") && check(&wide).contains("not for 127.0.0.2"));
}

#[test]
fn cores_and_memory_that_are_not_there_are_refused_as_run_does() {
    let with = |from: &str, to: &str, says: &[&str]| refused_by(2, &BASE.replacen(from, to, 1), says);
    with("cores = [1]", "cores = [999]", &[":6:9: core 999 cannot be used", "remedy: list cores"]);
    with("main_core = 0", "main_core = 998", &[":5:13: core 998 cannot be used", "remedy: list cores"]);
    let much = "cores = [1]\nhugepages = \"no\"\nmemory_mb = 10000000";
    with("cores = [1]", much, &[":8:13: 10000000 MB", "this machine has", "lower memory_mb"]);
    let huge = "cores = [1]\nhugepages = \"require\"\nmemory_mb = 10000000";
    let reserved = BASE.replacen("cores = [1]", huge, 1);
    refused_by(1, &reserved, &[":8:13: 10000000 MB of hugepages", "remedy: "]);
}

/// What `verify` names is on the machine that the file is for, and so is the program that reads it.
#[test]
fn ages_of_models_are_proved_where_the_file_is() {
    let files = Files::new();
    let with = |ages: &str| {
        let verify = format!("[admission]\nverify = {ages:?}\n");
        let job = "[[jobs]]\nid = 1\nname = \"load\"\nfan_in = 4\nkind = \"updates\"\n\
                   [jobs.updates]\nparameters = 64\n";
        let server = "[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\n";
        let file = files.write("appliance.toml", &format!("{BASE}{job}{verify}{server}"));
        file.to_str().unwrap().to_owned()
    };
    let ages = files.write("ages.toml", "");
    let file = with(ages.to_str().unwrap());
    let checked = |program: &Path| {
        let mut command = Command::new(BINARY);
        command.args(["check", &file]).env("PASCALINE_FLEET", program).env("NO_COLOR", "1");
        let ended = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: ended.status.code(), out: text(ended.stdout), err: text(ended.stderr) }
    };
    // Stands for pascaline-fleet, whose own tests say what it answers.
    let program = |answer: &str| {
        let script = "#!/bin/sh\n[ \"$1 $2 $7\" = 'verify --json --' ] || exit 1\necho";
        let path = files.write("pascaline-fleet", &format!("{script} '{answer}'\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let verdict = |verdict: &str| {
        format!(
            "{{\"queue\":{{\"discipline\":\"olaf\",\"length\":8}},\"clusters\":[{{\"name\":\"load\",\"workers\":4}}],\
             \"queries\":[{{\"name\":\"fresh\",\"verdict\":\"{verdict}\",\"because\":\"why\",\"clusters\":[\"load\"]}}]}}"
        )
    };
    let ended = checked(&program(&verdict("holds")));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = checked(&program(&verdict("fails")));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("can be run, but jobs are refused"), "{ended:?}");
    checked(&program("what?")).refused(2, &["what pascaline-fleet says", "of the same version"]);
    checked(Path::new("/nowhere/fleet"))
        .refused(2, &["/nowhere/fleet: there is no such program", "install it"]);

    let file = with("/nonexistent/ages.toml");
    pascaline(&["check", &file]).refused(2, &["/nonexistent/ages.toml: there is no such file"]);
    let ended = pascaline(&["check", "--elsewhere", &file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("warning: verify: /nonexistent/ages.toml was not read"), "{ended:?}");
}
