//! Hosts that speak the protocol, and the frames that they receive.

use pascaline_pipelines::classify::Objection;
use pascaline_wire::checksum;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::frame::{Address, Frame, Ip, Mac, Net, UDP_LEN, VlanTags, protocol};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::template::{MAX_LEN, Path, Template};

use crate::payload::{bytes, contents, trailer};

/// The appliance's UDP port.
pub const UDP_PORT: u16 = 16420;
/// The job of [`Worker::new`].
pub const JOB: u16 = 7;
/// The appliance's IPv4 address.
pub const OWN_V4: Address = Address::from_v4([10, 77, 0, 254]);
/// The appliance's IPv6 address.
pub const OWN_V6: Address = Address::from_v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);

/// The MAC of an appliance's port.
pub const fn port_mac(port: u8) -> Mac {
    Mac([2, 0xff, 0, 0, 0, port])
}

/// A rank and the host it runs on.
#[derive(Debug, Clone, Copy)]
pub struct Worker {
    /// The appliance's port that it is behind.
    pub port: usize,
    /// Its MAC address.
    pub mac: Mac,
    /// The VLAN tags of its frames.
    pub vlan: VlanTags,
    /// Its IP address.
    pub address: Address,
    /// The UDP port it sends from.
    pub udp_port: u16,
    /// The DSCP of its packets.
    pub dscp: u8,
    /// Its job.
    pub job: u16,
    /// Its rank.
    pub rank: u16,
    /// The ranks of its job.
    pub fan_in: u16,
    /// The epoch of the generation it is in; 0 before the first.
    pub epoch: u16,
    /// The session of its control packets.
    pub session: u64,
    /// The payload length that it joins with, in bytes.
    pub payload: u16,
    /// The element of its gradients.
    pub element: Element,
}

impl Worker {
    /// A rank behind port 0 over IPv4, without a tag.
    pub fn new(rank: u16, fan_in: u16) -> Self {
        let low = u8::try_from(rank).unwrap() + 1;
        Self {
            port: 0,
            mac: Mac([2, 0, 0, 0, 0, low]),
            vlan: VlanTags::NONE,
            address: Address::from_v4([10, 77, 0, low]),
            udp_port: 49152 + rank,
            dscp: 0,
            job: JOB,
            rank,
            fan_in,
            epoch: 0,
            session: 1000,
            payload: 1024,
            element: Element::I32_SUM,
        }
    }

    /// The same rank behind another port.
    pub fn at(self, port: usize) -> Self {
        Self { port, ..self }
    }

    /// The same rank over IPv6.
    pub fn v6(self) -> Self {
        let mut octets = OWN_V6.octets();
        octets[15] = self.mac.0[5];
        Self { address: Address::from_v6(octets), ..self }
    }

    /// The same rank with a VLAN tag.
    pub fn tagged(mut self, tpid: u16, tci: u16) -> Self {
        assert!(self.vlan.push(tpid, tci));
        self
    }

    /// The appliance's address of the family that the rank uses.
    pub fn local(&self) -> Address {
        if self.address.as_v4().is_some() { OWN_V4 } else { OWN_V6 }
    }

    /// A whole frame to the appliance.
    pub fn frame(&self, header: &Header, body: &[u8]) -> Vec<u8> {
        let path = Path {
            dst_mac: port_mac(u8::try_from(self.port).unwrap()),
            src_mac: self.mac,
            vlan: self.vlan,
            dst: self.local(),
            src: self.address,
            dst_port: UDP_PORT,
            src_port: self.udp_port,
            class: self.dscp << 2,
        };
        let mut frame = vec![0; MAX_LEN];
        let len = Template::new(&path).write(&mut frame, header, body).unwrap();
        frame.truncate(len);
        frame.extend_from_slice(body);
        frame
    }

    /// The header of one of its packets.
    pub fn header(&self, kind: Kind, psn: u32, count: u16) -> Header {
        Header {
            rank: self.rank,
            psn,
            fan_in: self.fan_in,
            count,
            ..Header::about(kind, self.element, self.job, self.epoch)
        }
    }

    /// The gradient of a PSN.
    pub fn gradient(&self, psn: u32, values: &[i32]) -> Vec<u8> {
        self.frame(&self.header(Kind::Gradient, psn, 1), &bytes(values))
    }

    /// A cached result of all ranks.
    pub fn cached_result(&self, psn: u32, values: &[i32]) -> Vec<u8> {
        self.frame(&self.header(Kind::Result, psn, self.fan_in), &bytes(values))
    }

    /// A reminder of a PSN.
    pub fn reminder(&self, psn: u32) -> Vec<u8> {
        self.frame(&self.header(Kind::Reminder, psn, 0), &[])
    }

    /// A cached result of these ranks.
    pub fn cached_result_of(&self, inside: &[u16], psn: u32, values: &[i32]) -> Vec<u8> {
        let count = u16::try_from(inside.len()).unwrap();
        let header = Header { flags: Flags::TRAILER, ..self.header(Kind::Result, psn, count) };
        self.frame(&header, &[bytes(values), trailer(inside, self.fan_in)].concat())
    }

