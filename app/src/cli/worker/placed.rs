//! Where a controller sends a worker to.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::http::StatusCode;
use clap::Args;
use pascaline_shared::http::client::{Address, Client};
use serde_json::Value;

use super::member::RankArgs;

/// How long a controller may take until the rank's appliance has its part.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_millis(200);

/// Who says where the appliance is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ControllerArgs {
    /// Ask this controller for the appliance, or for those of all the job's trees; --rank is that among all
    /// workers of the job then: unix:PATH, ADDRESS:PORT or https://HOST:PORT. Given again: ask that one too,
    /// if this one does not answer.
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["appliance", "ranks"])]
    controller: Vec<Address>,
    /// The file with the controller's token, if it asks for one.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_token_file: Option<PathBuf>,
    /// The certificates (PEM) that a controller at https:// must be signed by.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_ca: Option<PathBuf>,
}

/// A rank at its appliance, and among all workers.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) who: RankArgs,
    /// All workers of the job, if a controller has said so.
    pub(crate) workers: Option<u16>,
    /// Which of all workers rank 0 of the appliance would be.
    pub(crate) first: u16,
}

impl ControllerArgs {
    fn clients(&self) -> anyhow::Result<Vec<Client>> {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).with_context(|| format!("token file {}", file.display()))
        };
        let token = self.controller_token_file.as_ref().map(read).transpose()?;
        let token = token.map(|token| token.trim().to_owned());
        let client =
            |at: &Address| Client::new(at.clone(), token.clone(), self.controller_ca.as_deref(), None);
        self.controller.iter().map(client).collect()
    }
}

/// What one of the controllers says. They are asked in turn, until one knows, or says that none ever will.
fn ask(clients: &[Client], path: &str) -> anyhow::Result<Value> {
    let begun = Instant::now();
    let mut silent = 0;
    for client in clients.iter().cycle() {
        let late = begun.elapsed() > PATIENCE;
        let (status, body) = match client.get(path) {
            Ok(answer) => answer,
            // Another one may be there.
            Err(_) if silent + 1 < clients.len() && !late => {
                silent += 1;
                continue;
            }
            Err(error) => return Err(error).context("asking the controller"),
        };
        silent = 0;
        let answer: Value =
            serde_json::from_slice(&body).context("the answer of the controller is no JSON")?;
        if status.is_success() {
            return Ok(answer);
        }
        if status != StatusCode::SERVICE_UNAVAILABLE || late {
            let said = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
            bail!("the controller says: {}; {}", said("error"), said("remedy"));
        }
        std::thread::sleep(BETWEEN);
    }
    bail!("no controller to ask")
}

impl Placed {
    /// Without the backups that a controller has named, for a worker that cannot turn to them. Trees stay:
    /// one that leaves some out would not be with the other ranks.
    pub(crate) fn at_one(mut self) -> Self {
        if self.workers.is_some() {
            self.who.appliance = without_backups(&self.who.appliance);
        }
        self
    }
}

/// The appliances of all trees and their backups, as `--appliance` takes them.
fn appliances(answer: &Value) -> anyhow::Result<String> {
    let tree = |tree: &Value| {
        let address = tree["address"].as_str().context("the controller's answer lacks address")?;
        let backups = tree["backups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(core::iter::once(address).chain(backups).collect::<Vec<_>>().join(","))
    };
    let further = answer["further_trees"].as_array().into_iter().flatten();
    let trees = core::iter::once(answer).chain(further).map(tree).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(trees.join(";"))
}

fn without_backups(appliances: &str) -> String {
    let firsts = appliances.split(';').filter_map(|tree| tree.split(',').next());
    firsts.collect::<Vec<_>>().join(";")
}

impl RankArgs {
    /// Asks the controllers, if there are any.
    ///
    /// # Errors
    /// None of them answers, or one knows no such rank.
    pub(crate) fn placed(&self) -> anyhow::Result<Placed> {
        let clients = self.by.clients()?;
        if clients.is_empty() {
            return Ok(Placed { who: self.clone(), workers: None, first: 0 });
        }
        let answer = ask(&clients, &format!("/api/v1/jobs/{}/ranks/{}", self.job, self.rank))?;
        let number = |key: &str| {
            let number = answer[key].as_u64().and_then(|number| u16::try_from(number).ok());
            number.with_context(|| format!("the controller's answer lacks {key}"))
        };
        let rank = number("local_rank")?;
        let appliance = appliances(&answer)?;
        let who = Self { appliance, rank, ranks: number("local_ranks")?, ..self.clone() };
        Ok(Placed { who, workers: Some(number("workers")?), first: self.rank.saturating_sub(rank) })
    }
}

#[cfg(test)]
mod tests;
