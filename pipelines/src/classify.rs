//! What a frame is, and what is to be done with it.

use pascaline_aggregator::{Brief, Key, Request, Verb};
use pascaline_queue::Update;
use pascaline_telemetry::{DropReason, LcoreRanks, Moment};
use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::{Address, ETH_LEN, Frame, Ip, Mac, Net, protocol};
use pascaline_wire::header::{self, Flags, Header, Kind};
use pascaline_wire::icmp::Icmp;
use pascaline_wire::malformed::Malformed;
use pascaline_wire::plain::{self, Lengths, Plain, Words};

use crate::jobs::{Endpoint, Flow, Job, JobTable, Mode};
use crate::setup::Setup;

mod update;

/// What is to be done with a frame. Small: whoever handles the rarer classes dissects the frame again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Class {
    /// Business with the aggregator pool.
    Pool(Request),
    /// A member's packet for the parameter server: its header, and where its payload is.
    ToServer(Header, Payload),
    /// A member's update, and the port whose queue it belongs to.
    Update(usize, Update),
    /// A packet of the parameter server: its header, and where its payload is.
    FromServer(Header, Payload),
    /// A control packet.
    Control(Control),
    /// An ARP request for an own address, at this offset.
    Arp(usize, Arp),
    /// An echo request to an own address.
    Echo,
    /// A neighbour solicitation for an own address.
    Solicitation(Address),
    /// Not for the appliance.
    Bypass,
    /// To be dropped.
    Drop(DropReason),
    /// To be dropped, and the worker should know why.
    Refuse(DropReason, Objection),
}

/// Where a payload is in its packet, together with the trailer, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// The first byte.
    pub offset: u16,
    /// Bytes without the trailer.
    pub len: u16,
    /// Bytes with it.
    pub total: u16,
}

/// What was wrong with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objection {
    /// In the terms of the protocol.
    pub status: Status,
    /// The value that would have been right.
    pub expected: u32,
    /// The value that was received.
    pub got: u32,
}

/// The reason under which a parser's refusal is counted.
#[must_use]
pub const fn reason(malformed: Malformed) -> DropReason {
    match malformed {
        Malformed::Truncated => DropReason::Truncated,
        Malformed::VlanDepth => DropReason::VlanDepth,
        Malformed::IpHeader => DropReason::IpHeader,
        Malformed::IpOptions => DropReason::IpOptions,
        Malformed::IpFragment => DropReason::IpFragment,
        Malformed::IpChecksum => DropReason::Checksum,
        Malformed::Length => DropReason::Length,
        Malformed::Version => DropReason::Version,
        Malformed::Kind => DropReason::Kind,
        Malformed::Flags => DropReason::Flags,
        Malformed::DType => DropReason::DType,
        Malformed::PayloadLength => DropReason::PayloadLength,
        Malformed::Trailer => DropReason::Trailer,
        Malformed::Control => DropReason::Control,
    }
}

impl From<Malformed> for Class {
    fn from(malformed: Malformed) -> Self {
        Self::Drop(reason(malformed))
    }
}

/// A plain gradient from a member.
#[derive(Debug, Clone, Copy)]
pub struct PlainGradient<'a> {
    /// What is known of those of its rank.
    pub flow: &'a Flow,
    /// What it says beyond that.
    pub plain: Plain,
    /// Some of it once more, as words.
    words: Words,
}

impl PlainGradient<'_> {
    /// What the pool needs to know of it, in nearly every case.
    #[must_use]
    #[inline(always)]
    pub fn brief(&self) -> Brief {
        let Words { element, payload_len, ordinary } = self.words;
        self.flow.terms.brief_of(self.plain.psn, element, payload_len, ordinary)
    }
}

/// Where the payload of a plain gradient begins.
pub const PAYLOAD_OFFSET: u16 = narrow(plain::HEADERS);

/// Where the contributions of a job are counted that come with one burst: mostly the job of the packet before.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    job: u16,
    ranks: LcoreRanks<'a>,
    moment: Moment,
}

impl Counted<'_> {
    /// Of no job, at a time in nanoseconds of the lcores' clock.
    pub(crate) fn at(now: u64) -> Self {
        // The cells of the number 0 are found when they are first wanted, as those of any other.
        Self { job: 0, ranks: LcoreRanks::NONE, moment: Moment::at(now) }
    }
}

/// Classifies frames of one port.
#[derive(Debug, Clone, Copy)]
pub struct Classifier<'a> {
    /// The appliance.
    pub setup: &'a Setup,
    /// The jobs.
    pub table: &'a JobTable,
    /// Index of the port.
    pub port: usize,
    /// MAC of the port.
    pub mac: Mac,
    /// Time of arrival in nanoseconds.
    pub now: u64,
}

