//! The controller's file: its keys as written, and the accepted configuration.

mod accept;
#[cfg(test)]
mod tests;

use core::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;

use crate::network::Network;
use crate::plan::Plan;
use crate::tree::{Nearest, Planner, Refusal, Tree, Written};
use crate::trees;

/// An error in a file, with its place and remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    /// Line and column, from 1.
    place: Option<(usize, usize)>,
    message: String,
    remedy: String,
}

impl ConfigError {
    fn new(file: &Path, place: Option<(usize, usize)>, message: String, remedy: &str) -> Self {
        Self { file: file.to_owned(), place, message, remedy: remedy.to_owned() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}\n  remedy: {}", self.message, self.remedy)
    }
}

impl std::error::Error for ConfigError {}

/// A file that has been accepted.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file.
    pub file: PathBuf,
    /// The network's name.
    pub name: String,
    /// The API's place: `unix:PATH`, or an address and a port.
    pub listen: String,
    /// The file with the token that the API asks for.
    pub token_file: Option<PathBuf>,
    /// The file with the token of those who only read.
    pub read_token_file: Option<PathBuf>,
    /// The files with the certificate that it shows to appliances, and with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The page's address; it needs no token.
    pub page: Option<SocketAddr>,
    /// The kind of store, and its place.
    pub store: StoreAt,
    /// How often each appliance is asked for its state.
    pub interval: Duration,
    /// After how long a silence an appliance has failed.
    pub down_after: Duration,
    /// Switches, appliances, hosts.
    pub network: Network,
    /// The jobs.
    pub jobs: Vec<Job>,
}

/// A controller's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAt {
    /// Alone, in SQLite's file.
    Sqlite(PathBuf),
    /// Together with others, in etcd.
    Etcd(EtcdAt),
}

impl core::fmt::Display for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "alone, with {}", file.display()),
            Self::Etcd(EtcdAt { endpoints, member, lease, .. }) => {
                let lease = humantime::format_duration(*lease);
                write!(f, "as {member} among others, with etcd at {}, lease {lease}", endpoints.join(", "))
            }
        }
    }
}

/// The members of etcd, and how to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdAt {
    /// Members of etcd that clients may ask.
    pub endpoints: Vec<String>,
    /// This controller's name among those with the same etcd.
    pub member: String,
    /// How long a leader may be silent until another one leads; in whole seconds.
    pub lease: Duration,
    /// The certificates that members with TLS are signed by.
    pub ca: Option<PathBuf>,
    /// This controller's certificate and key, for members that ask for them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl EtcdAt {
    /// How long a member may take to answer: two may fail, and the lease is kept.
    pub(crate) fn patience(&self) -> Duration {
        self.lease / 4
    }
}

/// A job.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its number, the same at every appliance; of several trees, the first one's.
    pub id: u16,
    /// Its name, the same at every appliance.
    pub name: String,
    /// The host of each rank.
    pub ranks: Vec<usize>,
    /// Further keys of `[[jobs]]` at every appliance.
    pub terms: Map<String, Value>,
    /// Whether other appliances stand by with the parts of its tree.
    pub backups: bool,
    /// How many trees it has, each over another root: for appliances, each is a job of its own.
    pub trees: u16,
    shape: Shape,
}

/// How its tree is found.
#[derive(Debug, Clone)]
enum Shape {
    Nearest,
    Written(Written),
    Planned(Plan),
}

impl Job {
    /// The numbers of its trees: each is the job after the one before it.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.id;
        (0..self.trees).map(move |tree| first.saturating_add(tree))
    }

    /// The name of one of these, which is a job of its own for appliances: no two have one name.
    pub(crate) fn tree_name(&self, number: u16) -> String {
        match number - self.id {
            0 => self.name.clone(),
            further => format!("{} tree {}", self.name, further + 1),
        }
    }

    /// Its trees over appliances that `may` have a part, one for each of its [numbers](Self::numbers).
    ///
    /// In words, if there are none.
    pub fn all_trees(&self, network: &Network, may: &dyn Fn(usize) -> bool) -> Result<Vec<Tree>, Refusal> {
        Ok(trees::all(network, self, self.tree(network, may)?, may))
    }

    /// Its first tree over appliances that `may` have a part.
    ///
    /// In words, if there is none.
    pub fn tree(&self, network: &Network, may: &dyn Fn(usize) -> bool) -> Result<Tree, Refusal> {
        let planner: &dyn Planner = match &self.shape {
            Shape::Nearest => &Nearest,
            Shape::Written(written) => written,
            Shape::Planned(plan) => plan,
        };
        planner.plan(network, self, may)
    }
}

impl Config {
    /// Reads and checks a file, and the plans that it names.
    ///
    /// # Errors A file that cannot be read, or a wrong value: file, line, column, remedy.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let remedy = "name a file that can be read; conf/controller.toml is an example";
        let refuse = |error: std::io::Error| ConfigError::new(file, None, error.to_string(), remedy);
        Self::parse(file, &std::fs::read_to_string(file).map_err(refuse)?)
    }

    /// Checks the text of a file.
    ///
    /// # Errors
    /// As of [`Config::load`].
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let remedy = "correct the key or value; conf/controller.toml lists every key";
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| place(text, span.start));
            ConfigError::new(file, place, error.message().replace('\n', " "), remedy)
        })?;
        accept::Accept { file, text }.config(raw)
    }
}

/// Line and column of an offset.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    controller: Spanned<RawController>,
    etcd: Option<Spanned<RawEtcd>>,
    #[serde(default)]
    switches: Vec<RawSwitch>,
    #[serde(default)]
    appliances: Vec<RawAppliance>,
    #[serde(default)]
    hosts: Vec<RawHost>,
    #[serde(default)]
    jobs: Vec<RawJob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawController {
    #[serde(default = "unnamed")]
    name: String,
    listen: Spanned<String>,
    token_file: Option<PathBuf>,
    read_token_file: Option<Spanned<PathBuf>>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    page: Option<Spanned<String>>,
    store: Option<Spanned<PathBuf>>,
    interval: Option<Spanned<String>>,
    down_after: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEtcd {
    endpoints: Spanned<Vec<Spanned<String>>>,
    member: Spanned<String>,
    lease: Option<Spanned<String>>,
    ca: Option<Spanned<PathBuf>>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
}

fn unnamed() -> String {
    "pascaline".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    name: Spanned<String>,
    #[serde(default)]
    links: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAppliance {
    name: Spanned<String>,
    at: Spanned<String>,
    address: Spanned<String>,
    admin: Spanned<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    mac: Option<Spanned<String>>,
    router: Option<Spanned<String>>,
    port: Option<String>,
    #[serde(default)]
    spare: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    at: Spanned<String>,
    address: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    id: Spanned<u16>,
    name: Spanned<String>,
    ranks: Spanned<Vec<Spanned<String>>>,
    tree: Option<Vec<RawEdge>>,
    plan: Option<Spanned<PathBuf>>,
    backups: Option<Spanned<bool>>,
    trees: Option<Spanned<u16>>,
    #[serde(default)]
    terms: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEdge {
    appliance: Spanned<String>,
    parent: Spanned<String>,
}
