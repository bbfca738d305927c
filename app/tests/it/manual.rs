//! Completions and manual pages: one for everything that the command can do.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::common::{BINARY, Files, pascaline};

/// The subcommands that the help lists.
fn subcommands() -> Vec<String> {
    let help = pascaline(&["--help"]).out;
    let (_, list) = help.split_once("Commands:\n").expect("help lists commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    // Continued descriptions are indented further.
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.contains(&"run".to_owned()) && names.contains(&"doctor".to_owned()), "{names:?}");
    names
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let files = Files::new();
    let directory = files.path("");
    let ended = pascaline(&["man", "--output", directory.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let main = std::fs::read_to_string(files.path("pascaline.1")).unwrap();
    assert_eq!(main, pascaline(&["man"]).out);
    for name in subcommands() {
        let page = std::fs::read_to_string(files.path(&format!("pascaline-{name}.1")));
        let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.starts_with(".ie") && page.contains(".SH NAME"), "{name}: {page}");
        // Hyphens are escaped in roff.
        assert!(main.contains(&format!("pascaline\\-{}(1)", name.replace('-', "\\-"))), "{name}: {main}");
    }
    let missing = pascaline(&["man", "--output", "/nonexistent/man1"]);
    missing.refused(1, &["/nonexistent/man1"]);
}

#[test]
fn completions_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = pascaline(&["completions", shell]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for name in subcommands() {
            assert!(ended.out.contains(&name), "{shell} does not know {name}");
        }
    }
    pascaline(&["completions", "tcsh"]).refused(2, &["tcsh", "bash"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&["man"][..], &["completions", "bash"]] {
        let mut child = Command::new(BINARY).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut begin = [0; 1];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut begin).unwrap();
        drop(out);
        // All of it is in the pipe, or it ends as SIGPIPE ends programs.
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 141)), "{arguments:?}: {code:?}");
    }
}

#[test]
fn a_result_that_nobody_reads_is_no_defect() {
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/appliance.toml");
    let ended = Command::new(BINARY)
        .args(["check", "--elsewhere", config])
        .stdout(write)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .unwrap();
    assert!(!ended.status.success());
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
