//! `pascaline run`: bringing an appliance up, keeping it running, taking it down.

mod accounting;
mod attached;
mod bring_up;
mod capture;
mod commands;
mod control;
mod fits;
pub(crate) mod in_line;
mod jobs;
mod lines;
mod links;
mod operator;
mod ports;
mod registrar;
mod running;
pub(crate) mod verify;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use crate::admin::server as admin;
use crate::config::Config;

pub(crate) use bring_up::{Appliance, Machine};
pub(crate) use control::run as serve;
pub(crate) use fits::fits;
pub use ports::{DpdkIo, Queues};
pub(crate) use registrar::Listening;

/// Runs an appliance until SIGTERM, SIGINT or the order to drain.
pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(file)?;
    for warning in fits(&config)? {
        tracing::warn!("{warning}");
    }
    bring_up::interfaces(&config)?;
    // The listeners come first: they are the cheapest things that can fail.
    let listener = config.listen.as_ref().map(|listen| admin::tcp(&config, listen)).transpose()?;
    let admin = config.admin.as_ref().map(|admin| admin::bind(&config, admin)).transpose()?;
    let listening = Listening { admin, controllers: registrar::controllers(&config)? };
    let appliance = bring_up::bring_up(&config)?;
    control::run(&config, appliance, listener, listening)
}
