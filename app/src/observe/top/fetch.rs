//! Snapshots over HTTP.

use std::time::Duration;

use crate::observe::snapshot::Snapshot;

/// An appliance answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than any snapshot.
const LONGEST: u64 = 4 << 20;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(
        "no answer from {url}: {source}\n  remedy: is the appliance running, and is this the address of its [telemetry]? \
         Otherwise: --url"
    )]
    Unreachable { url: String, source: Box<ureq::Error> },
    #[error(
        "what {url} answers is no snapshot: {source}\n  remedy: give the URL of an appliance of this version, without a path"
    )]
    NoSnapshot { url: String, source: serde_json::Error },
}

/// An appliance.
#[derive(Debug)]
pub(super) struct Source {
    agent: ureq::Agent,
    url: String,
}

impl Source {
    pub(super) fn new(base: &str) -> Self {
        let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        Self { agent, url: format!("{}/api/v1/snapshot", base.trim_end_matches('/')) }
    }

    /// The latest snapshot, as JSON.
    pub(super) fn text(&self) -> Result<String, FetchError> {
        let text = || -> Result<String, ureq::Error> {
            self.agent.get(&self.url).call()?.body_mut().with_config().limit(LONGEST).read_to_string()
        };
        text().map_err(|source| FetchError::Unreachable { url: self.url.clone(), source: Box::new(source) })
    }

    /// The latest snapshot.
    pub(super) fn snapshot(&self) -> Result<Snapshot, FetchError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|source| FetchError::NoSnapshot { url: self.url.clone(), source })
    }
}
