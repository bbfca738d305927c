//! `pascaline init`: a configuration to begin with, made from what the machine has.

mod choose;
mod render;
mod tls;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use pascaline_shared::{eprintln, print};

use self::choose::Choice;
use crate::config::Config;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  pascaline init --dry-run
  pascaline init --address 10.77.0.254 -o /etc/pascaline/appliance.toml
  pascaline init --interface veth0
  pascaline init --tls --name appliance.example.net -o /etc/pascaline/appliance.toml

Then: `pascaline check FILE`, `pascaline doctor -c FILE`, `pascaline run -c FILE`.

Exit status: 0 if it was written (or shown), 1 if not: a file that is there already is never touched.";

/// Write an annotated configuration for this machine's network cards
///
/// Takes cards that are bound to DPDK; otherwise one that does not carry this machine's default route;
/// otherwise a kernel interface. Cores are taken from the card's NUMA node. Changes nothing but FILE.
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
    /// Make certificate, key and token for the admin API beside FILE (cert.pem, key.pem, token), and have it
    /// listen for other machines, too
    #[arg(long)]
    tls: bool,
    /// A name or address that the certificate is for, beside this machine's name; may be repeated
    #[arg(long = "name", value_name = "NAME", requires = "tls")]
    names: Vec<String>,
    /// Look at the machine whose /proc and /sys lie below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Chooses, writes, says what was chosen.
pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let choice = Choice::make(&Host::below(&args.root), args.interface.as_deref())?;
    let files = args.tls.then(|| tls::Files::beside(&args.output)).transpose()?;
    let text = render::render(&choice, &args.addresses, args.ranks, files.as_ref());
    // What this command writes, `pascaline check` accepts.
    Config::parse(&args.output, &text).context("the configuration for this machine would not be accepted")?;
    if args.dry_run {
        print!("{text}");
    } else {
        not_there(&args.output)?;
        if let Some(files) = &files {
            let names = tls::names(&args.names);
            files.make(&names)?;
            eprintln!("{}", told(files, &names));
        }
        write(&args.output, &text)?;
        eprintln!("{} written", args.output.display());
    }
    for note in &choice.notes {
        eprintln!("{note}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What has been made for the admin API, and how it is used.
fn told(files: &tls::Files, names: &[String]) -> String {
    let tls::Files { cert, key, token } = files;
    let (cert, key, token) = (cert.display(), key.display(), token.display());
    format!(
        "{cert}, {key} and {token} written, for {}; the user that runs the appliance must be able to read \
         them\nask with: pascaline explain JOB --admin https://{}:{} --ca {cert} --token-file {token}",
        names.join(", "),
        names.first().map_or("localhost", String::as_str),
        render::ADMIN_PORT
    )
}

fn not_there(file: &Path) -> anyhow::Result<()> {
    if file.symlink_metadata().is_ok() {
        bail!(
            "{} is there already and stays as it is\n  \
             remedy: name another file with -o, or see what would be written with --dry-run",
            file.display()
        );
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let out = OpenOptions::new().write(true).create_new(true).open(file);
    let mut out = out.with_context(|| format!("creating {}", file.display()))?;
    out.write_all(text.as_bytes()).with_context(|| format!("writing {}", file.display()))
}
