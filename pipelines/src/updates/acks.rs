//! The way back: a server's answers to updates, stamped with the queue's state (Olaf, sections 5 and 7).

use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::Datagram;
use pascaline_wire::header::{Flags, Header};
use pascaline_wire::template::Heads;
use pascaline_wire::trailer::{Trailer, Update};

use crate::emit::Emitter;
use crate::io::Io;
use crate::jobs::Job;

/// What an answer of the server says of the update that it answers.
pub(crate) fn answered(datagram: &Datagram, packet: &[u8]) -> Option<Update> {
    datagram.header.payload(datagram.payload.whole(packet)).ok()?.1?.update
}

/// Passes an answer of the server on with this trailer: with the flag BYPASS to the rank that it names, else
/// to every member of the cluster. Payload and header stay, the rank included: it says whose update is
/// answered.
pub(crate) fn acknowledge<I: Io>(
    emitter: &mut Emitter<I>,
    job: &Job,
    datagram: &Datagram,
    trailer: &Trailer,
    mut packet: I::Buf,
) {
    let Datagram { header, payload, .. } = datagram;
    let (start, len) = (usize::from(payload.offset), usize::from(payload.len));
    let alone = header.flags.has(Flags::BYPASS);
    if alone && job.member(header.rank).is_none() {
        return emitter.discard(packet, DropReason::NotMember);
    }
    let written = packet.advance(start)
        && packet.set_len(len + trailer.emitted_len())
        && packet.bytes_mut().get_mut(len..).is_some_and(|behind| trailer.emit(behind).is_ok());
    let header = Header { flags: header.flags.without(Flags::BYPASS).with(Flags::TRAILER), ..*header };
    let heads = Heads::new(&header, packet.bytes().len());
    let (true, Ok(heads)) = (written, heads) else {
        return emitter.discard(packet, DropReason::NoRoom);
    };
    emitter.tally.add(Counter::Forwarded, 1);
    if alone {
        if let Some(member) = job.member(header.rank)
            && emitter.send_in_place(member.endpoint.port, &member.template, &header, packet)
        {
            emitter.tally.add(Counter::AcksSent, 1);
        }
        return;
    }
    let packet = packet.freeze();
    let members = job.members().iter().flatten();
    for member in members {
        if emitter.send_shared(member, header.rank, &heads, packet.clone()) {
            emitter.tally.add(Counter::AcksSent, 1);
        }
    }
}
