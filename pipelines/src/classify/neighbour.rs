//! What an own address answers: ARP, neighbour discovery, echo.

use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::frame::{Address, Ip, protocol};
use pascaline_wire::icmp::Icmp;

use super::{Class, Classifier};

impl Classifier<'_> {
    pub(super) fn arp(&self, bytes: &[u8], l3: usize) -> Class {
        match bytes.get(l3..).map(Arp::parse) {
            Some(Ok(arp))
                if arp.operation == Operation::Request && self.owns(Address::from_v4(arp.target_ip)) =>
            {
                Class::Arp(l3, arp)
            }
            _ => Class::Bypass,
        }
    }

    /// `None` if it is nothing that an own address answers.
    pub(super) fn icmp(&self, bytes: &[u8], l3: usize, ip: Ip) -> Option<Class> {
        if ip.protocol != protocol::ICMP && ip.protocol != protocol::ICMPV6 {
            return None;
        }
        match Icmp::parse(bytes, &ip) {
            Err(malformed) => Some(malformed.into()),
            Ok(Icmp::Echo) if self.owns(ip.dst) => Some(Class::Echo(l3, ip)),
            Ok(Icmp::Solicitation(target)) if self.owns(target) => {
                Some(Class::Solicitation { l3, asker: ip.src, target })
            }
            Ok(Icmp::Echo | Icmp::Solicitation(_) | Icmp::Advertisement(..) | Icmp::Other) => None,
        }
    }
}