    /// A packet that bypasses the pool.
    pub fn bypass(&self, kind: Kind, psn: u32, body: &[u8]) -> Vec<u8> {
        let count = if kind == Kind::Result { self.fan_in } else { u16::from(kind == Kind::Gradient) };
        self.frame(&Header { flags: Flags::BYPASS, ..self.header(kind, psn, count) }, body)
    }

    /// FBcast or Help: a control packet about a PSN.
    pub fn about(&self, action: Action, psn: u32) -> Vec<u8> {
        let header = Header { element: Element::F32_SUM, ..self.header(Kind::Control, psn, 0) };
        self.frame(&header, &Control::request(action, self.session).to_bytes())
    }

    /// SetH.
    pub fn set_h(&self, h: u32) -> Vec<u8> {
        let header = Header { element: Element::F32_SUM, ..self.header(Kind::Control, 0, 0) };
        let control = Control { expected: h, ..Control::request(Action::SetH, self.session) };
        self.frame(&header, &control.to_bytes())
    }

    /// A request to the control plane.
    pub fn control(&self, action: Action) -> Vec<u8> {
        self.padded(action, 0)
    }

    /// A control packet with `zeros` zeros behind its body.
    pub fn padded(&self, action: Action, zeros: usize) -> Vec<u8> {
        let control = Control {
            payload: if action == Action::Join { self.payload } else { 0 },
            window: 512,
            // That of an appliance without a secret.
            cookie: u64::from(action == Action::Join),
            ..Control::request(action, self.session)
        };
        let epoch = if action == Action::Join { 0 } else { self.epoch };
        let header = Header { epoch, element: Element::F32_SUM, ..self.header(Kind::Control, 0, 0) };
        let mut body = control.to_bytes().to_vec();
        body.resize(body.len() + zeros, 0);
        self.frame(&header, &body)
    }
}

/// A packet of the appliance's, taken apart.
#[derive(Debug, Clone)]
pub struct Heard {
    /// The frame's destination.
    pub dst: Mac,
    /// Its source.
    pub src: Mac,
    /// Its VLAN tags.
    pub vlan: VlanTags,
    /// IP address and UDP port that it comes from.
    pub from: (Address, u16),
    /// IP address and UDP port that it goes to.
    pub to: (Address, u16),
    /// The aggregation header.
    pub header: Header,
    /// The body behind the header.
    pub body: Vec<u8>,
}

impl Heard {
    /// Takes a frame apart, as a receiver that checks every checksum would.
    pub fn parse(bytes: &[u8]) -> Self {
        let frame = Frame::parse(bytes).expect("the appliance sends sound frames");
        let Net::Ip(ip) = frame.net else { panic!("not IP: {frame:?}") };
        assert_eq!(ip.protocol, protocol::UDP);
        assert_eq!(bytes.len(), ip.l4 + ip.l4_len, "nothing behind the packet");
        check_udp_sum(bytes, &ip);
        let udp = ip.udp(bytes).unwrap();
        let (header, body) = Header::parse(udp.body).unwrap();
        Self {
            dst: frame.dst,
            src: frame.src,
            vlan: frame.vlan,
            from: (ip.src, udp.src_port),
            to: (ip.dst, udp.dst_port),
            header,
            body: body.to_vec(),
        }
    }

    /// Values, and the ranks that a trailer names.
    pub fn contents(&self) -> (Vec<i32>, Option<Vec<u16>>) {
        contents(&self.header, &self.body)
    }

    /// The control message in it.
    pub fn control(&self) -> Control {
        assert_eq!(self.header.kind, Kind::Control);
        Control::parse(&self.body).unwrap()
    }

    /// The objection of an Ack that answers no request.
    pub fn objection(&self) -> Objection {
        let control = self.control();
        assert_eq!((control.action, control.answers), (Action::Ack, None));
        Objection { status: control.status, expected: control.expected, got: control.got }
    }

    /// Asserts that the packet went from the appliance to this worker, on the worker's own way.
    pub fn assert_addressed_to(&self, worker: &Worker) {
        assert_eq!(self.dst, worker.mac);
        assert_eq!(self.src, port_mac(u8::try_from(worker.port).unwrap()));
        assert_eq!(self.vlan, worker.vlan);
        assert_eq!(self.from, (worker.local(), UDP_PORT));
        assert_eq!(self.to, (worker.address, worker.udp_port));
        assert_eq!((self.header.job, self.header.rank), (worker.job, worker.rank));
    }
}

fn check_udp_sum(bytes: &[u8], ip: &Ip) {
    let segment = &bytes[ip.l4..ip.l4 + ip.l4_len];
    let sum = &segment[UDP_LEN - 2..UDP_LEN];
    if ip.src.as_v4().is_some() {
        assert_eq!(sum, [0, 0], "none over IPv4");
        return;
    }
    assert_ne!(sum, [0, 0], "demanded over IPv6");
    let length = u32::try_from(segment.len()).unwrap();
    let pseudo = checksum::pseudo_header(ip.src, ip.dst, protocol::UDP, length);
    assert_eq!(checksum::finish(pseudo + checksum::sum(segment)), 0);
}
