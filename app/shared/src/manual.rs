//! What a shell and `man` want to know of the command. Made from the command line's own definition, so that
//! it is never behind it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::Stdout;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline completions bash > /usr/share/bash-completion/completions/pascaline
  source <(pascaline completions zsh)")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page
///
/// Every subcommand has a page of its own: man pascaline-run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline man | man -l -
  pascaline man --output /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the completions.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics when nobody reads on.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Stdout.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the main page, or writes all of them.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    // `help` has no page.
    let command = command.disable_help_subcommand(true);
    match &args.output {
        Some(directory) => {
            clap_mangen::generate_to(command, directory)
                .with_context(|| format!("writing manual pages into {}", directory.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).context("rendering the manual page")?;
            Stdout.write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
