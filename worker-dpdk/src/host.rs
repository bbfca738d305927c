//! Frames for and from one peer, as bytes: ARP, IPv4, UDP.
//!
//! **Panics.** Nothing that is received makes any function here panic.

use core::ops::Range;

use pascaline_wire::arp::{self, Arp, Operation};
use pascaline_wire::frame::{IPV4_LEN, UDP_LEN, protocol};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Address, Frame, Header, Mac, Net, NoRoom, UdpPorts, VlanTags, header};

const ETHERNET: usize = 14;
/// Bytes of a frame before the payload.
pub const HEADERS: usize = ETHERNET + IPV4_LEN + UDP_LEN + header::LEN;
/// Bytes of an ARP frame.
pub const ARP_LEN: usize = ETHERNET + arp::LEN;
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];

/// Where the ends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The port's Ethernet address.
    pub mac: Mac,
    /// The worker's IP address.
    pub address: [u8; 4],
    /// The worker's UDP port.
    pub port: u16,
    /// The appliance's IP address.
    pub appliance: [u8; 4],
    /// The appliance's UDP ports; it sends from the first.
    pub appliance_ports: UdpPorts,
    /// Whose Ethernet address frames for the appliance go to.
    pub next_hop: [u8; 4],
}

/// What a received frame is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A datagram from the appliance: its bytes within the frame.
    Datagram(Range<usize>),
    /// A question for the worker's Ethernet address, which the frame has been turned into the answer to.
    Answer,
    /// Nothing of use.
    Nothing,
}

/// One end of a conversation with an appliance.
#[derive(Debug, Clone)]
pub struct Host {
    ends: Ends,
    /// Of frames to each of the appliance's UDP ports; none before the next hop is known.
    templates: Vec<Template>,
}

impl Host {
    /// A host that does not know yet where the next hop is.
    #[must_use]
    pub const fn new(ends: Ends) -> Self {
        Self { ends, templates: Vec::new() }
    }

    /// Whether the next hop has been found, so that frames can be made.
    #[must_use]
    pub const fn is_reachable(&self) -> bool {
        !self.templates.is_empty()
    }

    /// Whose Ethernet address frames go to.
    #[must_use]
    pub const fn next_hop(&self) -> [u8; 4] {
        self.ends.next_hop
    }

    /// The question for the next hop's Ethernet address.
    #[must_use]
    pub fn question(&self) -> [u8; ARP_LEN] {
        let Ends { mac, address, next_hop, .. } = self.ends;
        let mut frame = [0; ARP_LEN];
        frame[..6].copy_from_slice(&Mac::BROADCAST.0);
        frame[6..12].copy_from_slice(&mac.0);
        frame[12..14].copy_from_slice(&ETHERTYPE_ARP);
        let request = Arp {
            operation: Operation::Request,
            sender_mac: mac,
            sender_ip: address,
            target_mac: Mac::default(),
            target_ip: next_hop,
        };
        // There is room: the array is as long.
        let _ = request.emit(&mut frame[ETHERNET..]);
        frame
    }

    /// Finds out what a frame is.
    pub fn hear(&mut self, frame: &mut [u8]) -> Heard {
        self.listen(frame).unwrap_or(Heard::Nothing)
    }

    fn listen(&mut self, bytes: &mut [u8]) -> Option<Heard> {
        let frame = Frame::parse(bytes).ok()?;
        if frame.dst != self.ends.mac && frame.dst != Mac::BROADCAST {
            return None;
        }
        match frame.net {
            Net::Arp => self.resolve(bytes, frame.l3),
            Net::Ip(ip)
                if ip.protocol == protocol::UDP
                    && ip.dst == Address::from_v4(self.ends.address)
                    && ip.src == Address::from_v4(self.ends.appliance) =>
            {
                let udp = ip.udp(bytes).ok()?;
                let ours =
                    udp.src_port == self.ends.appliance_ports.first() && udp.dst_port == self.ends.port;
                ours.then(|| Heard::Datagram(udp.body..udp.body + udp.body_len))
            }
            _ => None,
        }
    }

    fn resolve(&mut self, bytes: &mut [u8], l3: usize) -> Option<Heard> {
        let Ends { mac, address, port, appliance, appliance_ports, next_hop } = self.ends;
        let said = Arp::parse(bytes.get(l3..)?).ok()?;
        // Whoever asks for us tells where it is, as whoever answers does (RFC 826).
        if said.sender_ip == next_hop && said.target_ip == address && !said.sender_mac.is_group() {
            let to = |dst_port| {
                Template::new(&Path {
                    dst_mac: said.sender_mac,
                    src_mac: mac,
                    vlan: VlanTags::NONE,
                    dst: Address::from_v4(appliance),
                    src: Address::from_v4(address),
                    dst_port,
                    src_port: port,
                })
            };
            self.templates =
                (0..appliance_ports.count()).map(|at| to(appliance_ports.first() + at)).collect();
        }
        if said.operation != Operation::Request || said.target_ip != address {
            return None;
        }
        arp::answer_in_place(bytes, l3, &said, mac).ok()?;
        Some(Heard::Answer)
    }

    /// Writes the headers of a frame about this PSN, or about none, whose datagram begins with `head`, in
    /// front of the payload and trailer that are already in `frame`, behind [`HEADERS`] bytes.
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
        let (room, payload) = frame.split_at_mut_checked(HEADERS).ok_or(NoRoom)?;
        template.write(room, &header, payload).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
