//! `pascaline run`: bringing an appliance up, keeping it running, taking it down.

mod accounting;
mod bring_up;
mod control;
mod gauges;
mod job_metrics;
mod jobs;
mod pages;
mod ports;

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use crate::http;

pub(crate) use job_metrics::JobMetrics;
pub(crate) use ports::{DpdkIo, Queues};

/// Runs an appliance until SIGTERM or SIGINT.
pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(file)?;
    // The listener comes first: it is the cheapest thing that can fail.
    let listener = config.listen.as_ref().map(|listen| http::bind(&config, listen)).transpose()?;
    let appliance = bring_up::bring_up(&config)?;
    control::run(&config, appliance, listener)
}
