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
            Net::Arp(l3) => self.resolve(bytes, l3),
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

    /// Writes the headers of a frame about this PSN, or about none, whose datagram begins with `head`, in front of the payload and trailer that are already in
    /// `frame`, behind [`HEADERS`] bytes.
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
mod tests {
    use pascaline_wire::{Element, Flags, Kind};

    use super::*;

    const ENDS: Ends = Ends {
        mac: Mac([2, 0, 0, 0, 0, 1]),
        address: [10, 0, 0, 1],
        port: 50_000,
        appliance: [10, 0, 0, 254],
        appliance_ports: UdpPorts::single(16_420),
        next_hop: [10, 0, 0, 253],
    };
    const HOP: Mac = Mac([2, 0, 0, 0, 0, 9]);
    const HEADER: Header = Header {
        kind: Kind::Gradient,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job: 1,
        rank: 2,
        psn: 3,
        fan_in: 4,
        count: 1,
        priority: 0,
        wnd_cap: 0,
        tree: 0,
        epoch: 5,
    };

    fn reachable() -> Host {
        let mut host = Host::new(ENDS);
        let mut reply = host.question();
        let question = Arp::parse(&reply[ETHERNET..]).unwrap();
        arp::answer_in_place(&mut reply, ETHERNET, &question, HOP).unwrap();
        assert_eq!(host.hear(&mut reply), Heard::Nothing);
        assert!(host.is_reachable());
        host
    }

    #[test]
    fn the_next_hop_is_asked_for_and_learned() {
        let host = Host::new(ENDS);
        let question = host.question();
        assert_eq!(Frame::parse(&question).unwrap().dst, Mac::BROADCAST);
        let asked = Arp::parse(&question[ETHERNET..]).unwrap();
        assert_eq!((asked.sender_ip, asked.target_ip), (ENDS.address, ENDS.next_hop));
        reachable();
    }

    #[test]
    fn a_stranger_is_answered_and_not_taken_for_the_next_hop() {
        let stranger = Ends { mac: HOP, address: [10, 0, 0, 7], next_hop: ENDS.address, ..ENDS };
        let mut frame = Host::new(stranger).question();
        let mut host = Host::new(ENDS);
        assert_eq!(host.hear(&mut frame), Heard::Answer);
        assert!(!host.is_reachable());
        let answer = Arp::parse(&frame[ETHERNET..]).unwrap();
        assert_eq!((answer.sender_mac, answer.target_mac), (ENDS.mac, HOP));
        assert_eq!(Frame::parse(&frame).unwrap().dst, HOP);
        // Nor is somebody who claims to be the next hop towards somebody else.
        let mut other =
            Host::new(Ends { mac: HOP, address: ENDS.next_hop, next_hop: [10, 0, 0, 8], ..ENDS }).question();
        assert_eq!(host.hear(&mut other), Heard::Nothing);
        assert!(!host.is_reachable());
    }

    #[test]
    fn frames_go_to_the_appliance_by_the_next_hop() {
        let host = reachable();
        let mut frame = vec![0xa5; HEADERS + 12];
        host.address(&mut frame, &HEADER.to_bytes(), Some(HEADER.psn)).unwrap();
        let parsed = Frame::parse(&frame).unwrap();
        assert_eq!((parsed.dst, parsed.src), (HOP, ENDS.mac));
        let Net::Ip(ip) = parsed.net else { panic!("{parsed:?}") };
        assert_eq!((ip.src, ip.dst), (Address::from_v4(ENDS.address), Address::from_v4(ENDS.appliance)));
        let udp = ip.udp(&frame).unwrap();
        assert_eq!((udp.src_port, udp.dst_port), (ENDS.port, ENDS.appliance_ports.first()));
        let (header, payload) = Header::parse(&frame[udp.body..]).unwrap();
        assert_eq!((header, payload), (HEADER, &[0xa5; 12][..]));
        assert_eq!(
            Host::new(ENDS).address(&mut frame, &HEADER.to_bytes(), None),
            Err(NoRoom),
            "nobody to send it to"
        );
    }

    #[test]
    fn each_psn_goes_to_its_port_and_what_is_about_none_to_the_first() {
        let ports = UdpPorts::new(16_420, 4).unwrap();
        let mut host = Host::new(Ends { appliance_ports: ports, ..ENDS });
        let mut reply = host.question();
        let question = Arp::parse(&reply[ETHERNET..]).unwrap();
        arp::answer_in_place(&mut reply, ETHERNET, &question, HOP).unwrap();
        assert_eq!(host.hear(&mut reply), Heard::Nothing);
        for (psn, port) in
            [(None, 16_420), (Some(0), 16_420), (Some(7), 16_423), (Some(u32::MAX - 1), 16_422)]
        {
            let mut frame = vec![0xa5; HEADERS + 8];
            host.address(&mut frame, &HEADER.to_bytes(), psn).unwrap();
            let Net::Ip(ip) = Frame::parse(&frame).unwrap().net else { panic!("not IP") };
            assert_eq!(ip.udp(&frame).unwrap().dst_port, port, "{psn:?}");
        }
    }

    #[test]
    fn datagrams_are_taken_from_the_appliance_only() {
        let (worker, appliance) = (reachable(), {
            let ends = Ends {
                mac: HOP,
                address: ENDS.appliance,
                port: ENDS.appliance_ports.first(),
                appliance: ENDS.address,
                appliance_ports: UdpPorts::single(ENDS.port),
                next_hop: ENDS.address,
            };
            let mut host = Host::new(ends);
            let mut question = Host::new(Ends { next_hop: ENDS.appliance, ..ENDS }).question();
            assert_eq!(host.hear(&mut question), Heard::Answer);
            host
        });
        let mut frame = vec![1; HEADERS + 8];
        appliance.address(&mut frame, &HEADER.to_bytes(), None).unwrap();
        // Short frames are padded on the wire.
        let padded = [&frame[..], &[0; 20]].concat();
        for bytes in [&frame, &padded] {
            let heard = worker.clone().hear(&mut bytes.clone());
            assert_eq!(heard, Heard::Datagram(42..42 + header::LEN + 8));
        }
        // The destination MAC, both addresses (whose change breaks the checksum too), both ports.
        for at in [0, 26, 30, 34, 36] {
            let mut wrong = frame.clone();
            wrong[at] ^= 0x10;
            assert_eq!(worker.clone().hear(&mut wrong), Heard::Nothing, "byte {at}");
        }
        for length in 0..frame.len() {
            assert_eq!(worker.clone().hear(&mut frame[..length].to_vec()), Heard::Nothing, "{length} bytes");
        }
    }
}
