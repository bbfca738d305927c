//! Snapshots over HTTP.

use anyhow::{anyhow, ensure};

use crate::http::client::{Address, Client};
use crate::observe::snapshot::Snapshot;

const PATH: &str = "/api/v1/snapshot";

/// An appliance.
pub(super) struct Source {
    client: Client,
    url: String,
}

impl Source {
    pub(super) fn new(at: &Address) -> anyhow::Result<Self> {
        Ok(Self { client: Client::new(at.clone(), None, None)?, url: format!("{at}{PATH}") })
    }

    /// The latest snapshot, as JSON.
    ///
    /// # Errors
    /// The appliance does not answer.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let text = || {
            let (status, body) = self.client.get(PATH)?;
            ensure!(status.is_success(), "status {status}");
            Ok(String::from_utf8(body.into())?)
        };
        text().map_err(|error: anyhow::Error| {
            let remedy =
                "is the appliance running, and is this the address of its [telemetry]? Otherwise: --url";
            anyhow!("no answer from {}: {error:#}\n  remedy: {remedy}", self.url)
        })
    }

    /// The latest snapshot.
    ///
    /// # Errors
    /// The appliance does not answer, or with something else.
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        serde_json::from_str(&self.text()?).map_err(|error| {
            let remedy = "give the URL of an appliance of this version, without a path";
            anyhow!("what {} answers is no snapshot: {error}\n  remedy: {remedy}", self.url)
        })
    }
}
