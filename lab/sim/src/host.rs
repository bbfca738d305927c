//! A worker's host: the socket and the kernel between its core and the wire.

use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::Parent;
use pascaline_wire::frame::{Address, Frame, Mac, Net, UDP_LEN, VlanTags, protocol};
use pascaline_wire::header::{self, Header};
use pascaline_wire::template::{MAX_LEN, Path, Template};
use pascaline_wire::{MulticastGroup, checksum};

pub(crate) const UDP_PORT: u16 = 16420;

/// The appliance's addresses.
pub(crate) const OWN_V4: Address = Address::from_v4([10, 77, 0, 254]);
pub(crate) const OWN_V6: Address = Address::from_v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);

/// The address at which other appliances find one.
pub(crate) fn node_address(node: usize) -> Address {
    let [high, low] = u16::try_from(node).unwrap_or(u16::MAX).to_be_bytes();
    Address::from_v4([10, 78, high, low])
}

/// An appliance's parent, and its rank there.
pub(crate) fn parent_of((node, parent): (usize, usize), rank: u16, ranks: u16) -> Parent {
    let endpoint = Endpoint {
        port: 0,
        mac: port_mac(0),
        vlan: VlanTags::NONE,
        address: node_address(parent),
        udp_port: UDP_PORT,
        local: node_address(node),
        local_udp_port: UDP_PORT,
        dscp: 0,
    };
    Parent { endpoint, rank, ranks, next_hop: None }
}

/// The MAC of an appliance's port.
pub(crate) fn port_mac(port: usize) -> Mac {
    Mac([2, 0xff, 0, 0, 0, low(port)])
}

