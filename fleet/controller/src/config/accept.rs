//! From the written keys to the accepted configuration.

mod appliances;
mod store;
mod trees;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use toml::Spanned;

use super::{Config, ConfigError, Job, Raw, RawController, RawEdge, RawJob, RawSwitch, Shape, place};
use crate::network::{Host, Network, Switch};
use crate::plan::Plan;
use crate::tree::{Refusal, Written};

const MOST_RANKS: usize = 1024;
/// Keys of an appliance's job that its tree decides.
const DECIDED: [&str; 5] = ["id", "name", "fan_in", "members", "parent"];

type Checked<T> = Result<T, ConfigError>;
type Names = BTreeMap<String, usize>;

pub(super) struct Accept<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Accept<'_> {
    fn error<T>(&self, at: &Spanned<T>, what: impl fmt::Display, remedy: impl Into<String>) -> ConfigError {
        let place = place(self.text, at.span().start);
        ConfigError::new(self.file, Some(place), what.to_string(), &remedy.into())
    }

    pub(super) fn config(&self, raw: Raw) -> Checked<Config> {
        let store = self.store(&raw)?;
        let network = self.network(&raw)?;
        let jobs = self.jobs(&network, &raw.jobs)?;
        let written = raw.controller.into_inner();
        let RawController { name, listen, token_file, read_token_file, certificate, key, .. } = written;
        let RawController { page, interval, down_after, .. } = written;
        let interval = self.time(interval.as_ref(), Duration::from_secs(1))?;
        let silent = self.time(down_after.as_ref(), 3 * interval)?;
        if let Some(written) = down_after.filter(|_| silent < 2 * interval) {
            let message = "one late answer would be a failure";
            return Err(self.error(&written, message, "write at least twice the interval"));
        }
        let page =
            page.as_ref().map(|page| self.parsed::<SocketAddr>(page, "an address and a port")).transpose()?;
        self.listen(&listen, token_file.is_some())?;
        if let (None, Some(alone)) = (&token_file, &read_token_file) {
            let remedy = "set token_file as well: without it everybody who may connect may change everything";
            return Err(self.error(alone, "read_token_file without token_file", remedy));
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate.into_inner(), key.into_inner())),
            (None, None) => None,
            (Some(alone), None) => return Err(self.error(&alone, "certificate without key", "give both")),
            (None, Some(alone)) => return Err(self.error(&alone, "key without certificate", "give both")),
        };
        Ok(Config {
            file: self.file.to_owned(),
            name,
            listen: listen.into_inner(),
            token_file,
            read_token_file: read_token_file.map(Spanned::into_inner),
            identity,
            page,
            store,
            interval,
            down_after: silent,
            network,
            jobs,
        })
    }

    /// Only this machine may ask without a token.
    fn listen(&self, listen: &Spanned<String>, token: bool) -> Checked<()> {
        if listen.get_ref().strip_prefix("unix:").is_some_and(|path| path.starts_with('/')) {
            return Ok(());
        }
        let at: SocketAddr = self.parsed(listen, "unix:/PATH, or an address and a port")?;
        if !at.ip().is_loopback() && !token {
            let remedy = "set token_file, or listen on 127.0.0.1 or \"unix:/run/pascaline/controller.sock\"";
            let message = format!("{at} can be reached from elsewhere without a token");
            return Err(self.error(listen, message, remedy));
        }
        Ok(())
    }

    fn time(&self, written: Option<&Spanned<String>>, otherwise: Duration) -> Checked<Duration> {
        let Some(written) = written else { return Ok(otherwise) };
        let parsed = humantime::parse_duration(written.get_ref()).ok();
        let within = |time: &Duration| (Duration::from_millis(50)..=Duration::from_secs(3600)).contains(time);
        parsed
            .filter(within)
            .ok_or_else(|| self.error(written, "no time between 50ms and 1h", "write e.g. \"1s\""))
    }

    fn parsed<T: core::str::FromStr>(&self, written: &Spanned<String>, what: &str) -> Checked<T> {
        written.get_ref().parse().map_err(|_| {
            let message = format!("{:?} is not {what}", written.get_ref());
            self.error(written, message, format!("write {what}"))
        })
    }

    fn names<'t>(&self, kind: &str, all: impl Iterator<Item = &'t Spanned<String>>) -> Checked<Names> {
        let mut names = Names::new();
        for (place, name) in all.enumerate() {
            if name.get_ref().is_empty() {
                return Err(self.error(name, format_args!("a {kind} without a name"), "give it one"));
            }
            if names.insert(name.get_ref().clone(), place).is_some() {
                let message = format!("the {kind} {:?} is there twice", name.get_ref());
                return Err(self.error(name, message, "give each a name of its own"));
            }
        }
        Ok(names)
    }

    fn find(&self, kind: &str, names: &Names, name: &Spanned<String>) -> Checked<usize> {
        names.get(name.get_ref()).copied().ok_or_else(|| {
            let known: Vec<&str> = names.keys().map(String::as_str).take(12).collect();
            let remedy = if known.is_empty() {
                format!("add it as [[{kind}s]]")
            } else {
                format!("name one of {}, or add it", known.join(", "))
            };
            self.error(name, format_args!("there is no {kind} {:?}", name.get_ref()), remedy)
        })
    }

    fn network(&self, raw: &Raw) -> Checked<Network> {
        let Raw { switches, appliances, hosts, .. } = raw;
        let names = self.names("switch", switches.iter().map(|switch| &switch.name))?;
        self.names("appliance", appliances.iter().map(|appliance| &appliance.name))?;
        self.names("host", hosts.iter().map(|host| &host.name))?;
        let switch = |raw: &RawSwitch| Switch { name: raw.name.get_ref().clone(), links: Vec::new() };
        let mut network = Network { switches: switches.iter().map(switch).collect(), ..Network::default() };
        for (from, raw) in switches.iter().enumerate() {
            for link in &raw.links {
                let to = self.find("switch", &names, link)?;
                if to == from {
                    return Err(self.error(link, "a switch linked to itself", "name another one"));
                }
                for (at, other) in [(from, to), (to, from)] {
                    if !network.switches[at].links.contains(&other) {
                        network.switches[at].links.push(other);
                    }
                }
            }
        }
        network.appliances = self.appliances(&names, appliances)?;
        for raw in hosts {
            let address: IpAddr = self.parsed(&raw.address, "an IP address")?;
            self.one_place(&raw.address, address)?;
            let at = self.find("switch", &names, &raw.at)?;
            network.hosts.push(Host { name: raw.name.get_ref().clone(), at, address });
        }
        Ok(network)
    }

    fn jobs(&self, network: &Network, written: &[RawJob]) -> Checked<Vec<Job>> {
        let names = self.names("job", written.iter().map(|job| &job.name))?;
        let hosts: Names = network.hosts.iter().map(|host| host.name.clone()).zip(0..).collect();
        let mut ids = BTreeSet::new();
        let mut jobs = Vec::new();
        for raw in written {
            let job = self.job(network, &hosts, raw)?;
            self.numbers(raw, &job, &mut ids)?;
            let mut further = job.numbers().skip(1).map(|number| job.tree_name(number));
            if let Some(name) = further.find(|name| names.contains_key(name)) {
                let message = format!("a tree of job {} is called {name:?}, and so is a job", job.id);
                return Err(self.error(&raw.name, message, "give one of these jobs another name"));
            }
            self.roots(network, raw, &job)?;
            jobs.push(job);
        }
        Ok(jobs)
    }

    fn job(&self, network: &Network, hosts: &Names, raw: &RawJob) -> Checked<Job> {
        let written = raw.ranks.get_ref();
        if !(1..=MOST_RANKS).contains(&written.len()) {
            let message = format!("{} ranks", written.len());
            return Err(self.error(&raw.ranks, message, format!("name from 1 to {MOST_RANKS} hosts")));
        }
        let mut ranks = Vec::new();
        for (rank, name) in written.iter().enumerate() {
            let host = self.find("host", hosts, name)?;
            if let Some(other) = ranks.iter().position(|&other| other == host) {
                let message = format!("rank {rank} is host {:?}, as rank {other} is", name.get_ref());
                let remedy = "name each host of a job once; a second rank on it is a host too";
                return Err(self.error(name, message, remedy));
            }
            ranks.push(host);
        }
        if let Some(key) = raw.terms.keys().find(|key| DECIDED.contains(&key.as_str())) {
            let message = format!("terms has {key}, which the tree decides");
            return Err(self.error(&raw.name, message, "leave it out of terms"));
        }
        if let Some((key, _)) = raw.terms.iter().find(|(_, value)| !is_finite(value)) {
            let message = format!("terms has {key}, with a number that is not finite");
            return Err(self.error(&raw.name, message, "write a finite number, or leave it out"));
        }
        let (backups, trees) = (self.backups(raw)?, self.trees(raw)?);
        let shape = self.shape(network, raw)?;
        let (id, name) = (*raw.id.get_ref(), raw.name.get_ref().clone());
        Ok(Job { id, name, ranks, terms: raw.terms.clone(), backups, trees, shape })
    }

    /// As written; by default yes, if workers can turn to another appliance at all.
    fn backups(&self, raw: &RawJob) -> Checked<bool> {
        let Some(what) = with_one_appliance(raw) else {
            return Ok(raw.backups.as_ref().is_none_or(|backups| *backups.get_ref()));
        };
        if let Some(written) = raw.backups.as_ref().filter(|backups| *backups.get_ref()) {
            let message = format!("backups, and terms with {what}: its members know one appliance");
            return Err(self.error(written, message, "leave backups out"));
        }
        Ok(false)
    }

    fn shape(&self, network: &Network, raw: &RawJob) -> Checked<Shape> {
        match (&raw.tree, &raw.plan) {
            (Some(_), Some(plan)) => Err(self.error(plan, "both a tree and a plan", "leave one of them out")),
            (None, None) => Ok(Shape::Nearest),
            (None, Some(plan)) => {
                let directory = self.file.parent().unwrap_or(Path::new("."));
                let text = std::fs::read_to_string(directory.join(plan.get_ref()));
                let text = text.map_err(|error| {
                    let message = format!("{}: {error}", plan.get_ref().display());
                    self.error(plan, message, "write it: pascaline-fleet plan FILE --json > PLAN")
                })?;
                let read = Plan::read(&text);
                read.map(Shape::Planned)
                    .map_err(|Refusal { message, remedy }| self.error(plan, message, remedy))
            }
            (Some(edges), None) => self.written(network, edges).map(Shape::Written),
        }
    }

    fn written(&self, network: &Network, edges: &[RawEdge]) -> Checked<Written> {
        let names: Names =
            network.appliances.iter().map(|appliance| appliance.name.clone()).zip(0..).collect();
        let mut above = BTreeMap::new();
        for RawEdge { appliance, parent } in edges {
            let below = self.find("appliance", &names, appliance)?;
            let to = self.find("appliance", &names, parent)?;
            for (at, written) in [(below, appliance), (to, parent)] {
                if network.appliances[at].spare {
                    let message = format!("appliance {:?} is spare", written.get_ref());
                    let remedy = "a tree has none: they stand in when another fails";
                    return Err(self.error(written, message, remedy));
                }
            }
            if above.insert(below, to).is_some() {
                let message = format!("appliance {:?} has two parents", appliance.get_ref());
                return Err(self.error(parent, message, "name one parent for each appliance"));
            }
            let mut at = to;
            while let Some(&next) = above.get(&at).filter(|_| at != below) {
                at = next;
            }
            if at == below {
                let message =
                    format_args!("{:?} above {:?} makes a loop", parent.get_ref(), appliance.get_ref());
                return Err(self.error(parent, message, "leave one appliance without a parent: the root"));
            }
        }
        Ok(Written(above.into_iter().collect()))
    }
}

/// Whether all numbers are finite: JSON has null in place of others.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.iter().all(is_finite),
        Value::Object(keys) => keys.values().all(is_finite),
        other => !other.is_null(),
    }
}

/// The key of its terms by which a job has only one appliance, if there is such a one.
fn with_one_appliance(raw: &RawJob) -> Option<&'static str> {
    let said = |kind: &str| raw.terms.get("kind").and_then(Value::as_str) == Some(kind);
    let server = raw.terms.get("shared").and_then(|table| table["server"].as_bool()) == Some(true);
    match () {
        () if said("updates") || said("olaf") => Some("kind = \"updates\""),
        () if said("switchml") => Some("kind = \"switchml\""),
        () if said("dsa") || said("atp") => Some("a kind that has a server"),
        () if server => Some("server = true"),
        () => None,
    }
}
