//! What lcores send that is sealed: results and reminders, and sums on their way to a parent.

use pascaline_aggregator::Aggregate;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_seal::{LONGER, NUMBER_BITS};
use pascaline_telemetry::Counter;
use pascaline_wire::header::{self, Flags, Header};
use pascaline_wire::template::Heads;

use super::Emitter;
use crate::io::{HEADER_ROOM, Io};
use crate::jobs::hearers::Hearers;
use crate::jobs::{Above, Job, Member};
use crate::seals::{Sealing, Seals};

impl<I: Io> Emitter<I> {
    /// The same, of this lcore: what it seals has numbers of its own.
    #[must_use]
    pub fn of_lcore(mut self, number: usize) -> Self {
        self.sealed = (number as u64) << NUMBER_BITS;
        self
    }

    /// A number that no packet has been sealed with.
    pub(crate) const fn seal_number(&mut self) -> u64 {
        self.sealed += 1;
        self.sealed
    }

    /// Sends a result to some ranks, and to those who hear groups: sealed once, in a copy, since the pool
    /// keeps what it is of.
    #[cold]
    #[inline(never)]
    pub(super) fn send_sealed(
        &mut self,
        (job, seals): (&Job, &Seals),
        (ranks, hearers): (&[u16], &[Hearers]),
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) {
        let Some(payload) = self.seal_result(job, seals, result) else { return };
        let sealed = Aggregate { payload: &payload, partial: true, ..*result };
        let Some(heads) = self.said(job, &sealed).heads() else { return };
        for &rank in ranks {
            if let Some(member) = job.member(rank) {
                self.send_result(member, rank, &heads, payload.clone());
            }
        }
        self.send_to_groups(hearers, &heads, &payload);
    }

    /// Payload and trailer of a sealed result.
    fn seal_result(
        &mut self,
        job: &Job,
        seals: &Seals,
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) -> Option<<I::Buf as PacketBuf>::Shared> {
        let header = self.said(job, result).header()?;
        let number = self.seal_number();
        self.sealed_copy(&header, result.payload.bytes(), &seals.unasked(number))
    }

    /// Payload and trailer of a sealed packet, in a buffer of their own.
    fn sealed_copy(
        &mut self,
        header: &Header,
        values: &[u8],
        sealing: &Sealing<'_>,
    ) -> Option<<I::Buf as PacketBuf>::Shared> {
        let mut copy = self.frame_buffer()?;
        let len = header::LEN + values.len();
        let sealed = copy.set_len(len + LONGER).then(|| {
            let bytes = copy.bytes_mut();
            header.emit(bytes).ok()?;
            bytes.get_mut(header::LEN..len)?.copy_from_slice(values);
            sealing.seal(bytes, len)
        });
        let Some(sealed) = sealed.flatten() else {
            self.tally.add(Counter::NoBuffer, 1);
            self.recycle(copy);
            return None;
        };
        self.tally.add(Counter::PayloadCopies, 1);
        copy.truncate(sealed);
        if copy.advance(header::LEN) {
            return Some(copy.freeze());
        }
        self.recycle(copy);
        None
    }

    /// Stages a packet of a job that consists of its headers only.
    pub fn stage_header_of(&mut self, job: &Job, member: &Member, header: &Header) -> bool {
        let Some(seals) = &job.seals else { return self.stage_header(member, header) };
        let number = self.seal_number();
        self.stage_sealed(member, header, &seals.unasked(number))
    }

    /// The same, to the job's parent.
    pub(crate) fn stage_header_above(&mut self, above: &Above, header: &Header) -> bool {
        match &above.seals {
            None => self.stage_header(&above.member, header),
            Some(seals) => self.stage_sealed(&above.member, header, &seals.sealing()),
        }
    }

    /// Sends a parent a packet with values. False if there was no buffer.
    pub(crate) fn send_above(
        &mut self,
        above: &Above,
        header: &Header,
        payload: <I::Buf as PacketBuf>::Shared,
    ) -> bool {
        let sealed = above.seals.as_ref().map(|seals| {
            let sealed = self.sealed_copy(header, payload.bytes(), &seals.sealing());
            sealed.map(|sealed| (sealed, header.flags.with(Flags::TRAILER)))
        });
        let Some((payload, flags)) = sealed.unwrap_or(Some((payload, header.flags))) else { return false };
        let heads = Heads::new(&Header { flags, ..*header }, payload.bytes().len());
        heads.is_ok_and(|heads| self.send_shared(&above.member, above.rank, &heads, payload))
    }

    /// A packet of a job as it is sent, with its header: sealed where it lies, if the job's packets are. It
    /// begins with its payload, and has room for headers before it. `None` if there is no room for a seal; it
    /// is recycled then.
    pub(crate) fn sealed_in_place(
        &mut self,
        job: &Job,
        header: &Header,
        packet: I::Buf,
    ) -> Option<(Header, I::Buf)> {
        let Some(seals) = &job.seals else { return Some((*header, packet)) };
        let number = self.seal_number();
        self.seal_in_place(header, packet, &seals.unasked(number))
    }

    /// The same, to the job's parent.
    pub(crate) fn sealed_above(
        &mut self,
        above: &Above,
        header: &Header,
        packet: I::Buf,
    ) -> Option<(Header, I::Buf)> {
        match &above.seals {
            None => Some((*header, packet)),
            Some(seals) => self.seal_in_place(header, packet, &seals.sealing()),
        }
    }

    fn seal_in_place(
        &mut self,
        header: &Header,
        mut packet: I::Buf,
        sealing: &Sealing<'_>,
    ) -> Option<(Header, I::Buf)> {
        let len = header::LEN + packet.bytes().len();
        let room = packet.retreat(header::LEN) && packet.set_len(len + LONGER);
        let sealed = room.then(|| {
            let bytes = packet.bytes_mut();
            header.emit(bytes).ok()?;
            sealing.seal(bytes, len)
        });
        if let Some(sealed) = sealed.flatten() {
            packet.truncate(sealed);
            if packet.advance(header::LEN) {
                return Some((Header { flags: header.flags.with(Flags::TRAILER), ..*header }, packet));
            }
        }
        self.recycle(packet);
        None
    }

    fn stage_sealed(&mut self, member: &Member, header: &Header, sealing: &Sealing<'_>) -> bool {
        let mut sealed = [0; header::LEN + LONGER];
        let written = header.emit(&mut sealed).is_ok();
        if !written || sealing.seal(&mut sealed, header::LEN).is_none() {
            return false;
        }
        let behind = &sealed[header::LEN..];
        let header = Header { flags: header.flags.with(Flags::TRAILER), ..*header };
        let mut bytes = [0u8; HEADER_ROOM];
        let Ok(len) = member.template.write(&mut bytes, &header, behind) else { return false };
        let Some(frame) = bytes.get_mut(..len + behind.len()) else { return false };
        frame[len..].copy_from_slice(behind);
        self.stage_bytes(member.endpoint.port, frame)
    }
}