fn low(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The host of one worker.
#[derive(Debug)]
pub(crate) struct Host {
    /// The appliance's port that it is behind.
    pub(crate) port: usize,
    pub(crate) mac: Mac,
    pub(crate) address: Address,
    pub(crate) udp_port: u16,
    number: usize,
    /// The address that its socket is connected to.
    peer: Address,
    /// The number of the appliance, if there are several with separate addresses.
    node: Option<usize>,
    template: Template,
}

impl Host {
    pub(crate) fn new(number: usize, ports: usize, v6: bool) -> Self {
        let mut octets = OWN_V6.octets();
        octets[15] = low(number + 1);
        let address =
            if v6 { Address::from_v6(octets) } else { Address::from_v4([10, 77, 0, low(number + 1)]) };
        let (port, mac) = (number % ports.max(1), Mac([2, 0, 0, 0, 0, low(number)]));
        let peer = if v6 { OWN_V6 } else { OWN_V4 };
        let template = Template::new(&path((port, mac), (address, 0), peer));
        let mut host = Self { port, mac, address, udp_port: 0, number, peer, node: None, template };
        host.open(0);
        host
    }

    /// The number of the host that a frame is addressed to.
    pub(crate) fn number_in(frame: &[u8]) -> Option<usize> {
        match frame.first_chunk::<6>()? {
            [2, 0, 0, 0, 0, number] => Some(usize::from(*number)),
            _ => None,
        }
    }

    /// The number of the appliance that a frame is addressed to, if that is another one.
    pub(crate) fn node_in(frame: &[u8]) -> Option<usize> {
        match frame.get(30..34)? {
            [10, 78, high, low] if frame.get(12..14) == Some(&[8, 0]) => {
                Some(usize::from(u16::from_be_bytes([*high, *low])))
            }
            _ => None,
        }
    }

    /// Opens another socket: each life of a worker has its own, with its own port.
    pub(crate) fn open(&mut self, life: u32) {
        let life = u16::try_from(life).unwrap_or(0) % 16;
        self.udp_port = 49152 + 16 * u16::from(low(self.number)) + life;
        self.renew();
    }

    /// Sends to one of several appliances from now on, by the address that it has for itself.
    pub(crate) fn towards(mut self, node: usize) -> Self {
        (self.node, self.peer) = (Some(node), node_address(node));
        self.renew();
        self
    }

    /// Turns the socket to another appliance, if there are several.
    pub(crate) fn aim(&mut self, node: usize) {
        if self.node.is_some_and(|former| former != node) {
            (self.node, self.peer) = (Some(node), node_address(node));
            self.renew();
        }
    }

    fn renew(&mut self) {
        self.template = Template::new(&self.path());
    }

    fn path(&self) -> Path {
        path((self.port, self.mac), (self.address, self.udp_port), self.peer)
    }

    /// Puts a datagram of the worker's (a header and its body) into a frame to the appliance.
    pub(crate) fn send(&self, head: &[u8; header::LEN], body: &[u8]) -> Vec<u8> {
        frame(&self.template, head, body)
    }

    /// The same with a given TOS.
    pub(crate) fn send_as(&self, class: u8, head: &[u8; header::LEN], body: &[u8]) -> Vec<u8> {
        let path = Path { class, ..self.path() };
        frame(&Template::new(&path), head, body)
    }

    /// A frame from the appliance to this host that the appliance has not sent.
    pub(crate) fn forge(&self, datagram: &[u8]) -> Vec<u8> {
        let path = self.path();
        let back = Path {
            dst_mac: path.src_mac,
            src_mac: path.dst_mac,
            vlan: path.vlan,
            dst: path.src,
            src: path.dst,
            dst_port: path.src_port,
            src_port: path.dst_port,
            class: 0,
        };
        match datagram.split_first_chunk::<{ header::LEN }>() {
            Some((head, body)) => frame(&Template::new(&back), head, body),
            None => Vec::new(),
        }
    }

    /// The datagram in a frame, if the kernel would give it to the worker's connected socket.
    pub(crate) fn receive<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        self.received(frame, (self.mac, self.address, self.udp_port))
    }

    /// The same for a socket that listens to a group.
    pub(crate) fn receive_from_group<'a>(&self, group: MulticastGroup, frame: &'a [u8]) -> Option<&'a [u8]> {
        self.received(frame, (group.mac(), group.address(), UDP_PORT))
    }

    fn received<'a>(&self, frame: &'a [u8], (mac, address, port): (Mac, Address, u16)) -> Option<&'a [u8]> {
        let Frame { dst, net: Net::Ip(ip), .. } = Frame::parse(frame).ok()? else { return None };
        let v6 = self.address.as_v4().is_none();
        if (dst, ip.dst, ip.src, ip.protocol) != (mac, address, self.peer, protocol::UDP) {
            return None;
        }
        let udp = ip.udp(frame).ok()?;
        if (udp.src_port, udp.dst_port) != (UDP_PORT, port) {
            return None;
        }
        let segment = frame.get(ip.l4..ip.l4 + ip.l4_len)?;
        if v6 && !checksum_holds(ip.src, ip.dst, segment) {
            return None;
        }
        segment.get(UDP_LEN..)
    }
}

fn frame(template: &Template, head: &[u8; header::LEN], body: &[u8]) -> Vec<u8> {
    let mut room = [0; MAX_LEN];
    // What workers send is well-formed, and the array has room for the longest headers.
    let header = Header::parse(head).ok();
    let len = header.and_then(|(header, _)| template.write(&mut room, &header, body).ok()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(len + body.len());
    bytes.extend_from_slice(&room[..len]);
    bytes.extend_from_slice(body);
    bytes
}

/// Over IPv6 a checksum is mandatory, and 0 is none.
fn checksum_holds(src: Address, dst: Address, segment: &[u8]) -> bool {
    let len = u32::try_from(segment.len()).unwrap_or(0);
    let sum = checksum::pseudo_header(src, dst, protocol::UDP, len) + checksum::sum(segment);
    segment.get(6..8) != Some(&[0, 0]) && checksum::finish(sum) == 0
}

fn path((port, mac): (usize, Mac), (address, udp_port): (Address, u16), peer: Address) -> Path {
    Path {
        dst_mac: port_mac(port),
        src_mac: mac,
        vlan: VlanTags::NONE,
        dst: peer,
        src: address,
        dst_port: UDP_PORT,
        src_port: udp_port,
        class: 0,
    }
}
