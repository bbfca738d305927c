//! Packets that are not plain gradients, and those of the parameter server.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::{Request, Verb};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, JobEvent, Moment};
use pascaline_wire::arp;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::{Address, Frame, Mac, Net};
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::icmp;

use super::Lcore;
use crate::classify::{Class, Classifier, Payload};
use crate::emit;
use crate::io::{BURST, Io};
use crate::jobs::{JobTable, Mode};
use crate::membership::ControlRequest;
use crate::per_job::says_of_job;
use crate::server;
use crate::updates::Offer;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Packets that are not plain gradients.
    #[inline(never)]
    pub(super) fn others(&mut self, port: usize, mac: Mac, now: u64, packets: ArrayVec<I::Buf, BURST>) {
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let classifier = Classifier { setup: &setup, table: &table, port, mac, now };
        let mut offers = ArrayVec::new();
        for packet in packets {
            match classifier.classify_any(packet.bytes()) {
                Class::Bypass => self.other(&classifier, packet, Class::Bypass),
                _ if packet.bad_checksum() => self.emitter.discard(packet, DropReason::Checksum),
                Class::Pool(request) => {
                    let mut packet = packet;
                    // A trailer is found from the end.
                    if request.partial
                        && let Some(end) = classifier.end(packet.bytes())
                    {
                        packet.truncate(end);
                    }
                    self.offer(&table, &request, packet);
                }
                // At most one for each packet, so there is room.
                Class::Update(port, update) => _ = offers.try_push(Offer { port, update, packet }),
                other => self.other(&classifier, packet, other),
            }
        }
        if !offers.is_empty() {
            self.offer_updates(now, offers);
        }
    }

    /// Gives a packet to the pool, in the part that its job uses.
    fn offer(&mut self, table: &JobTable, request: &Request, packet: I::Buf) {
        let job = table.get(request.key.job());
        let region = job.and_then(|job| job.policy.region);
        if let Some(job) = job.filter(|_| request.verb == Verb::Add) {
            let &Request { key, rank, again, now, .. } = request;
            job.counts().of(self.number).heard(rank, key.psn(), Moment::at(now));
            if again {
                job.cells.again(self.number, rank);
            }
        }
        self.with_pool(|session, outcome| {
            let place = match region {
                None => session.place(request.key),
                Some(region) => session.place_in(region, request.key),
            };
            session.offer_at(place, request, packet, outcome);
        });
    }

    /// Takes what the parameter server in the appliance itself has sent. True if there was anything.
    pub(super) fn take_served(&mut self) -> bool {
        let Some(end) = self.server.clone().filter(|end| !end.from.is_empty()) else { return false };
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let now = self.emitter.io.now();
        let by = Classifier { setup: &setup, table: &table, port: 0, mac: Mac::default(), now };
        for _ in 0..BURST {
            let Some(packet) = end.from.pop() else { break };
            self.emitter.tally.add(Counter::Received, 1);
            self.emitter.tally.add(Counter::ReceivedBytes, packet.total_len() as u64);
            match by.of_server(packet.bytes()) {
                Ok((header, payload)) => self.served(&by, &header, payload, packet),
                Err(reason) => self.emitter.discard(packet, reason),
            }
        }
        true
    }

    /// A packet of the parameter server.
    fn served(&mut self, by: &Classifier<'_>, header: &Header, payload: Payload, mut packet: I::Buf) {
        let Some(job) = by.table.get(header.job).filter(|job| job.epoch == header.epoch) else {
            return self.emitter.discard(packet, DropReason::WrongEpoch);
        };
        let bypass = header.flags.has(Flags::BYPASS);
        match header.kind {
            Kind::Ack if job.mode == Mode::Olaf => self.acknowledged(by.now, job, header, payload, packet),
            _ if job.mode == Mode::Olaf => self.emitter.discard(packet, DropReason::UnhandledKind),
            Kind::Result | Kind::Reminder if bypass => {
                server::pass_to_rank(&mut self.emitter, job, header, payload, packet);
            }
            // Why a contribution was refused, which the server alone could see.
            Kind::Control if bypass && is_refusal(packet.bytes(), payload) => {
                server::pass_to_rank(&mut self.emitter, job, header, payload, packet);
            }
            Kind::Control => self.emitter.discard(packet, DropReason::Control),
            Kind::Result => {
                self.emitter.tally.add(Counter::ServerResults, 1);
                job.cells.count(self.number, JobEvent::ServerResults, 1);
                packet.truncate(usize::from(payload.offset) + usize::from(payload.total));
                // From no rank in particular.
                let request = by.to_pool(Verb::Install, job, &Header { rank: 0, ..*header }, payload);
                self.offer(by.table, &request, packet);
            }
            Kind::Fetch => {
                let request = by.to_pool(Verb::Fetch, job, header, payload);
                self.offer(by.table, &request, packet);
            }
            _ => self.emitter.discard(packet, DropReason::UnhandledKind),
        }
    }

    /// Counts a drop for the job that a packet names, if it says something about that job.
    fn dropped_of(&self, table: &JobTable, job: u16, reason: DropReason) {
        if says_of_job(reason)
            && let Some(job) = table.get(job)
        {
            job.cells.dropped(self.number, reason);
        }
    }

    /// Everything that is not the pool's business.
    fn other(&mut self, by: &Classifier<'_>, mut packet: I::Buf, class: Class) {
        let (port, mac) = (by.port, by.mac);
        match class {
            // Dealt with by the caller, all of them at once.
            Class::Pool(_) | Class::Update(..) => {}
            Class::ToServer(header, payload) => match by.table.get(header.job) {
                Some(job) => {
                    let end = self.server.as_ref();
                    let count = |event, count| job.cells.count(self.number, event, count);
                    if !server::pass_on(&mut self.emitter, end, job, &header, payload, packet) {
                        count(JobEvent::ServerFull, 1);
                    } else if header.kind == Kind::Gradient {
                        count(JobEvent::Bypassed, 1);
                        count(JobEvent::BypassedBytes, u64::from(payload.len));
                    }
                }
                None => self.emitter.discard(packet, DropReason::UnknownJob),
            },
            Class::FromServer(header, payload) => self.served(by, &header, payload, packet),
            Class::Drop(reason) => {
                if let Some((_, header)) = by.sender(packet.bytes()) {
                    self.dropped_of(by.table, header.job, reason);
                }
                self.emitter.discard(packet, reason);
            }
            Class::Refuse(reason, objection) => {
                if let Some((from, header)) = by.sender(packet.bytes()) {
                    self.dropped_of(by.table, header.job, reason);
                    self.with_pool(|_, outcome| outcome.refuse(by.now, &from, &header, objection));
                }
                self.emitter.discard(packet, reason);
            }
            Class::Bypass => match self.setup.ports.get(port).and_then(|own| own.peer) {
                Some(peer) => {
                    self.emitter.tally.add(Counter::Forwarded, 1);
                    self.emitter.stage(peer, packet, emit::Class::Forwarded);
                }
                None => self.emitter.discard(packet, DropReason::NotForUs),
            },
            Class::Control(control) => {
                let request = by.sender(packet.bytes()).map(|(from, header)| ControlRequest {
                    lcore: self.number,
                    from,
                    header,
                    control,
                });
                if request.is_some_and(|request| self.end.request(request)) {
                    self.emitter.tally.add(Counter::Answered, 1);
                    self.emitter.recycle(packet);
                } else {
                    self.emitter.discard(packet, DropReason::ControlFull);
                }
            }
            Class::Arp(at, request) => {
                let done = arp::answer_in_place(packet.bytes_mut(), at, &request, mac).is_ok();
                self.answer(port, packet, done);
            }
            Class::Echo => {
                let done = answer_echo(&mut packet, mac);
                self.answer(port, packet, done);
            }
            Class::Solicitation(target) => {
                let done = advertise(&mut packet, target, mac);
                self.answer(port, packet, done);
            }
        }
    }

    fn answer(&mut self, port: usize, packet: I::Buf, done: bool) {
        if done {
            self.emitter.tally.add(Counter::Answered, 1);
            self.emitter.stage(port, packet, emit::Class::Own);
        } else {
            self.emitter.discard(packet, DropReason::Truncated);
        }
    }
}

