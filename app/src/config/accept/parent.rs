//! Jobs whose sums go to another appliance.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{self, JobKind, JobSpec, OnDeath};
use pascaline_wire::MAX_RANKS;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use serde::Serialize;
use toml::Spanned;
use utoipa::ToSchema;

use super::job::Job;
use super::{Accept, Checked};
use crate::config::PortConfig;
use crate::config::job::JobConfig;
use crate::config::words::{Named, Security};

/// The UDP port of a parent that names none.
const DEFAULT_PORT: u16 = 16420;

/// The appliance's own addresses, its UDP port, and the DSCP of its packets if they have to have one.
type Own<'a> = (&'a [IpAddr], u16, Option<u8>);

keys! {
    /// The keys of `parent`. `address`, `rank` and `ranks` are needed where there is none yet.
    Parent as NewParent {
        /// An address, or an address and a UDP port.
        address: Spanned<String> as Option<String>,
        rank: Spanned<u16> as Option<u16>,
        ranks: Spanned<u16> as Option<u16>,
        /// That of the parent's port, or of the router on the way; asked for if it is left out.
        mac: Option<Spanned<String>> as Option<String>,
        /// The router on the way, whose MAC is asked for in place of the parent's.
        via: Option<Spanned<String>> as Option<String>,
        port: Option<Spanned<String>> as Option<String>,
        from: Option<Spanned<String>> as Option<String>,
        /// Packets to and from it, and its backups, are sealed: `mac` or `encrypt`.
        security: Option<Spanned<Named<Security>>> as Option<String>,
        /// The key of the job there, or of this appliance's rank.
        key_file: Option<Spanned<String>> as Option<String>,
        backups: Option<Vec<Spanned<Backup>>> as Option<Vec<NewBackup>>,
    }

    /// The keys of a backup: what differs from the parent.
    Backup as NewBackup {
        address: Spanned<String> as String,
        rank: Option<Spanned<u16>> as Option<u16>,
        ranks: Option<Spanned<u16>> as Option<u16>,
        mac: Option<Spanned<String>> as Option<String>,
        via: Option<Spanned<String>> as Option<String>,
        port: Option<Spanned<String>> as Option<String>,
        from: Option<Spanned<String>> as Option<String>,
    }
}

impl Parent {
    /// What it says, as a backup would.
    fn first(&self) -> Backup {
        let Self { address, rank, ranks, mac, via, port, from, .. } = self;
        Backup {
            address: address.clone(),
            rank: Some(rank.clone()),
            ranks: Some(ranks.clone()),
            mac: mac.clone(),
            via: via.clone(),
            port: port.clone(),
            from: from.clone(),
        }
    }
}

