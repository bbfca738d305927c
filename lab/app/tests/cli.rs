//! The command line: help, completions and manual pages of everything that the laboratory can do.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot continue fails"
)]

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pascaline-lab")).args(arguments).output().unwrap()
}

fn stdout_of(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 12] = [
        &[],
        &["bench"],
        &["bench", "pool"],
        &["bench", "pipeline"],
        &["bench", "olaf"],
        &["bench", "policies"],
        &["bench", "scrape"],
        &["bench", "observed"],
        &["bench", "security"],
        &["plot", "aom"],
        &["impair"],
        &["fuzz-protocol"],
    ];
    for command in commands {
        let help = stdout_of(&[command, &["--help"]].concat());
        assert!(help.contains("Usage: pascaline-lab"), "{command:?}: {help}");
        let (_, example) = help.split_once("Example").unwrap_or_else(|| panic!("{command:?}: {help}"));
        let whole = ["pascaline-lab", &command.join(" ")].join(" ");
        assert!(example.contains(whole.trim_end()), "{command:?}: {help}");
    }
}

#[test]
fn completions_and_manual_are_the_laboratorys() {
    assert!(stdout_of(&["completions", "bash"]).contains("fuzz-protocol"));
    assert!(stdout_of(&["man"]).contains("pascaline\\-lab"));
}

#[test]
fn unknown_commands_are_usage_errors() {
    assert_eq!(lab(&["run"]).status.code(), Some(2));
}

#[test]
fn a_schedule_without_faults_found_ends_well() {
    let report: serde_json::Value =
        serde_json::from_str(&stdout_of(&["fuzz-protocol", "--runs", "20", "--json"])).unwrap();
    assert_eq!((&report["schedules"], &report["violations"]), (&20.into(), &0.into()));
}
