//! Opens packets of jobs whose packets are sealed, before they are sorted.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::VERSION;
use pascaline_wire::control::{self, Action, Control, SERVER_RANK, Status};
use pascaline_wire::datagram::Datagram;
use pascaline_wire::frame::{Frame, Ip, Net, protocol};
use pascaline_wire::header::{self, Header, Kind};
use pascaline_wire::shorten::shorten;

use super::Lcore;
use crate::io::{BURST, Io};
use crate::jobs::{Endpoint, JobTable};
use crate::membership::{Reply, answer_header};
use crate::meter::REFUSALS;
use crate::setup::Setup;

/// The result of opening a frame.
enum Opened {
    /// It is of no job whose packets are sealed.
    Other,
    /// It is the plain frame now, of this length.
    Plain(usize),
    /// It is not as its job demands.
    Not(u16, DropReason),
}

/// Where the aggregation header of a frame for the appliance begins, how long the datagram is, its sender's
/// port, and its IP header.
fn found(setup: &Setup, frame: &[u8]) -> Option<(usize, usize, u16, Ip)> {
    let Ok(Frame { net: Net::Ip(ip), .. }) = Frame::parse(frame) else { return None };
    if ip.protocol != protocol::UDP || !setup.addresses.contains(&ip.dst) || !setup.knows(&ip) {
        return None;
    }
    let udp = ip.udp(frame).ok().filter(|udp| setup.udp_ports().has(udp.dst_port))?;
    Some((udp.offset, udp.body.len(), udp.src_port, ip))
}

/// Opens a frame of a sealed job.
fn open(table: &JobTable, setup: &Setup, frame: &mut [u8]) -> Opened {
    let Some((offset, len, port, ip)) = found(setup, frame) else { return Opened::Other };
    let Some(datagram) = frame.get_mut(offset..offset + len) else { return Opened::Other };
    let Some(&[version, kind, _, _, j, k, r, s]) = datagram.first_chunk::<8>() else { return Opened::Other };
    let (id, rank) = (u16::from_be_bytes([j, k]), u16::from_be_bytes([r, s]));
    let Some(job) = table.get(id).filter(|_| version == VERSION) else { return Opened::Other };
    let above = job.parent.as_ref().and_then(|above| above.seals.as_ref());
    if let Some(opened) = above.and_then(|seals| seals.open((ip.src, port), datagram)) {
        let plain = opened.and_then(|len| shorten(frame, &ip, len).ok_or(DropReason::Forged));
        return plain.map_or_else(|reason| Opened::Not(id, reason), Opened::Plain);
    }
    let Some(seals) = &job.seals else { return Opened::Other };
    // What else a server sends names the rank that it is for.
    let server = job.spec.kind.server_at() == Some((ip.src, port));
    let own = if server { job.sessions.server.map(|(session, _)| session) } else { job.session(rank) };
    let asks = kind == Kind::Control as u8 && !(server && rank != SERVER_RANK);
    let session = if asks { session_in(datagram) } else { own };
    let Some(session) = session else { return Opened::Not(id, DropReason::NotMember) };
    let from = if server { SERVER_RANK } else { rank };
    match seals.open(from, (session, own == Some(session)), datagram) {
        Err(reason) => Opened::Not(id, reason),
        Ok(len) => shorten(frame, &ip, len).map_or(Opened::Not(id, DropReason::Forged), Opened::Plain),
    }
}

/// The session that a control packet names.
fn session_in(datagram: &[u8]) -> Option<u64> {
    let at = header::LEN + control::SESSION;
    datagram.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Opens packets of jobs whose packets are sealed, and drops those that are not as their job demands.
    #[cold]
    #[inline(never)]
    pub(super) fn open_seals(&mut self, port: usize, now: u64, packets: &mut ArrayVec<I::Buf, BURST>) {
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let mut kept = ArrayVec::<I::Buf, BURST>::new();
        for mut packet in packets.drain(..) {
            // One that a device has found wrong is dropped for that.
            let opened = match packet.bad_checksum() {
                true => Opened::Other,
                false => open(&table, &setup, packet.bytes_mut()),
            };
            match opened {
                Opened::Other => kept.push(packet),
                Opened::Plain(len) => {
                    packet.truncate(len);
                    kept.push(packet);
                }
                Opened::Not(id, reason) => {
                    if let Some(job) = table.get(id) {
                        job.cells.dropped(self.number, reason);
                        self.tell_demand((port, now), job.demand().unwrap_or(0), &packet);
                    }
                    self.emitter.discard(packet, reason);
                }
            }
        }
        *packets = kept;
    }

    /// Answers a malformed request, if it is a sealed Join or Serve of a job that demands no seals.
    #[cold]
    pub(super) fn tell_not_sealed(
        &mut self,
        table: &JobTable,
        at: (usize, u64),
        datagram: &Datagram,
        packet: &I::Buf,
    ) {
        let Some(job) = table.get(datagram.header.job) else { return };
        let is_sealed = pascaline_seal::counter(datagram.payload.from_header(packet.bytes())).is_some();
        if is_sealed && job.demand().is_none() {
            self.tell_demand(at, 0, packet);
        }
    }

    /// Answers a Join or Serve with what the job demands, at the rate of refusals to strangers. The answer
    /// proves nothing, and is no longer than the request.
    fn tell_demand(&mut self, (port, now): (usize, u64), demand: u32, packet: &I::Buf) {
        let frame = packet.bytes();
        let Some(own) = self.setup.ports.get(port) else { return };
        let Some((datagram, control)) = request(frame) else { return };
        if !self.limits.refusals[0].has(now, REFUSALS) {
            return;
        }
        let answer = Control {
            status: Status::Unproven,
            answers: Some(control.action),
            number: control.number,
            expected: demand,
            ..Control::request(Action::Ack, control.session)
        };
        let Header { fan_in, epoch, .. } = datagram.header;
        let header = answer_header(&datagram.header, fan_in, epoch);
        let reply = Reply::new(&Endpoint::of(port, &datagram), own.mac, &header, &answer);
        if reply.frame().len() <= packet.total_len() && self.emitter.stage_bytes(reply.port, reply.frame()) {
            self.limits.refusals[0].take(now, REFUSALS);
            self.emitter.tally.add(Counter::RefusalsSent, 1);
        }
    }
}

/// The Join or Serve in a frame, sealed or not.
fn request(frame: &[u8]) -> Option<(Datagram, Control)> {
    let layers = Frame::parse(frame).ok()?;
    let Net::Ip(ip) = layers.net else { return None };
    let datagram = Datagram::parse(&layers, &ip, &ip.udp(frame).ok()?).ok()?;
    let body = datagram.payload.from_header(frame).get(header::LEN..)?.first_chunk::<{ control::LEN }>()?;
    let asks = |control: &Control| matches!(control.action, Action::Join | Action::Serve);
    let control = Control::parse(body).ok().filter(asks);
    control.filter(|_| datagram.header.kind == Kind::Control).map(|control| (datagram, control))
}
