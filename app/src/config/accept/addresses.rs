//! Which addresses hosts can have.

use std::net::IpAddr;

use toml::Spanned;

use super::{Accept, Checked};

/// Why no host has an address that others could send to; and what to do about it.
fn objection(address: IpAddr) -> Option<(&'static str, String)> {
    let usual =
        || "write the address that packets are sent to, e.g. \"10.77.0.254\" or \"fd77::254\"".to_owned();
    let (v4, v6) = match address {
        IpAddr::V4(v4) => (v4, None),
        IpAddr::V6(v6) => (std::net::Ipv4Addr::new(10, 0, 0, 1), Some(v6)),
    };
    let what = if address.is_unspecified() {
        "stands for no host, or for any"
    } else if address.is_loopback() {
        "is a loopback address, which never leaves its host"
    } else if address.is_multicast() {
        "is a multicast address, no host's"
    } else if v4.is_broadcast() {
        "is the broadcast address, no host's"
    } else if v4.octets()[0] == 0 || v4.octets()[0] >= 240 {
        "is reserved, no host's"
    } else if let Some(v4) = v6.and_then(|v6| v6.to_ipv4()) {
        return Some(("is an IPv4 address in the form of an IPv6 one", format!("write \"{v4}\"")));
    } else if v6.is_some_and(|v6| v6.is_unicast_link_local()) {
        return Some((
            "is link-local: it means nothing without the interface, which the wire does not carry",
            "give the host a unique local or a global address as well, e.g. \"fd77::254\"".to_owned(),
        ));
    } else {
        return None;
    };
    Some((what, usual()))
}

impl Accept<'_> {
    /// An address that a host can have.
    pub(super) fn host(&self, written: &Spanned<String>) -> Checked<IpAddr> {
        if let Some((address, zone)) = written.get_ref().split_once('%') {
            let message = format!("{:?}: an address with a zone, {zone:?}", written.get_ref());
            let remedy = format!(
                "zones mean nothing on the wire: instead of {address}, use a unique local or a global \
                    address, e.g. \"fd77::254\""
            );
            return Err(self.error(written, message, &remedy));
        }
        let address = self.address(written)?;
        match objection(address).filter(|_| !(self.no_wire && address.is_loopback())) {
            Some((what, remedy)) => Err(self.error(written, format_args!("{address} {what}"), &remedy)),
            None => Ok(address),
        }
    }

    /// The appliance's own.
    pub(super) fn addresses(&self, written: &Spanned<Vec<Spanned<String>>>) -> Checked<Vec<IpAddr>> {
        if written.get_ref().is_empty() {
            return Err(self.error(written, "the appliance has no address", "give at least one IP address"));
        }
        let mut addresses = Vec::new();
        for text in written.get_ref() {
            let address = self.host(text)?;
            if addresses.contains(&address) {
                let message = format_args!("{address} is in the list already");
                return Err(self.error(text, message, "write each address once"));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// One that the appliance, which has these, talks to.
    pub(super) fn peer(&self, written: &Spanned<String>, own: &[IpAddr], what: &str) -> Checked<IpAddr> {
        let address = self.host(written)?;
        if own.contains(&address) {
            let message = format_args!("{what} at {address}, which is the appliance's own address");
            let remedy = "give the host's own address; the appliance answers for its addresses alone";
            return Err(self.error(written, message, remedy));
        }
        if !own.iter().any(|own| own.is_ipv4() == address.is_ipv4()) {
            let message =
                format!("{what} at {address}: the appliance has no address to talk to {address} from");
            let remedy = "give appliance and host addresses of the same family, IPv4 or IPv6";
            return Err(self.error(written, message, remedy));
        }
        Ok(address)
    }
}
