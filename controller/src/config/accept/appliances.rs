//! Appliances: where they are, and how they are told what to do.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use toml::Spanned;

use super::{Accept, Checked, Names};
use crate::config::RawAppliance;
use crate::network::Appliance;

const UDP_PORT: u16 = 16420;

impl Accept<'_> {
    pub(super) fn appliances(&self, switches: &Names, all: &[RawAppliance]) -> Checked<Vec<Appliance>> {
        let (mut addresses, mut admins) = (BTreeSet::new(), BTreeSet::new());
        let mut appliances = Vec::new();
        for raw in all {
            let appliance = self.appliance(switches, raw)?;
            let double = [
                (&raw.address, !addresses.insert(appliance.address)),
                (&raw.admin, !admins.insert(appliance.admin.clone())),
            ];
            if let Some((written, _)) = double.iter().find(|(_, double)| *double) {
                let message = format!("another appliance is at {} as well", written.get_ref());
                return Err(self.error(written, message, "give each appliance its own"));
            }
            appliances.push(appliance);
        }
        Ok(appliances)
    }

    fn appliance(&self, switches: &Names, raw: &RawAppliance) -> Checked<Appliance> {
        let address = match raw.address.get_ref().parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, UDP_PORT),
            Err(_) => self.parsed(&raw.address, "an address, or an address and a port")?,
        };
        self.one_place(&raw.address, address.ip())?;
        self.admin(&raw.admin, raw.ca.is_some())?;
        Ok(Appliance {
            name: raw.name.get_ref().clone(),
            at: self.find("switch", switches, &raw.at)?,
            address,
            admin: raw.admin.get_ref().clone(),
            token_file: raw.token_file.clone(),
            ca: raw.ca.clone(),
            mac: self.mac(raw.mac.as_ref())?,
            router: self.mac(raw.router.as_ref())?,
            port: raw.port.clone(),
            spare: raw.spare,
        })
    }

    /// An address that packets can be sent to.
    pub(super) fn one_place(&self, written: &Spanned<String>, address: IpAddr) -> Checked<()> {
        if address.is_unspecified() || address.is_multicast() {
            let message = format!("{address} is not the address of one machine");
            return Err(self.error(written, message, "write the address that packets are to go to"));
        }
        Ok(())
    }

    /// Six bytes.
    fn mac(&self, written: Option<&Spanned<String>>) -> Checked<Option<String>> {
        let Some(written) = written else { return Ok(None) };
        let byte = |byte: &str| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok();
        let text = written.get_ref();
        if text.split(':').count() != 6 || !text.split(':').all(byte) {
            let message = format!("{text:?} is not a MAC address");
            return Err(self.error(written, message, "write e.g. \"02:00:00:00:82:fe\""));
        }
        Ok(Some(text.clone()))
    }

    /// A socket, or a host and a port; TLS takes a `ca` to know the appliance by.
    fn admin(&self, written: &Spanned<String>, ca: bool) -> Checked<()> {
        let text = written.get_ref();
        if text.strip_prefix("unix:").is_some_and(|path| !path.is_empty()) {
            return Ok(());
        }
        let (rest, port_is_known) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(_), _) if !ca => {
                let message = format!("{text} speaks TLS, and there is no ca to know the appliance by");
                return Err(self.error(written, message, "write ca = FILE beside it"));
            }
            (Some(rest), _) | (_, Some(rest)) => (rest, true),
            (None, None) => (text.as_str(), false),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let port = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let host = port.map_or(rest, |(host, _)| host);
        let has_port = port.map_or(port_is_known, |(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
        if has_port && !host.is_empty() && !host.contains('/') && !host.contains(char::is_whitespace) {
            return Ok(());
        }
        let message = format!("{text:?} is no admin API");
        Err(self.error(written, message, "write unix:PATH, ADDRESS:PORT or https://HOST:PORT"))
    }
}
