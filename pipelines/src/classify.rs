//! What a frame is, and what has to be done with it.

use pascaline_aggregator::{Key, Request, Verb};
use pascaline_queue::Update;
use pascaline_telemetry::DropReason;
use pascaline_wire::arp::Arp;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::datagram::{Datagram, Payload};
use pascaline_wire::frame::{Address, Frame, Ip, Mac, Net, protocol};
use pascaline_wire::header::{Flags, Kind};
use pascaline_wire::malformed::Malformed;

use crate::jobs::{Job, JobTable, Mode};
use crate::membership::Found;
use crate::setup::Setup;

mod above;
mod fast_path;
mod foreign;
mod neighbour;
mod unread;
mod update;

pub use fast_path::{FastGradient, PAYLOAD_OFFSET};

/// What has to be done with a frame. It carries what has been parsed: nothing is parsed twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Class {
    /// Business with the aggregator pool, and where the payload lies.
    Pool(Request, Payload),
    /// The same of a client of SwitchML's, whatever its checksums.
    Foreign(Request),
    /// Dropped, but it is the business of a job of SwitchML's clients.
    ForeignDrop(u16, DropReason),
    /// A member's packet for the parameter server.
    ToServer(Datagram),
    /// A member's update, and the port whose queue it belongs to.
    Update(usize, Update),
    /// A packet of the parameter server.
    FromServer(Datagram),
    /// A packet of the job's parent.
    FromAbove(Datagram),
    /// A control packet.
    Control(Datagram, Control),
    /// An answer to a question of the control plane's.
    Found(Found),
    /// An ARP request for an own address, and where it begins.
    Arp(usize, Arp),
    /// An echo request to an own address, and where its IP header begins.
    Echo(usize, Ip),
    /// A neighbour solicitation: where its IP header begins, who asks, and the own address that it is for.
    Solicitation(usize, Address, Address),
    /// Not for the appliance.
    Bypass,
    /// Dropped before it named a job.
    Drop(DropReason),
    /// Dropped, although its aggregation header is sound.
    DropOf(Datagram, DropReason),
    /// Dropped, and the worker should know why.
    Reject(Datagram, DropReason, Objection),
    /// A Join of the version before this one: its sender should hear of it.
    Former(Datagram),
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

/// The drop reason of a parser's objection.
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

/// Why a datagram is not taken: the drop reason, and what its sender should know.
type Untaken = (DropReason, Option<Objection>);

