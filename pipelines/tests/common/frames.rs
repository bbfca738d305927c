//! Hosts that speak the protocol, and what they hear.

use pascaline_pipelines::classify::Objection;
use pascaline_wire::checksum;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::frame::{Address, Frame, Ip, Mac, Net, UDP_LEN, VlanTags, protocol};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::template::{MAX_LEN, Path, Template};
use pascaline_wire::trailer::{Bitmap, Trailer};

pub(crate) const UDP_PORT: u16 = 16420;
pub(crate) const JOB: u16 = 7;
pub(crate) const OWN_V4: Address = Address::from_v4([10, 77, 0, 254]);
pub(crate) const OWN_V6: Address = Address::from_v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);

/// The MAC of an appliance's port.
pub(crate) const fn port_mac(port: u8) -> Mac {
    Mac([2, 0xff, 0, 0, 0, port])
}

/// A rank and the host it runs on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worker {
    pub(crate) port: usize,
    pub(crate) mac: Mac,
    pub(crate) vlan: VlanTags,
    pub(crate) address: Address,
    pub(crate) udp_port: u16,
    pub(crate) job: u16,
    pub(crate) rank: u16,
    pub(crate) fan_in: u16,
    pub(crate) epoch: u8,
    pub(crate) session: u64,
    pub(crate) payload: u16,
    pub(crate) element: Element,
}

impl Worker {
    /// A rank behind port 0 over IPv4, without a tag.
    pub(crate) fn new(rank: u16, fan_in: u16) -> Self {
        let low = u8::try_from(rank).unwrap() + 1;
        Self {
            port: 0,
            mac: Mac([2, 0, 0, 0, 0, low]),
            vlan: VlanTags::NONE,
            address: Address::from_v4([10, 77, 0, low]),
            udp_port: 49152 + rank,
            job: JOB,
            rank,
            fan_in,
            epoch: 0,
            session: 1000,
            payload: 1024,
            element: Element::I32_SUM,
        }
    }

    pub(crate) fn at(self, port: usize) -> Self {
        Self { port, ..self }
    }

    pub(crate) fn v6(self) -> Self {
        let mut octets = OWN_V6.octets();
        octets[15] = self.mac.0[5];
        Self { address: Address::from_v6(octets), ..self }
    }

    pub(crate) fn tagged(mut self, tpid: u16, tci: u16) -> Self {
        assert!(self.vlan.push(tpid, tci));
        self
    }

    pub(crate) fn local(&self) -> Address {
        if self.address.as_v4().is_some() { OWN_V4 } else { OWN_V6 }
    }

    /// A whole frame to the appliance.
    pub(crate) fn frame(&self, header: &Header, body: &[u8]) -> Vec<u8> {
        let path = Path {
            dst_mac: port_mac(u8::try_from(self.port).unwrap()),
            src_mac: self.mac,
            vlan: self.vlan,
            dst: self.local(),
            src: self.address,
            dst_port: UDP_PORT,
            src_port: self.udp_port,
        };
        let mut frame = vec![0; MAX_LEN];
        let len = Template::new(&path).write(&mut frame, header, body).unwrap();
        frame.truncate(len);
        frame.extend_from_slice(body);
        frame
    }

    pub(crate) fn header(&self, kind: Kind, psn: u32, count: u16) -> Header {
        Header {
            kind,
            flags: Flags::NONE,
            element: self.element,
            job: self.job,
            rank: self.rank,
            psn,
            fan_in: self.fan_in,
            count,
            priority: 0,
            wnd_cap: u16::MAX,
            tree: 0,
            epoch: self.epoch,
        }
    }

    pub(crate) fn gradient(&self, psn: u32, values: &[i32]) -> Vec<u8> {
        self.frame(&self.header(Kind::Gradient, psn, 1), &bytes(values))
    }

    pub(crate) fn kept(&self, psn: u32, values: &[i32]) -> Vec<u8> {
        self.frame(&self.header(Kind::Result, psn, self.fan_in), &bytes(values))
    }

    pub(crate) fn reminder(&self, psn: u32) -> Vec<u8> {
        self.frame(&self.header(Kind::Reminder, psn, 0), &[])
    }

