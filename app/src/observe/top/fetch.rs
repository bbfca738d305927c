//! Snapshots over HTTP.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use pascaline_shared::http::client::{Address, Client};

#[cfg(feature = "top")]
use crate::observe::snapshot::Snapshot;

const PATH: &str = "/api/v1/snapshot";
/// Nobody who says why says more.
const LONGEST: usize = 300;

/// An appliance.
pub(super) struct Source {
    client: Client,
    url: String,
}

impl Source {
    pub(super) fn new(at: &Address, ca: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { client: Client::new(at.clone(), None, ca, None)?, url: format!("{at}{PATH}") })
    }

    /// The latest snapshot, as JSON.
    ///
    /// # Errors
    /// The appliance does not answer.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let known = "is the appliance running, and is this the address of its [telemetry]? Otherwise: --url";
        let (status, body) = self
            .client
            .get(PATH)
            .map_err(|error| anyhow!("no answer from {}: {error:#}\n  remedy: {known}", self.url))?;
        if !status.is_success() {
            let said = said(&body);
            let remedy = if said.contains("remedy") { String::new() } else { format!("\n  remedy: {known}") };
            bail!("{} answers with status {status}{said}{remedy}", self.url);
        }
        String::from_utf8(body.into()).with_context(|| format!("the answer of {}", self.url))
    }

    /// The latest snapshot.
    ///
    /// # Errors
    /// The appliance does not answer, or with something else.
    #[cfg(feature = "top")]
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        serde_json::from_str(&self.text()?).map_err(|error| {
            let remedy = "give the URL of an appliance of this version, without a path";
            anyhow!("what {} answers is no snapshot: {error}\n  remedy: {remedy}", self.url)
        })
    }
}

/// What a refusal says beside its status.
fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let shown = |character: &char| *character == '\n' || !character.is_control();
    let text: String = text.trim().chars().filter(shown).take(LONGEST).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
