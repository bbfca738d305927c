//! The screen, and the same as text for `--once`.

mod format;
mod interactive;
mod panels;
mod view;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use pascaline_shared::print;

use self::view::View;
use super::TopArgs;
use super::fetch::Source;

/// What `--once` draws, without a terminal to ask.
const ONCE: (u16, u16) = (120, 32);

/// Draws it once as text, or until the user leaves.
pub(super) fn show(source: &Source, args: &TopArgs) -> anyhow::Result<ExitCode> {
    if args.once {
        let mut view = View::default();
        view.show(source.snapshot()?);
        let text = view.to_text(ONCE.0, ONCE.1)?;
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal: use --once, or --json");
    }
    interactive::run(source, args.interval)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
