//! The way back: a server's answers to updates, from it or from the appliance above, stamped with the state
//! of the bottleneck (Olaf, sections 5 and 7).

use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::Datagram;
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{Flags, Header};
use pascaline_wire::template::Heads;
use pascaline_wire::trailer::Trailer;

use crate::emit::Emitter;
use crate::io::Io;
use crate::jobs::Job;

/// What an answer says of the update that it answers, and of queues further up.
pub(crate) fn answered(datagram: &Datagram, packet: &[u8]) -> Option<Trailer> {
    datagram.header.payload(datagram.payload.whole(packet)).ok()?.1
}

/// Passes an answer on with this header and trailer: with the flag BYPASS to the rank that it names, else to
/// every member of the cluster. The rank says whose update is answered. An appliance that gets what is for
/// one alone has to know that, so there the flag stays.
pub(crate) fn acknowledge<I: Io>(
    emitter: &mut Emitter<I>,
    job: &Job,
    header: &Header,
    payload: Payload,
    trailer: &Trailer,
    mut packet: I::Buf,
) {
    let (start, len) = (usize::from(payload.offset), usize::from(payload.len));
    let alone = header.flags.has(Flags::BYPASS);
    let only = job.member(header.rank).filter(|_| alone);
    if alone && only.is_none() {
        return emitter.discard(packet, DropReason::NotMember);
    }
    let written = packet.advance(start)
        && packet.set_len(len + trailer.emitted_len())
        && packet.bytes_mut().get_mut(len..).is_some_and(|behind| trailer.emit(behind).is_ok());
    let stays = only.is_some_and(|member| member.appliance);
    let flags = if stays { header.flags } else { header.flags.without(Flags::BYPASS) };
    if !written {
        return emitter.discard(packet, DropReason::NoRoom);
    }
    // Sealed once, for all receivers.
    let header = Header { flags: flags.with(Flags::TRAILER), ..*header };
    let Some((header, packet)) = emitter.sealed_in_place(job, &header, packet) else {
        return emitter.tally.drop_one(DropReason::NoRoom);
    };
    let Ok(heads) = Heads::new(&header, packet.bytes().len()) else {
        return emitter.discard(packet, DropReason::NoRoom);
    };
    emitter.tally.add(Counter::Forwarded, 1);
    if let Some(member) = only {
        if emitter.send_in_place(member.endpoint.port, &member.template, &header, packet) {
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
