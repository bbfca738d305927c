//! Commands and parts that this program does not have, and what it says instead.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use pascaline_shared::eprintln;

/// Said where SwitchML's protocol is asked for.
pub(crate) const SWITCHML: &str =
    "this program was built without SwitchML's protocol (Cargo feature `switchml`)";
/// What to do about a part that was left out.
pub(crate) const REMEDY: &str =
    "use the program of the package, or of `cargo build --release -p pascaline`, which has every feature";

/// A part that a command needs and this build does not have.
#[derive(Debug, thiserror::Error)]
#[error("{0}\n  remedy: {REMEDY}")]
pub(crate) struct LeftOut(pub(crate) &'static str);

/// The arguments of a command that this program does not have, whatever they are.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Says where a command has gone. Its exit code is that of a wrong command line.
pub(crate) fn moved(command: &str, given: &Ignored) -> ExitCode {
    let words = given.words.iter().map(|word| format!(" {}", word.display()));
    eprintln!(
        "pascaline: `{command}` is a command of pascaline-fleet\n  remedy: pascaline-fleet {command}{}",
        words.collect::<String>()
    );
    ExitCode::from(2)
}
