//! Jobs of SwitchML's own clients.

use std::net::{IpAddr, SocketAddr};

use pascaline_aggregator::PoolConfig;
use pascaline_pipelines::Mode;
use pascaline_wire::UdpPorts;
use pascaline_wire::switchml::{MOST_WORKERS, PLACES, UDP_PORT};
use toml::Spanned;

use super::listens::overlap;
use super::values::{get, word};
use super::{Accept, Checked};
use crate::config::job::SwitchMlConfig;
use crate::config::profile::Profile;
use crate::config::words::Protocol;
use crate::config::{AdminConfig, AdminListen, ConfigError, raw};
use crate::left_out;

/// True if the job's workers are clients of SwitchML's.
pub(super) fn is_switchml(job: &raw::Job) -> bool {
    word(job.protocol.as_ref()) == Some(Protocol::Switchml)
}

impl Accept<'_> {
    /// What such a job has of its own; nothing for any other.
    pub(super) fn switchml(
        &self,
        job: &raw::Job,
        pool: &PoolConfig,
        own: &[IpAddr],
    ) -> Checked<Option<SwitchMlConfig>> {
        let Some(protocol) = job.protocol.as_ref().filter(|_| is_switchml(job)) else {
            return self.no_switchml(job);
        };
        if self.here && cfg!(not(feature = "switchml")) {
            return Err(self.error(protocol, left_out::SWITCHML, left_out::REMEDY));
        }
        if let Some(error) = self.useless(job) {
            return Err(error);
        }
        self.within(Some(&job.fan_in), 0, 1, MOST_WORKERS, "fan_in")?;
        if pool.ways < 2 {
            let message = "the two sets of a slot need [pool] ways of 2 or more";
            return Err(self.error(protocol, message, "set ways = 2, 4 or 8"));
        }
        // Each slot that can be named has a set of its own.
        if let (Some(slots), Some(window)) = (get(job.region_slots.as_ref()), &job.window)
            && u32::from(*window.get_ref()) as usize > slots as usize / pool.ways
        {
            let (named, ways) = (slots as usize / pool.ways, pool.ways);
            let message = format!(
                "window = {}: with region_slots = {slots} and ways = {ways} its clients may name {named} \
                    slots",
                window.get_ref()
            );
            let remedy = "raise region_slots to `ways` times the window or more, or leave it out";
            return Err(self.error(window, message, remedy));
        }
        let most = PLACES as usize * pool.ways;
        if let Some(at) = job.region_slots.as_ref().filter(|slots| *slots.get_ref() as usize > most) {
            let message = format!("a client names {PLACES} slots at the most");
            return Err(self.error(at, message, "give a smaller region_slots"));
        }
        let address = own.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        });
        let Some(address) = address else {
            let message = "SwitchML's clients speak IPv4 only, and the appliance has no such address";
            return Err(self.error(protocol, message, "add an IPv4 address to [appliance] addresses"));
        };
        let Some(controller) = &job.controller else {
            let message = "its clients ask a controller before they send, and there is none";
            let remedy = "add controller = \"ADDRESS:50099\", an address of this machine that they can reach";
            return Err(self.error(protocol, message, remedy));
        };
        Ok(Some(SwitchMlConfig {
            controller: self.listen(controller)?,
            udp_port: job.udp_port.as_ref().map_or(Ok(UDP_PORT), |port| self.udp_port(port))?,
            address,
        }))
    }

    fn no_switchml(&self, job: &raw::Job) -> Checked<Option<SwitchMlConfig>> {
        let remedy = "add protocol = \"switchml\", or leave it out";
        let of = "is for jobs of SwitchML's clients";
        match (&job.controller, &job.udp_port) {
            (Some(at), _) => Err(self.error(at, format_args!("controller {of}"), remedy)),
            (_, Some(at)) => Err(self.error(at, format_args!("udp_port {of}"), remedy)),
            (None, None) => Ok(None),
        }
    }

    /// The first key that says nothing in such a job.
    fn useless(&self, job: &raw::Job) -> Option<ConfigError> {
        let mode = job.mode.as_ref().filter(|mode| mode.get_ref().0 != Mode::Sync);
        let profile = job.profile.as_ref().filter(|profile| profile.get_ref().0 != Profile::Switchml);
        let useless = [
            mode.map(|at| self.meaningless(at, "mode")),
            profile.map(|at| self.meaningless(at, "profile")),
            job.members.as_ref().map(|at| self.meaningless(at, "members")),
            job.max_ranks_per_host.as_ref().map(|at| self.meaningless(at, "max_ranks_per_host")),
            job.addressing.as_ref().map(|at| self.meaningless(at, "addressing")),
            job.conflict.as_ref().map(|at| self.meaningless(at, "conflict")),
            job.threshold.as_ref().map(|at| self.meaningless(at, "threshold")),
            job.partial_after.as_ref().map(|at| self.meaningless(at, "partial_after")),
            job.order.as_ref().map(|at| self.meaningless(at, "order")),
            job.quota.as_ref().map(|at| self.meaningless(at, "quota")),
            job.server.as_ref().map(|at| self.meaningless(at, "server")),
            job.dead_after.as_ref().map(|at| self.meaningless(at, "dead_after")),
            job.on_death.as_ref().map(|at| self.meaningless(at, "on_death")),
            job.control.as_ref().map(|at| self.meaningless(at, "control")),
            job.congestion.as_ref().map(|at| self.meaningless(at, "congestion")),
            job.multicast.as_ref().map(|at| self.meaningless(at, "multicast")),
        ];
        useless.into_iter().flatten().next()
    }

    fn meaningless<T>(&self, at: &Spanned<T>, key: &str) -> ConfigError {
        let message = format!("{key} means nothing to SwitchML's clients");
        self.error(at, message, "leave it out, or leave protocol out")
    }

    /// No two such jobs, nor the appliance itself, listen at the same place.
    pub(super) fn controllers_apart(
        &self,
        jobs: &[Spanned<raw::Job>],
        own: &[IpAddr],
        udp_ports: UdpPorts,
        (page, api): (Option<SocketAddr>, Option<&AdminConfig>),
    ) -> Checked<()> {
        let api = api.and_then(|api| match api.listen.value {
            AdminListen::Tcp(address) => Some(address),
            AdminListen::Unix(_) => None,
        });
        let mut taken: Vec<(SocketAddr, u16)> = Vec::new();
        for job in jobs.iter().map(Spanned::get_ref).filter(|job| is_switchml(job)) {
            let Some(controller) = &job.controller else { continue };
            let listen = self.listen(controller)?.value;
            let port = get(job.udp_port.as_ref()).unwrap_or(UDP_PORT);
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
                return match &job.udp_port {
                    Some(at) => Err(self.error(at, message, remedy)),
                    None => Err(self.error(controller, message, "give the job a udp_port of its own")),
                };
            }
            taken.push((listen, port));
        }
        Ok(())
    }
}
