//! Where the appliance listens: UDP ports for gradients, TCP ports for pages and the admin API.

use std::net::{IpAddr, SocketAddr};

use pascaline_wire::ports::UdpPortsError;
use pascaline_wire::{DEFAULT_PORT, UdpPorts};
use toml::Spanned;

use super::job::Job;
use super::values::get;
use super::{Accept, Checked};
use crate::config::{AdminConfig, AdminListen, Located, raw};

/// RoCE v2's: NICs take its packets for themselves.
pub(super) const ROCE: u16 = 4791;

impl Accept<'_> {
    /// What tells the appliance's packets from others: the UDP ports, and the DSCP if there is one.
    pub(super) fn recognised(&self, appliance: &raw::Appliance) -> Checked<(UdpPorts, Option<u8>)> {
        let udp_ports = self.udp_ports(appliance.udp_port.as_ref(), appliance.udp_ports.as_ref())?;
        Ok((udp_ports, appliance.dscp.as_ref().map(|dscp| self.dscp(dscp)).transpose()?))
    }

    fn udp_ports(&self, first: Option<&Spanned<u16>>, count: Option<&Spanned<u16>>) -> Checked<UdpPorts> {
        if let Some(first) = first {
            self.udp_port(first)?;
        }
        let port = get(first).unwrap_or(DEFAULT_PORT);
        let Some(count) = count else { return Ok(UdpPorts::single(port)) };
        let ports = UdpPorts::new(port, *count.get_ref()).map_err(|error| match (error, first) {
            (UdpPortsError::First { count, .. }, Some(first)) => {
                let below = (port - port % count).max(count);
                self.error(first, error, &format!("e.g. udp_port = {below}"))
            }
            (UdpPortsError::First { count: many, .. }, None) => {
                let below = port - port % many;
                self.error(count, error, &format!("give udp_port as well, e.g. udp_port = {below}"))
            }
            (UdpPortsError::Count { .. }, _) => {
                self.error(count, error, "the number of lcores, or a multiple: 1, 2, 4, 8, 16, 32 or 64")
            }
        })?;
        if ports.has(ROCE) {
            let message = format!("UDP port {ROCE} is among them, which NICs take for RoCE");
            return Err(self.error(count, message, "choose ports from another udp_port on, e.g. 16384"));
        }
        Ok(ports)
    }

    /// A DSCP that tells the appliance's packets from others.
    fn dscp(&self, written: &Spanned<u16>) -> Checked<u8> {
        let what = match u8::try_from(*written.get_ref()) {
            Ok(0) => "DSCP 0 is that of all unmarked packets".to_owned(),
            Ok(dscp @ 1..=63) => return Ok(dscp),
            _ => format!("there is no DSCP {}: it has 6 bits", written.get_ref()),
        };
        let remedy =
            "give one from 1 to 63, e.g. dscp = 46, or leave it out: then the UDP port decides alone";
        Err(self.error(written, what, remedy))
    }

    /// A UDP port that packets can be sent to.
    pub(super) fn udp_port(&self, written: &Spanned<u16>) -> Checked<u16> {
        let what = match *written.get_ref() {
            0 => "UDP port 0 cannot be listened on".to_owned(),
            ROCE => format!("UDP port {ROCE} is RoCE's: NICs take its packets for themselves"),
            port => return Ok(port),
        };
        Err(self.error(written, what, "choose another port from 1 to 65535, e.g. 16420"))
    }

    /// Where a process of this machine listens for TCP.
    pub(super) fn listen(&self, written: &Spanned<String>) -> Checked<Located<SocketAddr>> {
        let usual = "write address and port, e.g. \"127.0.0.1:9464\"";
        let address: SocketAddr = written
            .get_ref()
            .parse()
            .map_err(|error| self.error(written, format_args!("{:?}: {error}", written.get_ref()), usual))?;
        let ip = address.ip();
        if address.port() == 0 {
            let message = format!("{:?}: that would be an unknown port", written.get_ref());
            return Err(self.error(written, message, "choose a port from 1 to 65535, e.g. 9464"));
        }
        if ip.is_multicast() || ip == IpAddr::from([255; 4]) {
            return Err(self.error(written, format_args!("{ip} is no address of this machine"), usual));
        }
        Ok(self.locate(written, address))
    }

    /// No two of them are in each other's way, nor on an address that is not this machine's.
    pub(super) fn listens_apart(
        &self,
        own: &[IpAddr],
        page: Option<(&Spanned<String>, SocketAddr)>,
        api: Option<(&raw::Admin, &AdminConfig)>,
        (jobs, udp_ports): (&[Spanned<Job>], UdpPorts),
    ) -> Checked<()> {
        let at = (page.map(|(_, address)| address), api.map(|(_, accepted)| accepted));
        self.controllers_apart(jobs, own, udp_ports, at)?;
        let api = api.and_then(|(written, accepted)| match accepted.listen.value {
            AdminListen::Tcp(address) => Some((&written.listen, address)),
            AdminListen::Unix(_) => None,
        });
        for (written, address) in page.iter().chain(&api) {
            if own.contains(&address.ip()) {
                let message = format!(
                    "{} is the appliance's own address, at its ports: this machine does not have it",
                    address.ip()
                );
                let remedy = "listen on an address of this machine, e.g. 127.0.0.1 or 0.0.0.0";
                return Err(self.error(written, message, remedy));
            }
        }
        if let (Some((_, page)), Some((written, api))) = (page, api)
            && overlap(page, api)
        {
            let message = format!("{api} is where [telemetry] listens ({page})");
            return Err(self.error(written, message, "choose another port, e.g. 9466"));
        }
        Ok(())
    }
}

/// Whether who listens at one of them keeps others from the other.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let any = |address: IpAddr, like: IpAddr| {
        // The IPv6 one takes IPv4 as well.
        address.is_unspecified() && (address.is_ipv6() || like.is_ipv4())
    };
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && (a == b || any(a, b) || any(b, a))
}
