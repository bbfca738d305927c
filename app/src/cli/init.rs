//! `pascaline init`: a configuration to begin with, made from what the machine has.

mod choose;
mod render;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use self::choose::Choice;
use crate::config::Config;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  pascaline init --dry-run
  pascaline init --address 10.77.0.254 -o /etc/pascaline/appliance.toml
  pascaline init --interface veth0

Then: `pascaline check FILE`, `pascaline doctor -c FILE`, `pascaline run -c FILE`.

Exit status: 0 if it was written (or shown), 1 if not: a file that is there already is never touched.";

/// Write an annotated configuration for this machine's network cards
///
/// Takes the cards that are DPDK's already; else one that does not carry this machine's default route; else
/// an interface of the kernel. Cores are taken from the card's NUMA node. Changes nothing but FILE.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(short, long, value_name = "FILE", default_value = "appliance.toml")]
    output: PathBuf,
    /// Show it on standard output instead
    #[arg(long)]
    dry_run: bool,
    /// An address of the appliance's own, which workers send to; may be repeated
    #[arg(long = "address", value_name = "IP", default_value = "10.77.0.254")]
    addresses: Vec<IpAddr>,
    /// Use this interface of the kernel instead of a network card
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Ranks of the first job
    #[arg(long, value_name = "N", default_value_t = 4)]
    ranks: u16,
    /// Look at the machine whose /proc and /sys lie below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Chooses, writes, says what was chosen.
pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let choice = Choice::make(&Host::below(&args.root), args.interface.as_deref())?;
    let text = render::render(&choice, &args.addresses, args.ranks);
    // What this command writes, `pascaline check` accepts.
    Config::parse(&args.output, &text).context("the configuration for this machine would not be accepted")?;
    if args.dry_run {
        print!("{text}");
    } else {
        write(&args.output, &text)?;
        eprintln!("{} written", args.output.display());
    }
    for note in &choice.notes {
        eprintln!("{note}");
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut out = match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(out) => out,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already and stays as it is\n  \
             remedy: name another file with -o, or see what would be written with --dry-run",
            file.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("creating {}", file.display())),
    };
    out.write_all(text.as_bytes()).with_context(|| format!("writing {}", file.display()))
}