impl Classifier<'_> {
    /// What has to be done with a frame of any kind.
    #[must_use]
    pub fn classify(&self, bytes: &[u8]) -> Class {
        if self.table.has_foreign()
            && let Some(class) = self.foreign(bytes)
        {
            return class;
        }
        // What is rare gets copies: a reference would keep the layers of every frame in memory.
        let parsed = Frame::parse(bytes);
        let frame = match &parsed {
            Ok(frame) => frame,
            Err(malformed) => return self.malformed(bytes, *malformed),
        };
        let heard = frame.dst == self.mac || frame.dst.is_group();
        match &frame.net {
            Net::Ip(ip) if self.owns(ip.dst) && heard => {
                if ip.protocol == protocol::UDP {
                    return if self.setup.knows(ip) { self.udp(bytes, frame, ip) } else { Class::Bypass };
                }
                self.icmp(bytes, frame.l3, *ip).unwrap_or(Class::Drop(DropReason::NoService))
            }
            Net::Ip(ip) if ip.protocol == protocol::ICMPV6 && frame.dst.is_group() => {
                match self.icmp(bytes, frame.l3, *ip) {
                    Some(solicitation @ Class::Solicitation(..)) => solicitation,
                    _ => Class::Bypass,
                }
            }
            Net::OpaqueIp(dst, why) if self.owns(*dst) && frame.dst == self.mac => (*why).into(),
            Net::Arp if heard => self.arp(bytes, frame.l3),
            Net::Ip(_) | Net::OpaqueIp(..) | Net::Arp | Net::Other(_) => Class::Bypass,
        }
    }

    #[inline]
    fn owns(&self, address: Address) -> bool {
        self.setup.addresses.contains(&address)
    }

    #[inline(always)]
    fn udp(&self, bytes: &[u8], frame: &Frame, ip: &Ip) -> Class {
        let udp = match ip.udp(bytes) {
            Ok(udp) => udp,
            Err(malformed) => return malformed.into(),
        };
        if !self.setup.udp_ports().has(udp.dst_port) {
            return Class::Drop(DropReason::NoService);
        }
        match Datagram::parse(frame, ip, &udp) {
            Ok(mut datagram) => match datagram.header.kind {
                Kind::Gradient | Kind::Result | Kind::Reminder => self.pool(bytes, &mut datagram),
                Kind::Control | Kind::Fetch | Kind::Update | Kind::Ack | Kind::Partial => {
                    self.rarer(bytes, datagram)
                }
            },
            Err(malformed) => self.unread(bytes, malformed),
        }
    }

    #[inline(never)]
    fn rarer(&self, bytes: &[u8], mut datagram: Datagram) -> Class {
        let datagram = &mut datagram;
        let class = match datagram.header.kind {
            Kind::Gradient | Kind::Result | Kind::Reminder => return self.pool(bytes, datagram),
            Kind::Control => self.control(bytes, datagram),
            Kind::Fetch => self.only_from_server(bytes, datagram),
            Kind::Update => self.update(bytes, datagram),
            Kind::Ack => self.ack(bytes, datagram),
            Kind::Partial => Err((DropReason::UnhandledKind, None)),
        };
        class.unwrap_or_else(|why| rejected(*datagram, why))
    }

    fn control(&self, bytes: &[u8], datagram: &mut Datagram) -> Result<Class, Untaken> {
        if let Some(answer) = self.answer_from_above(bytes, datagram)? {
            return Ok(answer);
        }
        let control = Control::parse(datagram.payload.whole(bytes)).map_err(untaken)?;
        match control.action {
            Action::FBcast | Action::Help => self.about_a_psn(control.action, datagram),
            // From a parameter server to a rank.
            Action::Ack
                if datagram.header.flags.has(Flags::BYPASS)
                    && self.table.get(datagram.header.job).is_some() =>
            {
                self.only_from_server(bytes, datagram)
            }
            Action::Ack => Err((DropReason::Control, None)),
            // The control plane answers requests that it does not carry out, too.
            _ => Ok(Class::Control(*datagram, control)),
        }
    }

    /// A packet that only a parameter server sends.
    fn only_from_server(&self, bytes: &[u8], datagram: &mut Datagram) -> Result<Class, Untaken> {
        match self.table.get(datagram.header.job) {
            None => Err(reject(DropReason::UnknownJob, Status::UnknownJob, 0u16, datagram.header.job)),
            Some(job) if !job.server.is_at(datagram.sender) => Err((DropReason::RankSpoofed, None)),
            Some(_) => {
                datagram.split(bytes).map_err(untaken)?;
                Ok(Class::FromServer(*datagram))
            }
        }
    }

    /// FBcast and Help (iSwitch, section 3.2) name a PSN: they are the pool's business.
    fn about_a_psn(&self, action: Action, datagram: &Datagram) -> Result<Class, Untaken> {
        let (job, header) = (self.member_of(datagram)?, &datagram.header);
        if header.fan_in != job.fan_in {
            return Err(reject(DropReason::FanInMismatch, Status::FanInMismatch, job.fan_in, header.fan_in));
        }
        if job.mode == Mode::Olaf || action == Action::FBcast && !job.partials {
            return Err(reject(DropReason::Control, Status::Unsupported, 0u16, action as u16));
        }
        if !job.window.has(header.psn) {
            return Err((DropReason::OutsideWindow, None));
        }
        if action == Action::FBcast && !job.spec.control.admit(header.rank) {
            return Err(reject(DropReason::Control, Status::NotPermitted, 0u16, header.rank));
        }
        let verb = if action == Action::FBcast { Verb::Release } else { Verb::Remind };
        let payload = Payload::new(datagram.payload.offset.into(), 0);
        Ok(Class::Pool(self.to_pool(verb, job, &Datagram { payload, ..*datagram }), payload))
    }

    /// The job, once the sender has proved to be the member that it says it is.
    #[inline(always)]
    fn member_of(&self, datagram: &Datagram) -> Result<&Job, Untaken> {
        let header = &datagram.header;
        let Some(job) = self.table.get(header.job) else {
            return Err(reject(DropReason::UnknownJob, Status::UnknownJob, 0u16, header.job));
        };
        if header.rank >= job.fan_in {
            return Err((DropReason::RankOutOfRange, None));
        }
        // Nobody but the member learns from the answer whether the epoch was right.
        let Some(member) = job.member(header.rank) else {
            let reason =
                if header.epoch == job.epoch { DropReason::NotMember } else { DropReason::WrongEpoch };
            return Err(reject(reason, Status::NotMember, 0u16, header.rank));
        };
        if (member.endpoint.address, member.endpoint.udp_port) != datagram.sender {
            return Err((DropReason::RankSpoofed, None));
        }
        if header.epoch != job.epoch {
            return Err(reject(DropReason::WrongEpoch, Status::WrongEpoch, job.epoch, header.epoch));
        }
        if job.halted {
            return Err(reject(DropReason::Halted, Status::Halted, 0u16, 0u16));
        }
        Ok(job)
    }

    /// A request for the pool.
    #[must_use]
    #[inline(always)]
    pub fn to_pool(&self, verb: Verb, job: &Job, datagram: &Datagram) -> Request {
        let Datagram { header, payload, .. } = datagram;
        Request {
            verb,
            key: Key::new(header.job, header.epoch, header.psn),
            rank: header.rank,
            fan_in: header.fan_in,
            job_fan_in: job.fan_in,
            needed: job.needed,
            count: header.count,
            inside: 0,
            element: header.element.byte(header.flags.has(Flags::FIN)),
            overflow: header.flags.has(Flags::OVERFLOW),
            again: header.flags.has(Flags::RETRANSMISSION),
            marked: datagram.marked,
            partial: payload.total > payload.len,
            priority: header.own.priority(),
            rules: job.rules(),
            offset: payload.offset,
            len: payload.len,
            now: self.now,
        }
    }

    /// A packet for the pool or the parameter server, once its sender has proved to be the member that it
    /// says it is, or the server itself.
    #[inline(always)]
    fn pool(&self, bytes: &[u8], datagram: &mut Datagram) -> Class {
        if let Err(malformed) = datagram.split(bytes) {
            return rejected(*datagram, untaken(malformed));
        }
        let header = &datagram.header;
        let asked = self.table.get(header.job);
        if asked.is_some_and(|job| job.server.is_at(datagram.sender)) {
            return Class::FromServer(*datagram);
        }
        let bypass = header.flags.has(Flags::BYPASS);
        if bypass && asked.is_none() {
            return Class::Bypass;
        }
        let job = match self.member_of(datagram) {
            Ok(job) => job,
            // A parent is no member.
            Err(_) if self.is_from_above(datagram) => return Class::FromAbove(*datagram),
            Err(why) => return rejected(*datagram, why),
        };
        if datagram.payload.len > job.payload {
            return rejected(*datagram, (self.blamed(bytes, DropReason::PayloadLength), None));
        }
        if (bypass || job.mode == Mode::Olaf || !job.window.admits_at_once(header.psn))
            && let Err(class) = not_to_pool(job, *datagram, bypass)
        {
            return class;
        }
        let verb = match header.kind {
            Kind::Gradient => Verb::Add,
            Kind::Result => Verb::Install,
            _ => Verb::Remind,
        };
        Class::Pool(self.to_pool(verb, job, datagram), datagram.payload)
    }
}

