//! Groups of IP multicast that results may be sent to, instead of one packet for each member of a job.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codes::codes;
use crate::control::APPLIANCE_RANK;
use crate::frame::{Address, Mac};

/// The rank in the header of a result that is sent to a job's multicast group, and so to several ranks.
pub const GROUP_RANK: u16 = APPLIANCE_RANK - 1;

codes! {
    /// What a worker receives of its job's group, as its Joins say it.
    #[derive(Default)]
    pub enum Hearing {
        /// Nothing: it does not listen.
        #[default]
        Deaf = 0 "deaf",
        /// It listens to the group that an Ack has named, but has received nothing from it yet.
        Listens = 1 "listens",
        /// It has heard packets to the group, so that results may come that way.
        Hears = 2 "hears",
    }
}

/// A group: any multicast address of IPv4, and of IPv6 those of a scope and 32 bits, `ffXX::GGGG:GGGG`. Only
/// these 32 bits of an IPv6 address distinguish groups at the link (RFC 3307, section 4).
///
/// ```
/// use pascaline_wire::MulticastGroup;
///
/// let group = MulticastGroup::new("239.129.2.3".parse().unwrap()).unwrap();
/// assert_eq!(group.mac().to_string(), "01:00:5e:01:02:03");
/// assert_eq!(MulticastGroup::from_code(group.code()), Some(group));
/// assert_eq!(MulticastGroup::new("10.0.0.1".parse().unwrap()), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MulticastGroup(Address);

impl MulticastGroup {
    /// The group with an address; `None` if it is no multicast address, or one of IPv6 that is longer.
    #[must_use]
    pub const fn new(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(v4) if v4.is_multicast() => Some(Self(Address::from_v4(v4.octets()))),
            IpAddr::V6(v6) => match v6.segments() {
                [0xff00..=0xffff, 0, 0, 0, 0, 0, _, _] => Some(Self(Address::from_v6(v6.octets()))),
                _ => None,
            },
            IpAddr::V4(_) => None,
        }
    }

    /// Its address.
    #[must_use]
    pub const fn address(self) -> Address {
        self.0
    }

    /// True if packets to it can come from this address: it is of the same family.
    #[must_use]
    pub const fn admits(self, sender: Address) -> bool {
        self.0.as_v4().is_some() == sender.as_v4().is_some()
    }

    /// The MAC of packets to it: the low 23 bits behind 01:00:5e (RFC 1112, section 6.4), or the low 32
    /// behind 33:33 (RFC 2464, section 7).
    #[must_use]
    pub const fn mac(self) -> Mac {
        let [.., a, b, c, d] = self.0.octets();
        match self.0.as_v4() {
            Some(_) => Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
            None => Mac([0x33, 0x33, a, b, c, d]),
        }
    }

    /// The group in 48 bits, as an Ack names it; never 0. The low 32 are its last four bytes, the others its
    /// first two if it is of IPv6, otherwise 0.
    #[must_use]
    pub const fn code(self) -> u64 {
        let [first, second, .., a, b, c, d] = self.0.octets();
        let start = if self.0.as_v4().is_some() { [0, 0] } else { [first, second] };
        u64::from_be_bytes([0, 0, start[0], start[1], a, b, c, d])
    }

    /// The group with a code; `None` if there is none.
    #[must_use]
    pub const fn from_code(code: u64) -> Option<Self> {
        let [x, y, first, second, a, b, c, d] = code.to_be_bytes();
        match [x, y, first, second] {
            [0, 0, 0, 0] => Self::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
            [0, 0, ..] => {
                let start = u16::from_be_bytes([first, second]);
                let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Self::new(IpAddr::V6(Ipv6Addr::new(start, 0, 0, 0, 0, 0, high, low)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for MulticastGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