/// Turns an echo request into its reply. False for anything else.
fn answer_echo<B: PacketBuf>(packet: &mut B, mac: Mac) -> bool {
    let Ok(Frame { l3, src, net: Net::Ip(ip), .. }) = Frame::parse(packet.bytes()) else { return false };
    icmp::answer_echo_in_place(packet.bytes_mut(), l3, &ip, mac, src).is_ok()
}

/// Turns a solicitation into the advertisement that answers it, in the same buffer. False for anything else, or if
/// the buffer is too small.
fn advertise<B: PacketBuf>(packet: &mut B, target: Address, mac: Mac) -> bool {
    let Ok(Frame { l3, src, net: Net::Ip(ip), .. }) = Frame::parse(packet.bytes()) else { return false };
    if !packet.set_len(l3 + icmp::ADVERTISEMENT_PACKET_LEN) {
        return false;
    }
    let bytes = packet.bytes_mut();
    let Some(macs) = bytes.first_chunk_mut::<12>() else { return false };
    macs[..6].copy_from_slice(&src.0);
    macs[6..].copy_from_slice(&mac.0);
    bytes.get_mut(l3..).is_some_and(|packet| icmp::write_advertisement(packet, target, mac, ip.src).is_ok())
}

/// True if a packet's payload is the body of an Ack that answers no control packet and refuses something.
fn is_refusal(packet: &[u8], payload: Payload) -> bool {
    let begin = usize::from(payload.offset);
    let body = packet.get(begin..begin + usize::from(payload.len)).map(Control::parse);
    matches!(body, Some(Ok(ack)) if ack.action == Action::Ack && ack.answers.is_none() && ack.status != Status::Ok)
}
