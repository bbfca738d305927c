//! The way to the parameter server and back.
//!
//! Both directions carry whole packets of the protocol. A server inside the appliance gets them by queue,
//! from the aggregation header on; one in its own process gets frames, as a member does. No payload is
//! copied.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{self, Flags, Header};

use crate::emit::Emitter;
use crate::io::Io;
use crate::jobs::{Job, Server};

/// An lcore's ends of the queues to and from the server in the appliance itself. Packets begin with the
/// aggregation header.
#[derive(Debug)]
pub struct ServerEnd<B> {
    /// To the server.
    pub to: Arc<ArrayQueue<B>>,
    /// From the server.
    pub from: Arc<ArrayQueue<B>>,
}

impl<B> Clone for ServerEnd<B> {
    fn clone(&self) -> Self {
        Self { to: Arc::clone(&self.to), from: Arc::clone(&self.from) }
    }
}

/// Sends a packet to a job's server. It begins with its payload and has room for headers before it. False if
/// the server does not take it; the packet is then recycled.
pub(crate) fn send<I: Io>(
    emitter: &mut Emitter<I>,
    end: Option<&ServerEnd<I::Buf>>,
    job: &Job,
    header: &Header,
    mut packet: I::Buf,
) -> bool {
    let sent = match (&job.server, end) {
        (Server::External { endpoint, template }, _) => match emitter.sealed_in_place(job, header, packet) {
            Some((header, packet)) => emitter.send_in_place(endpoint.port, template, &header, packet),
            None => false,
        },
        (Server::Embedded, Some(end)) => {
            let written = packet.retreat(header::LEN)
                && packet.bytes_mut().first_chunk_mut().is_some_and(|place| {
                    *place = header.to_bytes();
                    true
                });
            match written.then_some(packet).map(|packet| end.to.push(packet)) {
                Some(Ok(())) => true,
                Some(Err(packet)) => {
                    emitter.recycle(packet);
                    false
                }
                None => false,
            }
        }
        _ => {
            emitter.recycle(packet);
            false
        }
    };
    if sent {
        emitter.tally.add(Counter::ServerSent, 1);
    }
    sent
}

/// Passes a received packet on to the server, with this header. Counts it as forwarded, or as dropped for
/// want of room.
pub(crate) fn pass_on<I: Io>(
    emitter: &mut Emitter<I>,
    end: Option<&ServerEnd<I::Buf>>,
    job: &Job,
    header: &Header,
    payload: Payload,
    mut packet: I::Buf,
) -> bool {
    let stripped = packet.advance(usize::from(payload.offset));
    packet.truncate(usize::from(payload.total));
    let sent = if stripped {
        send(emitter, end, job, header, packet)
    } else {
        emitter.recycle(packet);
        false
    };
    if sent {
        emitter.tally.add(Counter::Forwarded, 1);
    } else {
        emitter.tally.drop_one(DropReason::ServerFull);
    }
    sent
}

/// Passes a packet of the server on to the rank that it names.
pub(crate) fn pass_to_rank<I: Io>(
    emitter: &mut Emitter<I>,
    job: &Job,
    header: &Header,
    payload: Payload,
    mut packet: I::Buf,
) {
    let Some(member) = job.member(header.rank) else {
        return emitter.discard(packet, DropReason::NotMember);
    };
    if !packet.advance(usize::from(payload.offset)) {
        return emitter.discard(packet, DropReason::ServerFull);
    }
    packet.truncate(usize::from(payload.total));
    let header = Header { flags: without_bypass(header), ..*header };
    let port = member.endpoint.port;
    let sent = match emitter.sealed_in_place(job, &header, packet) {
        Some((header, packet)) => emitter.send_in_place(port, &member.template, &header, packet),
        None => false,
    };
    if sent {
        emitter.tally.add(Counter::Forwarded, 1);
    } else {
        emitter.tally.drop_one(DropReason::ServerFull);
    }
}

/// On the way to the appliance, BYPASS says that a result is for one rank. To the rank it is a result like
/// any other; a reminder keeps the flag, which asks for the original.
fn without_bypass(header: &Header) -> Flags {
    if header.kind == header::Kind::Reminder {
        return header.flags;
    }
    header.flags.without(Flags::BYPASS)
}
