//! Appliances: their places and configuration.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;
use toml::Spanned;

use super::{Accept, Checked, Names};
use crate::config::RawAppliance;
use crate::network::Appliance;

const UDP_PORT: u16 = 16420;

impl Accept<'_> {
    pub(super) fn appliances(&self, switches: &Names, all: &[RawAppliance]) -> Checked<Vec<Appliance>> {
        let mut places = BTreeSet::new();
        let appliance = |raw: &RawAppliance| {
            let appliance = self.appliance(switches, raw)?;
            let address = (&raw.address, appliance.address.to_string());
            for (written, place) in [address, (&raw.admin, appliance.admin.clone())] {
                if !places.insert(place) {
                    let message = format!("another appliance is at {} as well", written.get_ref());
                    return Err(self.error(written, message, "give each appliance its own"));
                }
            }
            Ok(appliance)
        };
        all.iter().map(appliance).collect()
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
        let text = written.get_ref();
        let byte = |byte: &str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
        if text.split(':').filter(|part| byte(part)).count() != 6 || text.len() != 17 {
            let message = format!("{text:?} is not a MAC address");
            return Err(self.error(written, message, "write e.g. \"02:00:00:00:82:fe\""));
        }
        Ok(Some(text.clone()))
    }

    /// A socket, or a host and a port; TLS needs a `ca` to authenticate the appliance.
    fn admin(&self, written: &Spanned<String>, ca: bool) -> Checked<()> {
        let text = written.get_ref();
        let good = |uri: &Uri| {
            let complete = match uri.scheme_str() {
                None => uri.port_u16().is_some_and(|port| port > 0),
                scheme => matches!(scheme, Some("http" | "https")),
            };
            complete && uri.host().is_some_and(|host| !host.is_empty()) && matches!(uri.path(), "" | "/")
        };
        match text.parse::<Uri>().ok().filter(good) {
            Some(uri) if uri.scheme_str() == Some("https") && !ca => {
                let message = format!("{text} speaks TLS, and there is no ca to know the appliance by");
                Err(self.error(written, message, "write ca = FILE beside it"))
            }
            None if text.strip_prefix("unix:").is_none_or(str::is_empty) => {
                let message = format!("{text:?} is no admin API");
                Err(self.error(written, message, "write unix:PATH, ADDRESS:PORT or https://HOST:PORT"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
