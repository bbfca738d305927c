//! What an own address answers, and what it has asked for: ARP, neighbour discovery, echo.

use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::control::{self, Control};
use pascaline_wire::frame::{Address, Ip, Mac, protocol};
use pascaline_wire::header::Header;
use pascaline_wire::icmp::{Icmp, Quoted};

use super::{Class, Classifier};
use crate::membership::{Found, Neighbour, Refusal};

impl Classifier<'_> {
    pub(super) fn arp(&self, bytes: &[u8], l3: usize) -> Class {
        let arp = bytes.get(l3..).and_then(|bytes| Arp::parse(bytes).ok());
        let Some(arp) = arp.filter(|arp| self.owns(Address::from_v4(arp.target_ip))) else {
            return Class::Bypass;
        };
        let sender = Address::from_v4(arp.sender_ip);
        match arp.operation {
            Operation::Request => Class::Arp(l3, arp),
            Operation::Reply if bytes.starts_with(&self.mac.0) && self.table.asks_for(sender) => {
                self.neighbour(sender, arp.sender_mac)
            }
            Operation::Reply => Class::Bypass,
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
            Ok(Icmp::Advertisement(target, mac)) if self.owns(ip.dst) && self.table.asks_for(target) => {
                Some(self.neighbour(target, mac))
            }
            Ok(Icmp::Solicitation(target)) if self.owns(target) => {
                Some(Class::Solicitation(l3, ip.src, target))
            }
            Ok(Icmp::PortUnreachable(quoted)) if self.owns(ip.dst) && ip.src == quoted.dst => {
                self.refusal(bytes, &quoted)
            }
            Ok(
                Icmp::Echo
                | Icmp::Solicitation(_)
                | Icmp::Advertisement(..)
                | Icmp::PortUnreachable(_)
                | Icmp::Other,
            ) => None,
        }
    }

    const fn neighbour(&self, address: Address, mac: Mac) -> Class {
        Class::Found(Found::Neighbour(Neighbour { port: self.port, address, mac }))
    }

    /// What a member's host says, if it quotes a control packet for that member.
    fn refusal(&self, bytes: &[u8], quoted: &Quoted) -> Option<Class> {
        let (header, body) = Header::parse(bytes.get(quoted.payload..)?).ok()?;
        let control = Control::parse(body.get(..control::LEN)?).ok()?;
        let member = self.table.get(header.job)?.members().get(usize::from(header.rank))?.as_ref()?;
        let same = (member.endpoint.address, member.endpoint.udp_port) == (quoted.dst, quoted.dst_port);
        let refusal = Refusal {
            job: header.job,
            rank: header.rank,
            address: quoted.dst,
            udp_port: quoted.dst_port,
            session: control.session,
        };
        (same && self.owns(quoted.src)).then_some(Class::Found(Found::Refusal(refusal)))
    }
}