impl Classifier<'_> {
    /// What is to be done with a frame.
    #[inline]
    #[must_use]
    pub fn classify(&self, bytes: &[u8]) -> Class {
        match self.plain(bytes).and_then(|gradient| self.request(&gradient.brief(), bytes)) {
            Some(request) => Class::Pool(request),
            None => self.classify_any(bytes),
        }
    }

    /// A plain gradient from a member. `None` for anything else, which [`classify_any`] deals with, and for plain gradients with
    /// which something is wrong: it finds out what.
    ///
    /// [`classify_any`]: Self::classify_any
    #[inline(always)]
    #[must_use]
    pub fn plain(&self, bytes: &[u8]) -> Option<PlainGradient<'_>> {
        self.plain_after(bytes, &mut { Lengths::NONE })
    }

    /// The same for one of many: what it has in common with the one before is not checked again.
    #[inline(always)]
    #[must_use]
    pub fn plain_after(&self, bytes: &[u8], before: &mut Lengths) -> Option<PlainGradient<'_>> {
        #[expect(clippy::cast_possible_truncation, reason = "an appliance has few ports")]
        let port = self.port as u32;
        let (id, rank) = plain::job_and_rank(bytes)?;
        let flow = self.table.flow(id, rank)?;
        let plain = flow.expected.read(bytes, self.setup.compared(), port, flow.most, before)?;
        Some(PlainGradient { flow, plain, words: *before.words() })
    }

    /// What a plain gradient with these bytes wants of the pool.
    #[must_use]
    pub fn request(&self, brief: &Brief, bytes: &[u8]) -> Option<Request> {
        let (key, flags) = (brief.key(), plain::flags(bytes));
        let job = self.table.get(key.job())?;
        Some(Request {
            verb: Verb::Add,
            key,
            rank: brief.rank(),
            fan_in: job.fan_in,
            job_fan_in: job.fan_in,
            needed: job.needed,
            count: 1,
            inside: 0,
            element: brief.element(),
            overflow: flags & Flags::OVERFLOW.bits() != 0,
            again: flags & Flags::RETRANSMISSION.bits() != 0,
            partial: false,
            priority: plain::priority(bytes),
            rules: job.rules(),
            offset: PAYLOAD_OFFSET,
            len: brief.shape().payload_len(),
            now: self.now,
        })
    }

    /// Notes that this lcore has received a plain gradient of a member.
    #[inline(always)]
    pub(crate) fn count<'a>(&'a self, brief: &Brief, lcore: usize, counted: &mut Counted<'a>) {
        let (job, rank, psn) = (brief.key().job(), brief.rank(), brief.key().psn());
        if counted.job != job || !counted.ranks.heard(rank, psn, counted.moment) {
            counted.job = job;
            counted.ranks = self.table.get(job).map_or(LcoreRanks::NONE, |job| job.counts().of(lcore));
            counted.ranks.heard(rank, psn, counted.moment);
        }
    }

    /// Notes that its rank had sent it before.
    pub(crate) fn count_again(&self, brief: &Brief, lcore: usize) {
        if let Some(job) = self.table.get(brief.key().job()) {
            job.cells.again(lcore, brief.rank());
        }
    }

    /// A packet of the parameter server in the appliance itself, which begins with its aggregation header.
    ///
    /// # Errors
    /// The reason for which it is to be dropped.
    pub fn of_server(&self, bytes: &[u8]) -> Result<(Header, Payload), DropReason> {
        let (header, rest) = Header::parse(bytes).map_err(reason)?;
        let (payload, _) = header.payload(rest).map_err(reason)?;
        Ok((header, place(header::LEN, payload, rest)))
    }

    /// What is to be done with a frame of any kind.
    #[must_use]
    pub fn classify_any(&self, bytes: &[u8]) -> Class {
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(malformed) => return self.malformed(bytes, malformed),
        };
        let heard = frame.dst == self.mac || frame.dst.is_group();
        match frame.net {
            Net::Ip(ip) if self.owns(ip.dst) && heard => {
                if ip.protocol == protocol::UDP {
                    return self.udp(bytes, &ip);
                }
                self.icmp(bytes, &ip).unwrap_or(Class::Drop(DropReason::NoService))
            }
            Net::Ip(ip) if ip.protocol == protocol::ICMPV6 && frame.dst.is_group() => {
                match self.icmp(bytes, &ip) {
                    Some(solicitation @ Class::Solicitation(_)) => solicitation,
                    _ => Class::Bypass,
                }
            }
            Net::OpaqueIp(dst, why) if self.owns(dst) && frame.dst == self.mac => why.into(),
            Net::Arp(at) if heard => self.arp(bytes, at),
            _ => Class::Bypass,
        }
    }

    /// A frame that the parser refuses is dropped only where it is meant for this port; on its way to somebody else it
    /// is theirs to judge.
    #[cold]
    fn malformed(&self, bytes: &[u8], malformed: Malformed) -> Class {
        match bytes.first_chunk::<ETH_LEN>() {
            Some(head) if head[..6] != self.mac.0 => Class::Bypass,
            _ => malformed.into(),
        }
    }

    #[inline]
    fn owns(&self, address: Address) -> bool {
        self.setup.addresses.contains(&address)
    }

    fn arp(&self, bytes: &[u8], at: usize) -> Class {
        match bytes.get(at..).map(Arp::parse) {
            Some(Ok(arp))
                if arp.operation == Operation::Request && self.owns(Address::from_v4(arp.target_ip)) =>
            {
                Class::Arp(at, arp)
            }
            _ => Class::Bypass,
        }
    }

    /// `None` if it is nothing that an own address answers.
    fn icmp(&self, bytes: &[u8], ip: &Ip) -> Option<Class> {
        if ip.protocol != protocol::ICMP && ip.protocol != protocol::ICMPV6 {
            return None;
        }
        match Icmp::parse(bytes, ip) {
            Err(malformed) => Some(malformed.into()),
            Ok(Icmp::Echo) if self.owns(ip.dst) => Some(Class::Echo),
            Ok(Icmp::Solicitation(target)) if self.owns(target) => Some(Class::Solicitation(target)),
            Ok(_) => None,
        }
    }

    #[inline]
    fn udp(&self, bytes: &[u8], ip: &Ip) -> Class {
        let udp = match ip.udp(bytes) {
            Ok(udp) => udp,
            Err(malformed) => return malformed.into(),
        };
        if !self.setup.udp_ports().has(udp.dst_port) {
            return Class::Drop(DropReason::NoService);
        }
        let body = bytes.get(udp.body..udp.body + udp.body_len).unwrap_or_default();
        let (header, rest) = match Header::parse(body) {
            Ok(parsed) => parsed,
            Err(malformed) => return malformed.into(),
        };
        match header.kind {
            Kind::Gradient | Kind::Result | Kind::Reminder => {
                self.pool(&header, rest, udp.body + header::LEN, (ip.src, udp.src_port))
            }
            Kind::Control => match Control::parse(rest) {
                Ok(control) if matches!(control.action, Action::FBcast | Action::Help) => {
                    let body = udp.body + header::LEN;
                    self.about_a_psn(control.action, &header, body, (ip.src, udp.src_port))
                }
                Ok(control) if control.action != Action::Ack => Class::Control(control),
                // From a parameter server to a rank.
                Ok(_) if header.flags.has(Flags::BYPASS) && self.table.get(header.job).is_some() => {
                    self.only_from_server(&header, rest, udp.body + header::LEN, (ip.src, udp.src_port))
                }
                Ok(_) => Class::Drop(DropReason::Control),
                Err(malformed) => malformed.into(),
            },
            Kind::Fetch => {
                self.only_from_server(&header, rest, udp.body + header::LEN, (ip.src, udp.src_port))
            }
            Kind::Update => self.update(&header, rest, udp.body + header::LEN, (ip.src, udp.src_port)),
            Kind::Ack => self.ack(&header, rest, udp.body + header::LEN, (ip.src, udp.src_port)),
            Kind::Partial => Class::Drop(DropReason::UnhandledKind),
        }
    }

    /// A packet that only a parameter server sends.
    fn only_from_server(&self, header: &Header, rest: &[u8], offset: usize, sender: (Address, u16)) -> Class {
        match self.table.get(header.job) {
            None => refuse(DropReason::UnknownJob, Status::UnknownJob, 0u16, header.job),
            Some(job) if !job.server.is_at(sender) => Class::Drop(DropReason::RankSpoofed),
            Some(_) => match header.payload(rest) {
                Ok((payload, _)) => Class::FromServer(*header, place(offset, payload, rest)),
                Err(malformed) => malformed.into(),
            },
        }
    }

    /// FBcast and Help (iSwitch, section 3.2) name a PSN: they are the pool's business.
    fn about_a_psn(&self, action: Action, header: &Header, body: usize, sender: (Address, u16)) -> Class {
        let job = match self.member_of(header, sender) {
            Ok(job) => job,
            Err(refused) => return refused,
        };
        if job.mode == Mode::Olaf || action == Action::FBcast && !job.partials {
            return refuse(DropReason::Control, Status::Unsupported, 0u16, action as u16);
        }
        let verb = if action == Action::FBcast { Verb::Release } else { Verb::Remind };
        Class::Pool(self.to_pool(verb, job, header, Payload { offset: narrow(body), len: 0, total: 0 }))
    }

    /// The job, once the sender has proved to be the member that it says it is.
    #[inline]
    fn member_of(&self, header: &Header, sender: (Address, u16)) -> Result<&Job, Class> {
        let Some(job) = self.table.get(header.job) else {
            return Err(refuse(DropReason::UnknownJob, Status::UnknownJob, 0u16, header.job));
        };
        if header.rank >= job.fan_in {
            return Err(Class::Drop(DropReason::RankOutOfRange));
        }
        if header.epoch != job.epoch {
            return Err(refuse(DropReason::WrongEpoch, Status::WrongEpoch, job.epoch, header.epoch));
        }
        let Some(member) = job.member(header.rank) else {
            return Err(refuse(DropReason::NotMember, Status::NotMember, 0u16, header.rank));
        };
        if (member.endpoint.address, member.endpoint.udp_port) != sender {
            return Err(Class::Drop(DropReason::RankSpoofed));
        }
        if job.halted {
            return Err(refuse(DropReason::Halted, Status::Halted, 0u16, 0u16));
        }
        Ok(job)
    }

    /// A request for the pool.
    #[must_use]
    pub fn to_pool(&self, verb: Verb, job: &Job, header: &Header, payload: Payload) -> Request {
        Request {
            verb,
            key: Key::new(header.job, header.epoch, header.psn),
            rank: header.rank,
            fan_in: header.fan_in,
            job_fan_in: job.fan_in,
            needed: job.needed,
            count: header.count,
            inside: 0,
            element: header.element.code(),
            overflow: header.flags.has(Flags::OVERFLOW),
            again: header.flags.has(Flags::RETRANSMISSION),
            partial: payload.total > payload.len,
            priority: header.priority,
            rules: job.rules(),
            offset: payload.offset,
            len: payload.len,
            now: self.now,
        }
    }

    /// A packet for the pool or the parameter server, once its sender has proved to be the member that it says it is, or the
    /// server itself.
    #[inline]
    fn pool(&self, header: &Header, rest: &[u8], offset: usize, sender: (Address, u16)) -> Class {
        let payload = match header.payload(rest) {
            Ok((payload, _)) => place(offset, payload, rest),
            Err(malformed) => return malformed.into(),
        };
        if self.table.get(header.job).is_some_and(|job| job.server.is_at(sender)) {
            return Class::FromServer(*header, payload);
        }
        let bypass = header.flags.has(Flags::BYPASS);
        if bypass && !self.table.get(header.job).is_some_and(Job::has_server) {
            return Class::Bypass;
        }
        let job = match self.member_of(header, sender) {
            Ok(job) => job,
            Err(refused) => return refused,
        };
        if payload.len > job.payload {
            return Class::Drop(DropReason::PayloadLength);
        }
        if bypass {
            return Class::ToServer(*header, payload);
        }
        if job.mode == Mode::Olaf {
            return Class::Drop(DropReason::UnhandledKind);
        }
        let verb = match header.kind {
            Kind::Gradient => Verb::Add,
            Kind::Result => Verb::Install,
            _ => Verb::Remind,
        };
        Class::Pool(self.to_pool(verb, job, header, payload))
    }

    /// Where a datagram ends: what lies behind it belongs to nobody. `None` for anything else.
    #[must_use]
    pub fn end(&self, bytes: &[u8]) -> Option<usize> {
        let Net::Ip(ip) = Frame::parse(bytes).ok()?.net else { return None };
        let udp = ip.udp(bytes).ok()?;
        Some(udp.body + udp.body_len)
    }

    /// The sender of a datagram, and its header, as they are needed to answer it. `None` for anything else.
    #[must_use]
    pub fn sender(&self, bytes: &[u8]) -> Option<(Endpoint, Header)> {
        let frame = Frame::parse(bytes).ok()?;
        let Net::Ip(ip) = frame.net else { return None };
        let udp = ip.udp(bytes).ok()?;
        let (header, _) = Header::parse(bytes.get(udp.body..)?).ok()?;
        let endpoint = Endpoint {
            port: self.port,
            mac: frame.src,
            vlan: frame.vlan,
            address: ip.src,
            udp_port: udp.src_port,
            local: ip.dst,
            local_udp_port: udp.dst_port,
        };
        Some((endpoint, header))
    }
}

#[cold]
fn refuse(reason: DropReason, status: Status, expected: impl Into<u32>, got: impl Into<u32>) -> Class {
    Class::Refuse(reason, Objection { status, expected: expected.into(), got: got.into() })
}

fn place(offset: usize, payload: &[u8], all: &[u8]) -> Payload {
    Payload { offset: narrow(offset), len: narrow(payload.len()), total: narrow(all.len()) }
}

/// Offsets and lengths within a frame: a frame's length fits 16 bits, since an IP packet's does.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
const fn narrow(value: usize) -> u16 {
    value as u16
}
