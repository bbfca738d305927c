//! Results and reminders of jobs whose packets are sealed.

use pascaline_aggregator::Aggregate;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_seal::LONGER;
use pascaline_telemetry::Counter;
use pascaline_wire::header::{self, Flags, Header};

use super::Emitter;
use crate::io::{HEADER_ROOM, Io};
use crate::jobs::{Job, Member};
use crate::seals::Seals;

/// Bits of a number below those of its lcore.
const NUMBER_BITS: u32 = 56;

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

    /// Sends a result to some ranks: sealed once, in a copy, since the pool keeps what it is of.
    #[cold]
    #[inline(never)]
    pub(super) fn send_sealed(
        &mut self,
        (job, seals): (&Job, &Seals),
        ranks: &[u16],
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
    }

    /// Payload and trailer of a sealed result.
    fn seal_result(
        &mut self,
        job: &Job,
        seals: &Seals,
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) -> Option<<I::Buf as PacketBuf>::Shared> {
        let header = self.said(job, result).header()?;
        let mut copy = self.frame_buffer()?;
        let values = result.payload.bytes();
        let len = header::LEN + values.len();
        let sealed = copy.set_len(len + LONGER).then(|| {
            let bytes = copy.bytes_mut();
            header.emit(bytes).ok()?;
            bytes.get_mut(header::LEN..len)?.copy_from_slice(values);
            let number = self.seal_number();
            seals.unasked(number).seal(bytes, len)
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
        let mut sealed = [0; header::LEN + LONGER];
        let number = self.seal_number();
        let written = header.emit(&mut sealed).is_ok();
        if !written || seals.unasked(number).seal(&mut sealed, header::LEN).is_none() {
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