impl Accept<'_> {
    /// The jobs with the parents that are written.
    pub(super) fn parents(
        &self,
        written: &[Spanned<Job>],
        mut jobs: Vec<JobConfig>,
        ports: &[PortConfig],
        own: Own<'_>,
    ) -> Checked<Vec<JobConfig>> {
        for (written, job) in written.iter().map(Spanned::get_ref).zip(&mut jobs) {
            let Some(table) = &written.parent else { continue };
            if let Some((what, remedy)) = objection(job) {
                let message = format!("a job with a parent cannot have {what}");
                return Err(self.error(table, message, remedy));
            }
            let parent = self.above(job, &table.get_ref().first(), None, (ports, own))?;
            job.spec.parent = Some(parent);
            for written in table.get_ref().backups.iter().flatten() {
                if job.updates() {
                    let message = "a backup of a parent, and kind = \"updates\": the model is at one \
                        parameter server, which registers at one appliance";
                    let remedy = "leave backups out, or choose another kind";
                    return Err(self.error(written, message, remedy));
                }
                let backup = self.above(job, written.get_ref(), Some(&parent), (ports, own))?;
                job.spec.backups.push(backup);
            }
            (job.parent_key_file, job.spec.keys_above) = self.keys_above(table, &job.spec)?;
        }
        Ok(jobs)
    }

    /// A parent, or a backup of one, which is like that in what is not written.
    fn above(
        &self,
        job: &JobConfig,
        written: &Backup,
        first: Option<&membership::Parent>,
        (ports, own): (&[PortConfig], Own<'_>),
    ) -> Checked<membership::Parent> {
        let parent = self.parent(written, first, ports, own)?;
        let at = |other: &membership::Parent| (other.endpoint.address, other.endpoint.udp_port);
        if job.spec.admitted.iter().flatten().any(|member| parent.endpoint.address == *member) {
            let message = format!("a loop: {} is one of the job's members, too", parent.endpoint.address);
            let remedy = "name the appliance above: sums that went round would never be complete";
            return Err(self.error(&written.address, message, remedy));
        }
        if job.spec.parent.iter().chain(&job.spec.backups).any(|other| at(other) == at(&parent)) {
            let message = format!("{} is named twice", parent.endpoint.address);
            let remedy = "name another appliance: one cannot take its own place";
            return Err(self.error(&written.address, message, remedy));
        }
        Ok(parent)
    }

    fn parent(
        &self,
        table: &Backup,
        first: Option<&membership::Parent>,
        ports: &[PortConfig],
        (own, udp_port, dscp): Own<'_>,
    ) -> Checked<membership::Parent> {
        let at = self.parent_address(&table.address, own)?;
        let (rank, ranks) = first.map_or((0, 1), |first| (first.rank, first.ranks));
        let ranks = self.within(table.ranks.as_ref(), ranks, 1, MAX_RANKS, "ranks")?;
        if table.rank.is_none() && rank >= ranks {
            let message = format!("rank {rank} of the parent is none of {ranks} ranks");
            return Err(self.error(&table.address, message, "write the rank there, too"));
        }
        let rank = self.within(table.rank.as_ref(), rank, 0, ranks - 1, "rank")?;
        let port = match &table.port {
            None => first.map_or(0, |first| first.endpoint.port),
            Some(name) => ports.iter().position(|port| port.name == *name.get_ref()).ok_or_else(|| {
                let message = format!("there is no port called {:?}", name.get_ref());
                self.error(name, message, "name the port that leads to the parent")
            })?,
        };
        let same_family = |own: &&IpAddr| own.is_ipv4() == at.is_ipv4();
        let inherited = first.map(|first| IpAddr::from(first.endpoint.local)).filter(|own| same_family(&own));
        let local = match &table.from {
            None => inherited.or_else(|| own.iter().find(same_family).copied()),
            Some(from) => {
                let address = self.address(from)?;
                if !own.contains(&address) || address.is_ipv4() != at.is_ipv4() {
                    let message = format!("{address} is no own address of the parent's family");
                    return Err(self.error(from, message, "name one of [appliance] addresses"));
                }
                Some(address)
            }
        };
        let Some(local) = local else {
            let remedy = "give the appliance an address of the same family";
            return Err(self.error(&table.address, "no address to talk to the parent from", remedy));
        };
        let (mac, next_hop) = self.next_hop(table, first, at, own)?;
        let endpoint = Endpoint {
            port,
            mac,
            vlan: VlanTags::NONE,
            address: at.ip().into(),
            udp_port: at.port(),
            local: local.into(),
            local_udp_port: udp_port,
            dscp: dscp.unwrap_or_default(),
        };
        Ok(membership::Parent { endpoint, rank, ranks, next_hop })
    }

    /// The MAC that packets go to, or the address whose MAC is asked for: the router's that is written, or
    /// the parent's own.
    fn next_hop(
        &self,
        table: &Backup,
        first: Option<&membership::Parent>,
        at: SocketAddr,
        own: &[IpAddr],
    ) -> Checked<(Mac, Option<Address>)> {
        let asked = |address: IpAddr| Ok((Mac::default(), Some(Address::from(address))));
        match (&table.mac, &table.via, first) {
            (Some(_), Some(via), _) => {
                let message = "mac and via: both say whose MAC packets to the parent go to";
                Err(self.error(via, message, "leave mac out to have the MAC of via asked for, or via"))
            }
            (Some(mac), None, _) => Ok((self.mac(mac)?, None)),
            (None, Some(via), _) => {
                let address = self.peer(via, own, "a router")?;
                if address.is_ipv4() != at.is_ipv4() {
                    let message = format!("the way to {} by {address}, of another family", at.ip());
                    return Err(self.error(via, message, "write the router's address of the same family"));
                }
                asked(address)
            }
            (None, None, Some(&membership::Parent { endpoint, next_hop: None, .. })) => {
                Ok((endpoint.mac, None))
            }
            // By the same router, if that is what was written.
            (None, None, Some(&membership::Parent { endpoint, next_hop: Some(hop), .. }))
                if hop != endpoint.address && IpAddr::from(hop).is_ipv4() == at.is_ipv4() =>
            {
                asked(hop.into())
            }
            (None, None, _) => asked(at.ip()),
        }
    }

    /// An address, or an address and a port.
    fn parent_address(&self, written: &Spanned<String>, own: &[IpAddr]) -> Checked<SocketAddr> {
        let text = written.get_ref();
        let (host, port) = match text.parse::<SocketAddr>() {
            Ok(at) => (at.ip().to_string(), at.port()),
            Err(_) => (text.clone(), DEFAULT_PORT),
        };
        let address = self.peer(&Spanned::new(written.span(), host), own, "a parent")?;
        if port == 0 {
            return Err(self.error(written, "a parent at UDP port 0", "name the port that it listens on"));
        }
        Ok(SocketAddr::new(address, port))
    }

    fn mac(&self, written: &Spanned<String>) -> Checked<Mac> {
        let mut bytes = [0; 6];
        let mut parts = written.get_ref().split(':');
        let whole = bytes.iter_mut().all(|byte| {
            let parsed = parts.next().filter(|part| part.len() == 2).map(|part| u8::from_str_radix(part, 16));
            parsed.is_some_and(|parsed| {
                parsed.is_ok_and(|parsed| {
                    *byte = parsed;
                    true
                })
            })
        });
        if !whole || parts.next().is_some() || bytes[0] & 1 == 1 || bytes == [0; 6] {
            let message = format!("{:?} is no MAC of a host", written.get_ref());
            let remedy =
                "write that of the parent's port, or of the router on the way, e.g. \"02:00:00:00:00:fe\"";
            return Err(self.error(written, message, remedy));
        }
        Ok(Mac(bytes))
    }
}

