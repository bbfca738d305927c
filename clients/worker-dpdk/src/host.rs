//! Frames for and from one peer, as bytes: ARP or neighbour discovery, IPv4 or IPv6, UDP.
//!
//! **Panics.** No received frame makes any function here panic.

use core::ops::Range;
use core::time::Duration;

use arrayvec::ArrayVec;
use pascaline_wire::arp::{self, Arp, Operation};
use pascaline_wire::frame::{IPV4_LEN, IPV6_LEN, Ip, UDP_LEN, protocol};
use pascaline_wire::icmp::{self, Icmp};
use pascaline_wire::neighbour;
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Address, Frame, Header, Mac, Net, NoRoom, UdpPorts, VlanTags, header};

pub(crate) const ETHERNET: usize = 14;
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// How often to ask for the next hop.
const QUESTION: Duration = Duration::from_millis(100);
/// After this long without a datagram from the appliance, the next hop may have another Ethernet address.
const SILENCE: Duration = Duration::from_secs(1);
/// How often to ask for it while packets arrive: the way there may have changed, but not the way back.
const REFRESH: Duration = Duration::from_secs(10);

/// A frame of ARP or neighbour discovery.
pub type NeighbourFrame = ArrayVec<u8, { neighbour::LEN }>;

/// The addresses of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The port's Ethernet address.
    pub mac: Mac,
    /// The worker's IP address.
    pub address: Address,
    /// The worker's UDP port.
    pub port: u16,
    /// The appliance's IP address, of the same family, as the next hop's is.
    pub appliance: Address,
    /// The appliance's UDP ports; it sends from the first.
    pub appliance_ports: UdpPorts,
    /// The DSCP of the worker's packets.
    pub dscp: u8,
    /// The host to whose Ethernet address frames for the appliance go.
    pub next_hop: Address,
}

/// The kind of a received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A datagram from the appliance: its bytes within the frame.
    Datagram(Range<usize>),
    /// A question for the worker's Ethernet address: the frame that answers it.
    Answer(NeighbourFrame),
    /// A frame without effect.
    Nothing,
}

/// One end of a conversation with an appliance.
#[derive(Debug, Clone)]
pub struct Host {
    ends: Ends,
    /// For frames to each of the appliance's UDP ports; none before the next hop is known.
    templates: Vec<Template>,
    /// When a datagram has come last, and when the next hop was asked for.
    heard: Duration,
    asked: Option<Duration>,
}

impl Host {
    /// A host that has not found the next hop yet.
    #[must_use]
    pub const fn new(ends: Ends) -> Self {
        Self { ends, templates: Vec::new(), heard: Duration::ZERO, asked: None }
    }

