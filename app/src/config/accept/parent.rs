//! Jobs whose sums go to another appliance.

use std::net::{IpAddr, SocketAddr};

use pascaline_pipelines::Mode;
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{OnDeath, Parent};
use pascaline_wire::MAX_RANKS;
use pascaline_wire::frame::{Mac, VlanTags};
use toml::Spanned;

use super::{Accept, Checked};
use crate::config::job::JobConfig;
use crate::config::{PortConfig, raw};

/// The UDP port of a parent that names none.
const DEFAULT_PORT: u16 = 16420;

impl Accept<'_> {
    /// The jobs with the parents that are written.
    pub(super) fn parents(
        &self,
        written: &[Spanned<raw::Job>],
        mut jobs: Vec<JobConfig>,
        ports: &[PortConfig],
        own: (&[IpAddr], u16),
    ) -> Checked<Vec<JobConfig>> {
        for (written, job) in written.iter().map(Spanned::get_ref).zip(&mut jobs) {
            let Some(table) = &written.parent else { continue };
            if let Some((what, remedy)) = objection(job) {
                let message = format!("a job with a parent cannot have {what}");
                return Err(self.error(table, message, remedy));
            }
            let parent = self.parent(table.get_ref(), ports, own)?;
            if job.members.iter().flatten().any(|member| parent.endpoint.address == (*member).into()) {
                let message = format!("a loop: {} is one of the job's members, too", parent.endpoint.address);
                let remedy = "name the appliance above: sums that went round would never be complete";
                return Err(self.error(&table.get_ref().address, message, remedy));
            }
            job.parent = Some(parent);
        }
        Ok(jobs)
    }

    fn parent(
        &self,
        table: &raw::Parent,
        ports: &[PortConfig],
        (own, udp_port): (&[IpAddr], u16),
    ) -> Checked<Parent> {
        let at = self.parent_address(&table.address, own)?;
        let ranks = self.within(Some(&table.ranks), 0, 1, MAX_RANKS, "ranks")?;
        let rank = self.within(Some(&table.rank), 0, 0, ranks - 1, "rank")?;
        let port = match &table.port {
            None => 0,
            Some(name) => ports.iter().position(|port| port.name == *name.get_ref()).ok_or_else(|| {
                let message = format!("there is no port called {:?}", name.get_ref());
                self.error(name, message, "name the port that leads to the parent")
            })?,
        };
        let same_family = |own: &&IpAddr| own.is_ipv4() == at.is_ipv4();
        let local = match &table.from {
            None => own.iter().find(same_family).copied(),
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
        let endpoint = Endpoint {
            port,
            mac: self.mac(&table.mac)?,
            vlan: VlanTags::NONE,
            address: at.ip().into(),
            udp_port: at.port(),
            local: local.into(),
            local_udp_port: udp_port,
        };
        Ok(Parent { endpoint, rank, ranks })
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
        if !whole || parts.next().is_some() || bytes[0] & 1 == 1 {
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
    if job.mode == Mode::Olaf {
        Some(("mode = \"olaf\": updates do not go over several appliances", "set mode = \"sync\""))
    } else if job.switchml.is_some() {
        Some(("protocol = \"switchml\": its clients know one appliance", "set protocol = \"pascaline\""))
    } else if job.policy.server {
        Some(("a parameter server: a sum that it makes would not go up", "set server = false, or a region"))
    } else if job.needed < job.fan_in || job.partials || job.policy.partial_after > 0 {
        Some((
            "partial results: who is inside would be lost on the way up",
            "leave the threshold, \
            partial_after and the profiles \"iswitch\" and \"panama\" out",
        ))
    } else if job.on_death == OnDeath::Continue {
        Some(("on_death = \"continue\": a sum that lacks ranks would not say so", "set on_death = \"fail\""))
    } else {
        None
    }
}
