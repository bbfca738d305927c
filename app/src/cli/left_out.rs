//! Commands and parts that this program does not have, and what it says instead.

use std::ffi::OsString;

use clap::Args;

/// Said where SwitchML's protocol is asked for.
pub(crate) const SWITCHML: &str =
    "this program was built without SwitchML's protocol (Cargo feature `switchml`)";
/// Said where the screen is asked for.
#[cfg(not(feature = "top"))]
pub(crate) const TOP: &str = "this program was built without the screen of `pascaline top` (Cargo feature `top`), not without --json";
/// What to do about either.
pub(crate) const REMEDY: &str =
    "use the program of the package, or of `cargo build --release -p pascaline`, which has every feature";

/// The error of a command that needs what is left out.
#[cfg(not(all(feature = "switchml", feature = "top")))]
pub(crate) fn error(what: &str) -> anyhow::Error {
    anyhow::anyhow!("{what}\n  remedy: {REMEDY}")
}

/// The arguments of a command that this program does not have, whatever they are.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub(super) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}