    /// A kept result of these ranks.
    pub(crate) fn kept_of(&self, inside: &[u16], psn: u32, values: &[i32]) -> Vec<u8> {
        let count = u16::try_from(inside.len()).unwrap();
        let header = Header { flags: Flags::TRAILER, ..self.header(Kind::Result, psn, count) };
        self.frame(&header, &[bytes(values), bitmap(inside, self.fan_in)].concat())
    }

    /// The same packet, to go round the pool.
    pub(crate) fn bypass(&self, kind: Kind, psn: u32, body: &[u8]) -> Vec<u8> {
        let count = if kind == Kind::Result { self.fan_in } else { u16::from(kind == Kind::Gradient) };
        self.frame(&Header { flags: Flags::BYPASS, ..self.header(kind, psn, count) }, body)
    }

    /// FBcast or Help: a control packet about a PSN.
    pub(crate) fn about(&self, action: Action, psn: u32) -> Vec<u8> {
        let header = Header { element: Element::F32_SUM, ..self.header(Kind::Control, psn, 0) };
        self.frame(&header, &Control::request(action, self.session).to_bytes())
    }

    /// SetH.
    pub(crate) fn set_h(&self, h: u32) -> Vec<u8> {
        let header = Header { element: Element::F32_SUM, ..self.header(Kind::Control, 0, 0) };
        let control = Control { expected: h, ..Control::request(Action::SetH, self.session) };
        self.frame(&header, &control.to_bytes())
    }

    pub(crate) fn control(&self, action: Action) -> Vec<u8> {
        let control = Control {
            payload: if action == Action::Join { self.payload } else { 0 },
            window: 512,
            ..Control::request(action, self.session)
        };
        let epoch = if action == Action::Join { 0 } else { self.epoch };
        let header = Header { epoch, element: Element::F32_SUM, ..self.header(Kind::Control, 0, 0) };
        self.frame(&header, &control.to_bytes())
    }
}

pub(crate) fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The trailer that names these ranks.
pub(crate) fn bitmap(inside: &[u16], fan_in: u16) -> Vec<u8> {
    let mut bitmap = Bitmap::new(fan_in).unwrap();
    inside.iter().for_each(|&rank| assert!(bitmap.insert(rank)));
    let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
    let mut bytes = vec![0; trailer.emitted_len()];
    trailer.emit(&mut bytes).unwrap();
    bytes
}

/// What follows a header: values, and the ranks that a trailer names.
pub(crate) fn contents(header: &Header, body: &[u8]) -> (Vec<i32>, Option<Vec<u16>>) {
    let (payload, trailer) = header.payload(body).expect("the appliance sends what it would accept");
    let named = |bitmap: Bitmap| (0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).collect();
    let inside = trailer.and_then(|trailer| trailer.bitmap).map(named);
    (values(payload), inside)
}

pub(crate) fn values(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|chunk| i32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// A packet of the appliance's, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) dst: Mac,
    pub(crate) src: Mac,
    pub(crate) vlan: VlanTags,
    pub(crate) from: (Address, u16),
    pub(crate) to: (Address, u16),
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
}

impl Heard {
    /// Takes a frame apart, as a receiver that checks every checksum would.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let frame = Frame::parse(bytes).expect("the appliance sends sound frames");
        let Net::Ip(ip) = frame.net else { panic!("not IP: {frame:?}") };
        assert_eq!(ip.protocol, protocol::UDP);
        assert_eq!(bytes.len(), ip.l4 + ip.l4_len, "nothing behind the packet");
        check_udp_sum(bytes, &ip);
        let udp = ip.udp(bytes).unwrap();
        let (header, body) = Header::parse(&bytes[udp.body..]).unwrap();
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
    pub(crate) fn contents(&self) -> (Vec<i32>, Option<Vec<u16>>) {
        contents(&self.header, &self.body)
    }

    pub(crate) fn control(&self) -> Control {
        assert_eq!(self.header.kind, Kind::Control);
        Control::parse(&self.body).unwrap()
    }

    pub(crate) fn objection(&self) -> Objection {
        let control = self.control();
        assert_eq!((control.action, control.answers), (Action::Ack, None));
        Objection { status: control.status, expected: control.expected, got: control.got }
    }

    /// Asserts that the packet went from the appliance to this worker, by the way the worker came.
    pub(crate) fn assert_addressed_to(&self, worker: &Worker) {
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
