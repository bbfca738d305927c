//! Groups that results may go to.

use std::net::IpAddr;

use pascaline_wire::MulticastGroup;
use toml::Spanned;

use super::job::Job;
use super::{Accept, Checked};

const EXAMPLES: &str = "choose one that nothing else uses, e.g. \"239.77.0.1\" or \"ff15::4d00:1\"";

/// Why results do not get to an address.
fn objection(address: IpAddr, own: &[IpAddr]) -> Option<&'static str> {
    if !address.is_multicast() {
        return Some("is no multicast address");
    }
    match address {
        IpAddr::V4(v4) if v4.octets()[..3] == [224, 0, 0] => Some("is for protocols of the link itself"),
        IpAddr::V6(v6) if matches!(v6.octets()[1] & 0xf, 0..=2) => Some("means nothing beyond an interface"),
        _ if MulticastGroup::new(address).is_none() => {
            Some("has more than the 32 bits behind `ff15::` that tell groups apart at the link")
        }
        _ if !own.iter().any(|own| own.is_ipv4() == address.is_ipv4()) => {
            Some("is of a family of which the appliance has no address to send from")
        }
        _ => None,
    }
}

impl Accept<'_> {
    /// A job's group, which is no other's.
    pub(super) fn multicast(
        &self,
        job: &Job,
        others: &[Spanned<Job>],
        own: &[IpAddr],
    ) -> Checked<Option<MulticastGroup>> {
        let Some(written) = &job.multicast else { return Ok(None) };
        let address = self.address(written)?;
        if let Some(what) = objection(address, own) {
            return Err(self.error(written, format_args!("group {address} {what}"), EXAMPLES));
        }
        let same = |other: &&Job| {
            let text = other.multicast.as_ref().map(Spanned::get_ref);
            text.is_some_and(|text| text.parse() == Ok(address))
        };
        let mut before =
            others.iter().map(Spanned::get_ref).take_while(|other| other.id.get_ref() != job.id.get_ref());
        if let Some(other) = before.find(same) {
            let message = format!("group {address} is job {}'s already", other.id.get_ref());
            return Err(self.error(written, message, "give each job a group of its own"));
        }
        Ok(MulticastGroup::new(address))
    }
}