/// What is done with a member's packet that has no business with the pool; else `Ok`.
#[cold]
#[inline(never)]
fn not_to_pool(job: &Job, datagram: Datagram, bypass: bool) -> Result<(), Class> {
    let why = match job.mode {
        Mode::Sync if !job.window.has(datagram.header.psn) => (DropReason::OutsideWindow, None),
        Mode::Sync | Mode::Olaf if bypass && job.reaches_server() => return Err(Class::ToServer(datagram)),
        Mode::Sync if bypass => (DropReason::NoServer, None), // Gone since it asked: ranks go on without it.
        Mode::Olaf if bypass => reject(DropReason::NoServer, Status::NoServer, 0u16, 0u16),
        Mode::Olaf => (DropReason::UnhandledKind, None),
        Mode::Sync => return Ok(()),
    };
    Err(rejected(datagram, why))
}

#[cold]
#[inline(never)]
fn rejected(datagram: Datagram, (reason, objection): Untaken) -> Class {
    match objection {
        None => Class::DropOf(datagram, reason),
        Some(objection) => Class::Reject(datagram, reason, objection),
    }
}

fn untaken(malformed: Malformed) -> Untaken {
    (reason(malformed), None)
}

#[cold]
fn reject(reason: DropReason, status: Status, expected: impl Into<u32>, got: impl Into<u32>) -> Untaken {
    (reason, Some(Objection { status, expected: expected.into(), got: got.into() }))
}
