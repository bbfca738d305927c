//! The slow path: everything but fast-path gradients, and the packets of the parameter server.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::{Request, Verb};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, JobEvent, Moment};
use pascaline_wire::control::{Action, Control, LEN, Status};
use pascaline_wire::frame::Mac;
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::{Datagram, arp, icmp};

use super::Lcore;
use super::from_above::below;
use crate::classify::{Class, Classifier, reason};
use crate::io::{BURST, Io};
use crate::jobs::{Endpoint, JobTable, Mode};
use crate::membership::{ControlRequest, Found, Reply};
use crate::meter::{ASKS, Bucket};
use crate::per_job::says_of_job;
use crate::server;
use crate::updates::Offer;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Packets that are no fast-path gradients.
    #[inline(never)]
    pub(super) fn others(&mut self, port: usize, mac: Mac, now: u64, packets: ArrayVec<I::Buf, BURST>) {
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let classifier = Classifier { setup: &setup, table: &table, port, mac, now };
        let mut offers = ArrayVec::new();
        for mut packet in packets {
            let class = classifier.classify(packet.bytes());
            match class {
                Class::Bypass => self.bypass(port, now, packet),
                Class::Foreign(request) => self.offer_foreign(&table, &request, packet),
                Class::ForeignDrop(job, reason) => self.drop_foreign(&table, job, reason, packet),
                _ if packet.bad_checksum() => self.emitter.discard(packet, DropReason::Checksum),
                Class::Pool(Request { key, .. }, _) if self.is_over_share(&table, key.job(), now) => {
                    self.drop_over_share(&table, key.job(), packet);
                }
                Class::Pool(request, _) if !self.may_ask(&table, &request) => {
                    if let Some(job) = table.get(request.key.job()) {
                        job.cells.dropped(self.number, DropReason::TooOften);
                    }
                    self.emitter.discard(packet, DropReason::TooOften);
                }
                Class::Pool(request, payload) => {
                    // A trailer is found from the end.
                    if request.partial {
                        packet.truncate(payload.end());
                    }
                    let job = table.get(request.key.job());
                    let request = job.map_or(request, |job| below(job, request));
                    self.offer(&table, &request, packet);
                }
                // At most one for each packet, so there is room.
                Class::Update(port, update) => _ = offers.try_push(Offer { port, update, packet }),
                Class::ToServer(datagram) => self.pass_to_server(&classifier, &datagram, packet),
                Class::FromServer(datagram) => self.served(&classifier, &datagram, packet),
                Class::FromAbove(datagram) => self.take_from_above(&classifier, &datagram, packet),
                Class::Control(datagram, control) => {
                    self.pass_to_control_plane(&table, (port, datagram), control, packet);
                }
                Class::Found(found) => self.pass_found(found, packet),
                Class::Drop(reason) => self.emitter.discard(packet, reason),
                Class::DropOf(datagram, reason) => {
                    self.dropped_of(&table, &datagram, reason);
                    if reason == DropReason::Control {
                        self.tell_not_sealed(&table, (port, now), &datagram, &packet);
                    }
                    self.emitter.discard(packet, reason);
                }
                Class::Reject(datagram, reason, objection) => {
                    self.dropped_of(&table, &datagram, reason);
                    let from = Endpoint::of(port, &datagram);
                    let len = packet.total_len();
                    self.with_pool(|_, sink| sink.refuse(now, (&from, len), &datagram.header, objection));
                    self.emitter.discard(packet, reason);
                }
                Class::Former(datagram) => self.tell_former(now, port, &datagram, packet),
                Class::Arp(..) | Class::Echo(..) | Class::Solicitation(..) => {
                    self.answer(port, mac, &class, packet);
                }
            }
        }
        if !offers.is_empty() {
            self.offer_updates(now, offers);
        }
    }

    /// Answers a Join of the protocol version before this one, at most once a second over all lcores.
    #[cold]
    fn tell_former(&mut self, now: u64, port: usize, datagram: &Datagram, packet: I::Buf) {
        let body = datagram.payload.from_header(packet.bytes());
        // The limit comes first: a flood of such Joins must not make a reply each.
        if let Some(mac) = self.setup.ports.get(port).map(|port| port.mac)
            && self.setup.may_tell_former(now)
            && let Some(reply) = Reply::to_former(&Endpoint::of(port, datagram), mac, body)
            && self.emitter.stage_bytes(reply.port, reply.frame())
        {
            self.emitter.tally.add(Counter::RefusalsSent, 1);
        }
        self.emitter.discard(packet, DropReason::Version);
    }

    /// A packet of a client of SwitchML's for the pool.
    fn offer_foreign(&mut self, table: &JobTable, request: &Request, packet: I::Buf) {
        let job = request.key.job();
        if self.is_over_share(table, job, request.now) {
            return self.drop_over_share(table, job, packet);
        }
        self.offer(table, request, packet);
    }

    /// A packet that is dropped on account of a job of SwitchML's clients.
    fn drop_foreign(&mut self, table: &JobTable, job: u16, reason: DropReason, packet: I::Buf) {
        if let Some(job) = table.get(job) {
            job.cells.dropped(self.number, reason);
        }
        self.emitter.discard(packet, reason);
    }

    /// True if a job sends more than its share of what comes to nothing: while there is more to do than the
    /// lcore can, or without an end.
    pub(super) fn is_over_share(&mut self, table: &JobTable, job: u16, now: u64) -> bool {
        let Some(tenant) = table.get(job).map(|job| job.tenant) else { return false };
        table.pauses(tenant, now) || self.overload.is_on() && !self.overload.admits(tenant)
    }

    /// Drops a packet of such a job.
    pub(super) fn drop_over_share(&mut self, table: &JobTable, job: u16, packet: I::Buf) {
        if let Some(job) = table.get(job) {
            job.cells.dropped(self.number, DropReason::PacketShare);
        }
        self.emitter.discard(packet, DropReason::PacketShare);
    }

    /// Whether a member may cause what it asks for. A contribution is answered with what is no longer than it
    /// is; anything else may go to all ranks, or bring back a payload.
    fn may_ask(&self, table: &JobTable, request: &Request) -> bool {
        let job = table.get(request.key.job()).filter(|_| request.verb != Verb::Add);
        let Some(job) = job else { return true };
        let asked = job.cells.asked(self.number, request.rank);
        let rate = ASKS.times(job.window.spread().into());
        asked.is_none_or(|asked| Bucket::take_from(asked, request.now, rate))
    }

    /// Gives a packet to the pool, in the part that its job uses.
    pub(super) fn offer(&mut self, table: &JobTable, request: &Request, packet: I::Buf) {
        let job = table.get(request.key.job());
        let region = job.and_then(|job| job.policy.region);
        if let Some(job) = job.filter(|_| request.verb == Verb::Add) {
            let &Request { key, rank, again, now, .. } = request;
            // PSNs of SwitchML's clients go from slot to slot: their differences say nothing.
            let at = job.switchml.as_ref().map_or(key.psn(), |switchml| switchml.packets(rank));
            job.counts().of(self.number).heard(rank, at, Moment::at(now));
            if again {
                job.cells.again(self.number, rank);
            }
        }
        self.with_pool(|session, sink| session.offer(request, region, packet, sink));
    }

    /// Takes what the parameter server in the appliance itself has sent. Says when it began, if there was
    /// anything.
    pub(super) fn take_served(&mut self) -> Option<u64> {
        let end = self.server.clone().filter(|end| !end.from.is_empty())?;
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let now = self.emitter.io.now();
        let by = Classifier { setup: &setup, table: &table, port: 0, mac: Mac::default(), now };
        for _ in 0..BURST {
            let Some(packet) = end.from.pop() else { break };
            self.emitter.tally.add(Counter::Received, 1);
            self.emitter.tally.add(Counter::ReceivedBytes, packet.total_len() as u64);
            let parsed = Datagram::parse_bare(packet.bytes()).and_then(|mut datagram| {
                datagram.split(packet.bytes())?;
                Ok(datagram)
            });
            match parsed {
                Ok(datagram) => self.served(&by, &datagram, packet),
                Err(malformed) => self.emitter.discard(packet, reason(malformed)),
            }
        }
        Some(now)
    }

    /// A packet of the parameter server.
    fn served(&mut self, by: &Classifier<'_>, datagram: &Datagram, mut packet: I::Buf) {
        let Datagram { header, payload, .. } = datagram;
        let Some(job) = by.table.get(header.job).filter(|job| job.epoch == header.epoch) else {
            return self.emitter.discard(packet, DropReason::WrongEpoch);
        };
        let bypass = header.flags.has(Flags::BYPASS);
        match header.kind {
            Kind::Ack if job.mode == Mode::Olaf => self.acknowledged(by.now, job, datagram, packet),
            _ if job.mode == Mode::Olaf => self.emitter.discard(packet, DropReason::UnhandledKind),
            Kind::Result | Kind::Reminder if bypass => {
                if header.kind == Kind::Result {
                    // Each rank may get this one's result in this way, and all go on then.
                    job.window.completed(self.number, header.psn);
                    self.limits.server.earn(job.tenant, 0);
                }
                server::pass_to_rank(&mut self.emitter, job, header, *payload, packet);
            }
            // Why a contribution was rejected, which the server alone could see.
            Kind::Control if bypass && is_rejection(payload.of(packet.bytes())) => {
                server::pass_to_rank(&mut self.emitter, job, header, *payload, packet);
            }
            Kind::Control => self.emitter.discard(packet, DropReason::Control),
            Kind::Result if !job.window.has(header.psn) => {
                self.emitter.discard(packet, DropReason::OutsideWindow);
            }
            Kind::Result => {
                self.emitter.tally.add(Counter::ServerResults, 1);
                self.limits.server.earn(job.tenant, job.fan_in);
                job.cells.count(self.number, JobEvent::ServerResults, 1);
                packet.truncate(payload.end());
                // From no rank in particular.
                let header = Header { rank: 0, ..*header };
                let request = by.to_pool(Verb::Install, job, &Datagram { header, ..*datagram });
                self.offer(by.table, &request, packet);
            }
            Kind::Fetch => {
                let request = by.to_pool(Verb::Fetch, job, datagram);
                self.offer(by.table, &request, packet);
            }
            _ => self.emitter.discard(packet, DropReason::UnhandledKind),
        }
    }

    /// Counts a drop for the job that a packet names, if it says something about that job.
    fn dropped_of(&self, table: &JobTable, datagram: &Datagram, reason: DropReason) {
        if says_of_job(reason)
            && let Some(job) = table.get(datagram.header.job)
        {
            job.cells.dropped(self.number, reason);
        }
    }

    fn pass_to_server(&mut self, by: &Classifier<'_>, datagram: &Datagram, packet: I::Buf) {
        let Datagram { header, payload, .. } = datagram;
        let Some(job) = by.table.get(header.job) else {
            return self.emitter.discard(packet, DropReason::UnknownJob);
        };
        let now = by.now;
        if !self.with_pool(|_, sink| sink.may_send(job, now)) {
            return self.emitter.discard(packet, DropReason::ServerShare);
        }
        if let Some(above) = &job.parent {
            return self.pass_up(job, above, datagram, packet);
        }
        let count = |event, count| job.cells.count(self.number, event, count);
        if !server::pass_on(&mut self.emitter, self.server.as_ref(), job, header, *payload, packet) {
            count(JobEvent::ServerFull, 1);
        } else if header.kind == Kind::Gradient {
            count(JobEvent::Bypassed, 1);
            count(JobEvent::BypassedBytes, u64::from(payload.len));
        }
    }

    fn pass_to_control_plane(
        &mut self,
        table: &JobTable,
        (port, mut datagram): (usize, Datagram),
        control: Control,
        packet: I::Buf,
    ) {
        // The only answers that come here are a parent's, with a trailer that has been looked at.
        let is_answer = control.action == Action::Ack;
        let trailer = is_answer.then(|| datagram.split(packet.bytes()).ok().flatten()).flatten();
        let operations = trailer.and_then(|trailer| trailer.operations);
        let (lcore, from, header) = (self.number, Endpoint::of(port, &datagram), datagram.header);
        let behind = || usize::from(datagram.payload.total).saturating_sub(LEN);
        let padding = if control.action == Action::Join { behind() } else { 0 };
        let padding = u16::try_from(padding).unwrap_or(0);
        let at_ns = self.emitter.io.now();
        let known = table.get(header.job).is_some_and(|job| job.knows(&datagram, &control));
        let request = ControlRequest { lcore, at_ns, from, header, control, padding, operations };
        if self.end.request(request, known) {
            self.emitter.tally.add(Counter::Answered, 1);
            self.emitter.recycle(packet);
        } else {
            self.emitter.discard(packet, DropReason::ControlFull);
        }
    }

    fn pass_found(&mut self, found: Found, packet: I::Buf) {
        if self.end.found(found) {
            self.emitter.tally.add(Counter::Answered, 1);
            self.emitter.recycle(packet);
        } else {
            self.emitter.discard(packet, DropReason::ControlFull);
        }
    }

    /// Turns a packet for an own address into its answer, in the same buffer.
    fn answer(&mut self, port: usize, mac: Mac, class: &Class, mut packet: I::Buf) {
        let done = match class {
            Class::Arp(l3, request) => arp::answer_in_place(packet.bytes_mut(), *l3, request, mac).is_ok(),
            Class::Echo(l3, ip) => icmp::answer_echo_in_place(packet.bytes_mut(), *l3, ip, mac).is_ok(),
            &Class::Solicitation(l3, asker, target) => {
                packet.set_len(l3 + icmp::ADVERTISEMENT_PACKET_LEN)
                    && icmp::advertise_in_place(packet.bytes_mut(), l3, asker, target, mac).is_ok()
            }
            _ => false,
        };
        if done {
            self.emitter.tally.add(Counter::Answered, 1);
            self.emitter.stage(port, packet);
        } else {
            self.emitter.discard(packet, DropReason::Truncated);
        }
    }
}

/// True if a payload is the body of an Ack that answers no control packet and rejects something.
fn is_rejection(payload: &[u8]) -> bool {
    matches!(Control::parse(payload), Ok(ack)
        if ack.action == Action::Ack && ack.answers.is_none() && ack.status != Status::Ok)
}
