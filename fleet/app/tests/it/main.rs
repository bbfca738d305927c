//! The command line of `pascaline-fleet`: help, manual pages, completions, and what is wrong said clearly.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::process::{Command, Output};

const COMMANDS: [&str; 5] = ["controller", "plan", "verify", "completions", "man"];
/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn fleet(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pascaline-fleet")).args(args).current_dir(ROOT).output().unwrap()
}

fn out(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

fn err(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// A directory that is gone afterwards.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pascaline-fleet-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A directory that stays behind is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_command_has_help_a_manual_page_and_completions() {
    let files = Files::new("man");
    let ended = fleet(&["man", "--output", files.0.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", err(&ended));
    let help = out(&fleet(&["--help"]));
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let examples = out(&fleet(&[command, "--help"]));
        assert!(examples.contains("\nExample"), "{command}: {examples}");
        let page = std::fs::read_to_string(files.0.join(format!("pascaline-fleet-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{command}: {page}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(out(&fleet(&["completions", shell])).contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn a_verdict_is_told_even_if_its_picture_cannot_be_written() {
    let files = Files::new("verdict");
    let file = files.0.join("ages.toml");
    let text = "horizon = \"1s\"\n[queue]\nlength = 8\nservice = \"2ms\"\n[[clusters]]\nname = \"a\"\n\
                period = \"100ms\"\n[[query]]\nmeasure = \"peak\"\nbound = \"200ms\"\n";
    std::fs::write(&file, text).unwrap();
    let verify = |more: &[&str]| fleet(&[&["verify", file.to_str().unwrap()], more].concat());
    for option in ["--picture", "--smt"] {
        let ended = verify(&[option, "/nowhere/at/all"]);
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(
            out(&ended).contains("\nholds: ") && err(&ended).contains("cannot write /nowhere"),
            "{ended:?}"
        );
    }
    let ended = verify(&["--time-limit", "584542046090years"]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// An appliance reads it for `verify` of its [admission].
#[test]
fn a_verification_says_in_json_what_the_file_describes() {
    let file = "clients/examples/verify/fairness.toml";
    let told: serde_json::Value = serde_json::from_str(&out(&fleet(&["verify", "--json", file]))).unwrap();
    assert_eq!((&told["verdict"], &told["queue"]["discipline"]), (&"holds".into(), &"olaf".into()), "{told}");
    let (clusters, about) = (told["clusters"].as_array().unwrap(), &told["queries"][0]["clusters"]);
    assert!(
        clusters.iter().any(|cluster| cluster["name"] == about[0] && cluster["workers"].is_u64()),
        "{told}"
    );
    for (more, wrong) in [(&["--updates", "1", file][..], false), (&["Cargo.toml"], true)] {
        let ended = fleet(&[&["verify", "--json"], more].concat());
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        let told: serde_json::Value = serde_json::from_str(&out(&ended)).unwrap();
        assert_eq!(told["file_is_wrong"], wrong, "{told}");
        assert!(err(&ended).contains(told["error"].as_str().unwrap()), "{ended:?}");
    }
}

#[test]
fn examples_are_planned_and_accepted() {
    let ended = fleet(&["plan", "clients/examples/plans/appliances.json", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&out(&ended)).unwrap();
    assert_eq!((ended.status.code(), &plan["proof"]), (Some(0), &"optimal".into()), "{plan}");
    let ended = fleet(&["controller", "--check", "--json", "-c", "conf/controller.toml"]);
    let checked: serde_json::Value = serde_json::from_str(&out(&ended)).unwrap();
    assert_eq!((ended.status.code(), &checked["ok"]), (Some(0), &true.into()), "{checked}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    for command in [&["plan", "/nowhere"][..], &["verify", "/nowhere"], &["controller", "-c", "/nowhere"]] {
        let ended = fleet(command);
        assert_eq!(ended.status.code(), Some(2), "{command:?}: {ended:?}");
        let said = err(&ended);
        assert!(said.starts_with("pascaline-fleet: ") && said.contains("/nowhere"), "{command:?}: {said}");
    }
}
