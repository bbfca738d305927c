//! Jobs of SwitchML's own clients.

use std::net::{IpAddr, SocketAddr};

use pascaline_aggregator::{PoolConfig, Region};
use pascaline_pipelines::membership::{JobKind, Registry};
use pascaline_wire::UdpPorts;
use pascaline_wire::switchml::{MOST_WORKERS, PLACES, UDP_PORT};
use serde::Serialize;
use toml::Spanned;
use utoipa::ToSchema;

use super::job::Job;
use super::kind::Scope;
use super::listens::overlap;
use super::values::get;
use super::{Accept, Checked};
use crate::config::{AdminConfig, AdminListen, JobConfig};
use crate::left_out;

keys! {
    /// The keys of kind `switchml`.
    SwitchMl as NewSwitchMl {
        controller: Spanned<String> as String,
        udp_port: Option<Spanned<u16>> as Option<u16>,
        slots: Option<Spanned<u32>> as Option<u32>,
    }
}

impl Accept<'_> {
    /// A job of SwitchML's clients in these slots.
    pub(super) fn switchml(&self, job: &Job, place: Region, scope: Scope<'_>) -> Checked<JobKind> {
        let Some(table) = &job.switchml else {
            return Err(self.error(&job.id, "no [jobs.switchml]", "add it"));
        };
        if self.scene.here && cfg!(not(feature = "switchml")) {
            return Err(self.error(table, left_out::SWITCHML, left_out::REMEDY));
        }
        self.within(Some(&job.fan_in), 0, 1, MOST_WORKERS, "fan_in")?;
        let Scope { pool, own, .. } = scope;
        if pool.ways < 2 {
            let message = "the two sets of a slot need [pool] ways of 2 or more";
            return Err(self.error(table, message, "set ways = 2, 4 or 8"));
        }
        let SwitchMl { udp_port, slots, .. } = table.get_ref();
        let most = PLACES as usize * pool.ways;
        if let Some(at) = slots.as_ref().filter(|slots| *slots.get_ref() as usize > most) {
            let message = format!("a client names {PLACES} slots at the most");
            return Err(self.error(at, message, "give fewer slots"));
        }
        let address = own.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        });
        let Some(address) = address else {
            let message = "SwitchML's clients speak IPv4 only, and the appliance has no such address";
            return Err(self.error(table, message, "add an IPv4 address to [appliance] addresses"));
        };
        let udp_port = udp_port.as_ref().map_or(Ok(UDP_PORT), |port| self.udp_port(port))?;
        Ok(JobKind::Switchml { place, registry: Registry { udp_port, address, slots: place.sets } })
    }

    /// Refuses a window of more slots than such clients may name: each of these has a set of its own.
    pub(super) fn names_enough(&self, job: &Job, pool: &PoolConfig) -> Checked<()> {
        let slots = job.switchml.as_ref().and_then(|table| get(table.get_ref().slots.as_ref()));
        if let (Some(slots), Some(window)) = (slots, &job.window)
            && u32::from(*window.get_ref()) as usize > slots as usize / pool.ways
        {
            let (named, ways) = (slots as usize / pool.ways, pool.ways);
            let message = format!(
                "window = {}: with slots = {slots} and ways = {ways} its clients may name {named} slots",
                window.get_ref()
            );
            let remedy = "raise slots to `ways` times the window or more, or leave it out";
            return Err(self.error(window, message, remedy));
        }
        Ok(())
    }

    /// No two such jobs, nor the appliance itself, listen at the same place.
    pub(super) fn controllers_apart(
        &self,
        jobs: &[Spanned<Job>],
        own: &[IpAddr],
        udp_ports: UdpPorts,
        (page, api): (Option<SocketAddr>, Option<&AdminConfig>),
    ) -> Checked<()> {
        let api = api.and_then(|api| match api.listen.value {
            AdminListen::Tcp(address) => Some(address),
            AdminListen::Unix(_) => None,
        });
        let mut taken: Vec<(SocketAddr, u16)> = Vec::new();
        for table in jobs.iter().filter_map(|job| job.get_ref().switchml.as_ref()) {
            let SwitchMl { controller, udp_port, .. } = table.get_ref();
            let listen = self.listen(controller)?.value;
            let port = get(udp_port.as_ref()).unwrap_or(UDP_PORT);
            let remedy = "choose another port";
            if own.contains(&listen.ip()) {
                let message = format!(
                    "{} is the appliance's own address, at its ports: this machine does not have it",
                    listen.ip()
                );
                return Err(self.error(controller, message, "listen on an address of this machine"));
            }
            let all = taken.iter().map(|(listen, _)| *listen).chain(page).chain(api);
            if let Some(other) = all.into_iter().find(|&other| overlap(listen, other)) {
                return Err(self.error(controller, format_args!("{listen} is in use ({other})"), remedy));
            }
            if udp_ports.has(port) || taken.iter().any(|(_, other)| *other == port) {
                let message = format!("UDP port {port} is taken by another protocol or job");
                return match udp_port {
                    Some(at) => Err(self.error(at, message, remedy)),
                    None => Err(self.error(controller, message, "give the job a udp_port of its own")),
                };
            }
            taken.push((listen, port));
        }
        Ok(())
    }
}

/// A job of SwitchML's clients.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SwitchMlTerms {
    /// Where they register.
    pub(crate) controller: String,
    /// The UDP port that they send to.
    pub(crate) udp_port: u16,
    pub(crate) slots: u64,
}

impl SwitchMlTerms {
    /// A job's, if it is one of theirs.
    pub(super) fn of(job: &JobConfig, slots: u64) -> Option<Self> {
        let (controller, registry) = job.switchml()?;
        Some(Self { controller: controller.value.to_string(), udp_port: registry.udp_port, slots })
    }
}