    /// Whether the next hop has been found, so that frames can be made.
    #[must_use]
    pub const fn is_reachable(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The host to whose Ethernet address frames go.
    #[must_use]
    pub const fn next_hop(&self) -> Address {
        self.ends.next_hop
    }

    /// Bytes of a frame before the payload.
    #[must_use]
    pub const fn headers(&self) -> usize {
        let ip = if self.ends.address.as_v4().is_some() { IPV4_LEN } else { IPV6_LEN };
        ETHERNET + ip + UDP_LEN + header::LEN
    }

    /// The question for the next hop's Ethernet address.
    #[must_use]
    pub fn question(&self) -> NeighbourFrame {
        let Ends { mac, address, next_hop, .. } = self.ends;
        let mut frame = [0; neighbour::LEN];
        // There is room: the array is as long.
        let len = neighbour::ask(&mut frame, mac, address, next_hop).unwrap_or(0);
        frame[..len].iter().copied().collect()
    }

    /// The question, if it is due: often while the next hop is not known, or while no packets come from the
    /// appliance, which may be another machine since a restart; otherwise rarely.
    pub fn question_by(&mut self, now: Duration) -> Option<NeighbourFrame> {
        let in_doubt = !self.is_reachable() || now >= self.heard + SILENCE;
        let pace = if in_doubt { QUESTION } else { REFRESH };
        let due = self.asked.map_or(in_doubt, |asked| now >= asked + pace);
        due.then(|| {
            self.asked = Some(now);
            self.question()
        })
    }

    /// Classifies a frame, which the port may have found `damaged`.
    pub fn handle_frame(&mut self, now: Duration, frame: &[u8], damaged: bool) -> Received {
        let heard = if damaged { None } else { self.listen(frame) }.unwrap_or(Received::Nothing);
        if matches!(heard, Received::Datagram(_)) {
            self.heard = now;
        }
        heard
    }

    fn listen(&mut self, bytes: &[u8]) -> Option<Received> {
        let frame = Frame::parse(bytes).ok()?;
        if frame.dst != self.ends.mac && !frame.dst.is_group() {
            return None;
        }
        match frame.net {
            Net::Arp => self.by_arp(&Arp::parse(bytes.get(frame.l3..)?).ok()?),
            Net::Ip(ip) if ip.protocol == protocol::ICMPV6 => self.by_discovery(bytes, frame.src, &ip),
            Net::Ip(ip)
                if ip.protocol == protocol::UDP
                    && ip.dst == self.ends.address
                    && ip.src == self.ends.appliance =>
            {
                let udp = ip.udp(bytes).ok()?;
                let ours =
                    udp.src_port == self.ends.appliance_ports.first() && udp.dst_port == self.ends.port;
                ours.then(|| Received::Datagram(udp.offset..udp.offset + udp.body.len()))
            }
            _ => None,
        }
    }

    fn by_arp(&mut self, said: &Arp) -> Option<Received> {
        let Ends { mac, address, next_hop, .. } = self.ends;
        let for_us = address.as_v4() == Some(said.target_ip);
        // A host that asks for us gives its address, as one that answers (RFC 826), or that announces itself
        // (RFC 5227, section 3).
        let tells = for_us || said.target_ip == said.sender_ip;
        if tells && next_hop.as_v4() == Some(said.sender_ip) {
            self.learn(said.sender_mac);
        }
        let asked = for_us && said.operation == Operation::Request;
        asked.then(|| Received::Answer(arp_reply(said.sender_mac, &said.reply(mac))))
    }

    fn by_discovery(&mut self, bytes: &[u8], from: Mac, ip: &Ip) -> Option<Received> {
        let Ends { mac, address, next_hop, .. } = self.ends;
        match Icmp::parse(bytes, ip).ok()? {
            Icmp::Advertisement(target, at) if target == next_hop => {
                self.learn(at);
                None
            }
            Icmp::Solicitation(target) if target == address => {
                let mut answer = [0; neighbour::LEN];
                let (ethernet, packet) = answer.split_at_mut(ETHERNET);
                ethernet[..6].copy_from_slice(&from.0);
                ethernet[6..12].copy_from_slice(&mac.0);
                ethernet[12..].copy_from_slice(&ETHERTYPE_IPV6);
                icmp::write_advertisement(packet, target, mac, ip.src).ok()?;
                Some(Received::Answer(answer.into()))
            }
            _ => None,
        }
    }

    /// From now on frames go to `next_hop`.
    fn learn(&mut self, next_hop: Mac) {
        let Ends { mac, address, port, appliance, appliance_ports, dscp, .. } = self.ends;
        if next_hop.is_group() {
            return;
        }
        let to = |dst_port| {
            Template::new(&Path {
                dst_mac: next_hop,
                src_mac: mac,
                vlan: VlanTags::NONE,
                dst: appliance,
                src: address,
                dst_port,
                src_port: port,
                class: dscp << 2,
            })
        };
        self.templates = (0..appliance_ports.count()).map(|at| to(appliance_ports.first() + at)).collect();
    }

    /// Writes the headers of a frame of this PSN, or of none, whose datagram begins with `head`, in front of
    /// the payload and trailer that are already in `frame`, behind [`headers`](Self::headers) bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if the frame is too short or too long, `head` is no header, or the next hop is not known.
    pub fn address(
        &self,
        frame: &mut [u8],
        head: &[u8; header::LEN],
        psn: Option<u32>,
    ) -> Result<(), NoRoom> {
        let ports = self.ends.appliance_ports;
        let place = psn.map_or(0, |psn| usize::from(ports.of(psn) - ports.first()));
        let template = self.templates.get(place).ok_or(NoRoom)?;
        let (header, _) = Header::parse(head).map_err(|_| NoRoom)?;
        let (room, payload) = frame.split_at_mut_checked(self.headers()).ok_or(NoRoom)?;
        template.write(room, &header, payload).map(|_| ())
    }
}

fn arp_reply(to: Mac, arp: &Arp) -> NeighbourFrame {
    let mut frame = [0; arp::FRAME_LEN];
    // There is room: the array is as long.
    let _ = arp.write_frame(&mut frame, to);
    frame.iter().copied().collect()
}

#[cfg(test)]
mod tests;