/// What a job has whose sums cannot go up; and what to do about it.
fn objection(job: &JobConfig) -> Option<(&'static str, &'static str)> {
    match job.spec.kind {
        _ if job.serves_sums() => Some((
            "a parameter server: a sum that it makes would not go up",
            "set server = false in [jobs.shared]",
        )),
        JobKind::Early { .. } => {
            Some(("partial results: who is inside would be lost on the way up", "choose kind = \"region\""))
        }
        _ if job.spec.on_death == OnDeath::Continue => Some((
            "on_death = \"continue\": a sum that lacks ranks would not say so",
            "set on_death = \"fail\"",
        )),
        _ => None,
    }
}

/// The appliance above.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ParentTerms {
    /// Address and UDP port.
    pub(crate) address: String,
    /// This appliance's rank in the job there.
    pub(crate) rank: u16,
    /// The ranks of the job there.
    pub(crate) ranks: u16,
    /// The MAC that is written for the way there.
    pub(crate) mac: Option<String>,
    /// The address whose MAC is asked for in its place.
    pub(crate) via: Option<String>,
    /// Addresses and UDP ports of those that take its place.
    pub(crate) backups: Vec<String>,
    /// The protection of packets to and from it: `none`, `mac` or `encrypt`.
    pub(crate) security: String,
}

/// A job's, for the admin API.
pub(super) fn terms(spec: &JobSpec) -> Option<ParentTerms> {
    let address = |parent: &membership::Parent| {
        SocketAddr::new(parent.endpoint.address.into(), parent.endpoint.udp_port).to_string()
    };
    spec.parent.as_ref().map(|parent| ParentTerms {
        address: address(parent),
        rank: parent.rank,
        ranks: parent.ranks,
        mac: parent.next_hop.is_none().then(|| parent.endpoint.mac.to_string()),
        via: parent.next_hop.map(|hop| hop.to_string()),
        backups: spec.backups.iter().map(address).collect(),
        security: security(spec).to_owned(),
    })
}

/// The same for `pascaline check`.
pub(super) fn show(job: &JobConfig, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(membership::Parent { endpoint, rank, ranks, next_hop }) = job.spec.parent else { return Ok(()) };
    let what = if job.updates() { "updates" } else { "sums" };
    let (address, port) = (endpoint.address, endpoint.udp_port);
    write!(f, "    its {what} go to {address} port {port}, as rank {rank} of {ranks}")?;
    match next_hop {
        Some(hop) => write!(f, ", by the MAC that {hop} answers")?,
        None => write!(f, ", by {}", endpoint.mac)?,
    }
    writeln!(f, "; security {}", security(&job.spec))
}

/// How packets to and from the parents are protected.
fn security(spec: &JobSpec) -> &'static str {
    spec.keys_above.first().map_or("none", |keys| keys.protection().name())
}
