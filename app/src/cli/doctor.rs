//! `pascaline doctor`: whether this machine is fit for an appliance, and what to do where it is not.
//!
//! Everything is read below a root directory ([`Host`]), `/` unless told otherwise: a tree of files stands
//! for a machine in the tests, and a tree that somebody has sent stands for theirs.

mod cores;
mod devices;
mod finding;
mod memory;
mod network;
pub(crate) mod nic;
mod software;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pascaline_shared::println;
use serde_json::json;

use self::finding::{Finding, Status};
use self::nic::Nic;
use crate::config::Config;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  pascaline doctor
  pascaline doctor -c /etc/pascaline/appliance.toml
  pascaline doctor --json | jq '.findings[] | select(.status != \"ok\")'

Exit status: 0 if nothing fails (warnings cost speed, not function), 1 if something does, 2 if the
configuration is wrong.";

/// Examine this machine: hugepages, IOMMU, drivers, NUMA, cores, MTU, firewall, clock, DPDK
///
/// With a configuration, it is examined for that appliance: its devices, its cores, its memory, its port.
/// Each finding that is not "ok" comes with a remedy. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The appliance's configuration
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Examine the machine whose /proc, /sys, /dev, /usr and /run lie below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Examines and reports.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.as_deref().map(Config::load).transpose()?;
    let findings = examine(&Host::below(&args.root), config.as_ref());
    let failed = findings.iter().any(|finding| finding.status == Status::Fail);
    if args.json {
        println!("{}", json!({ "ok": !failed, "findings": findings }));
    } else {
        findings.iter().for_each(|finding| println!("{finding}"));
        println!("{}", summary(&findings));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine(host: &Host, config: Option<&Config>) -> Vec<Finding> {
    let nics = Nic::all(host);
    let mut findings = memory::examine(host, config);
    findings.extend(devices::examine(host, &nics, config));
    findings.extend(cores::examine(host, &nics, config));
    findings.extend(network::examine(host, config));
    findings.extend(software::examine(host, config));
    findings
}

fn summary(findings: &[Finding]) -> String {
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    format!(
        "{} ok, {} warnings, {} failures, {} unknown",
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Fail),
        count(Status::Unknown)
    )
}
