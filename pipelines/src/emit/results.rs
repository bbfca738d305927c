//! Results on their way to the members of a job: prepared headers, a payload that all share.

use pascaline_aggregator::Aggregate;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_telemetry::Counter;
use pascaline_wire::header::{Element, Flags, Header, Kind, Own};
use pascaline_wire::multicast::GROUP_RANK;
use pascaline_wire::template::{Heads, PLAIN, PlainCommon, PlainHead};

use super::Emitter;
use crate::io::Io;
use crate::jobs::hearers::Hearers;
use crate::jobs::{Job, JobTable, Member};

/// What the headers of a result say beside its PSN, in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Like(u64, u64);

impl Like {
    /// Of no result: there is no such key.
    pub(super) const NONE: Self = Self(u64::MAX, 0);

    #[inline(always)]
    fn of<S>(result: &Aggregate<'_, S>, len: u16, room_above: u16) -> Self {
        // All that there is, so that nothing of what comes to it is forgotten.
        let &Aggregate { key, element, fan_in, count, overflow, marked, partial, round, .. } = result;
        Self(
            key.to_bits() >> 32
                | u64::from(element) << 32
                | u64::from(overflow) << 40
                | u64::from(partial) << 41
                | u64::from(marked) << 42
                // It may change while a job's results are alike, and each lcore learns of it by itself.
                | u64::from(room_above) << 48,
            u64::from(fan_in) | u64::from(count) << 16 | u64::from(len) << 32 | u64::from(round) << 48,
        )
    }
}

impl<I: Io> Emitter<I> {
    /// Sends a result to one member.
    #[inline(never)]
    pub fn send_result(
        &mut self,
        member: &Member,
        rank: u16,
        heads: &Heads,
        payload: <I::Buf as PacketBuf>::Shared,
    ) {
        if self.send_shared(member, rank, heads, payload) {
            self.tally.add(Counter::ResultsSent, 1);
        }
    }

    /// Sends a result, of whose packets so much has been [prepared](Self::prepare), to members that are
    /// reached through one port, as most are: a header buffer for each, the payload shared.
    #[inline(always)]
    fn send_plain(
        &mut self,
        port: usize,
        heads: &[PlainHead],
        payload: &<I::Buf as PacketBuf>::Shared,
        len: usize,
    ) {
        let sent = self.compose(port, heads, payload, len);
        if let Some(rest @ [_, ..]) = heads.get(sent..) {
            self.send_rest(port, rest, payload, len);
        }
    }

    /// To those for whom there was no buffer at hand, or no room on the stage.
    #[inline(never)]
    fn send_rest(
        &mut self,
        port: usize,
        mut heads: &[PlainHead],
        payload: &<I::Buf as PacketBuf>::Shared,
        len: usize,
    ) {
        if port >= self.stages.len() {
            // A port that does not exist takes nothing.
            return self.tally.add(Counter::TransmitDropped, heads.len() as u64);
        }
        while !heads.is_empty() {
            let sent = self.compose(port, heads, payload, len);
            heads = heads.get(sent..).unwrap_or_default();
            if sent == 0 && !self.make_room(port, heads.len()) {
                return;
            }
        }
    }

    /// As many packets of a result as there are buffers at hand and room on the port's stage. Returns how
    /// many.
    #[inline(always)]
    fn compose(
        &mut self,
        port: usize,
        heads: &[PlainHead],
        payload: &<I::Buf as PacketBuf>::Shared,
        len: usize,
    ) -> usize {
        if self.spare.is_empty() {
            self.io.header_buffers(&mut self.spare);
        }
        let Some(stage) = self.stages.get_mut(port) else { return 0 };
        let common = &self.common;
        let sent = I::Buf::compose(&mut self.spare, &mut stage.frames, payload, heads, |head, out| {
            head.write(out, common);
        });
        stage.bytes += sent * (PLAIN + len);
        self.tally.add(Counter::ResultsSent, sent as u64);
        sent
    }

    /// Sends off a full stage. False if that was not what was missing, or did not help: then so many frames
    /// are given up.
    #[cold]
    fn make_room(&mut self, port: usize, frames: usize) -> bool {
        let full = self.stages.get(port).is_some_and(|stage| stage.frames.is_full());
        if full {
            self.send(port);
        }
        let room = self.stages.get(port).is_some_and(|stage| !stage.frames.is_full());
        match (full, room) {
            (true, true) => return true,
            (true, false) => self.tally.add(Counter::TransmitDropped, frames as u64),
            (false, _) => self.tally.add(Counter::NoBuffer, frames as u64),
        }
        false
    }

    /// Sends one member what others get, too: headers of its own, the payload shared where the port can send
    /// several segments. False if there was no buffer.
    pub fn send_shared(
        &mut self,
        member: &Member,
        rank: u16,
        heads: &Heads,
        payload: <I::Buf as PacketBuf>::Shared,
    ) -> bool {
        let port = member.endpoint.port;
        let frame = if self.io.multi_segment(port) {
            self.with_shared_payload(member, rank, heads, payload)
        } else {
            self.with_copied_payload(member, rank, heads, payload.bytes())
        };
        let sent = frame.is_some();
        if let Some(frame) = frame {
            self.stage(port, frame);
        }
        sent
    }

    fn with_shared_payload(
        &mut self,
        member: &Member,
        rank: u16,
        heads: &Heads,
        payload: <I::Buf as PacketBuf>::Shared,
    ) -> Option<I::Buf> {
        let mut frame = self.header_buffer()?;
        if frame.set_len(member.template.len())
            && member.template.write_for(frame.bytes_mut(), heads, rank, payload.bytes()).is_ok()
        {
            frame.append_shared(payload);
            return Some(frame);
        }
        self.recycle(frame);
        None
    }

    fn with_copied_payload(
        &mut self,
        member: &Member,
        rank: u16,
        heads: &Heads,
        payload: &[u8],
    ) -> Option<I::Buf> {
        let mut frame = self.frame_buffer()?;
        let len = member.template.len();
        if frame.set_len(len + payload.len())
            && let Ok(len) = member.template.write_for(frame.bytes_mut(), heads, rank, payload)
            && let Some(place) = frame.bytes_mut().get_mut(len..)
        {
            place.copy_from_slice(payload);
            self.tally.add(Counter::PayloadCopies, 1);
            return Some(frame);
        }
        self.recycle(frame);
        None
    }

    /// Sends a result to all members of its job.
    #[inline(always)]
    pub fn fan_out(
        &mut self,
        table: &JobTable,
        job: &Job,
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) {
        let len = result.payload.bytes().len();
        let plain = self.prepare(job, result, len);
        for group in table.groups(job) {
            if plain && self.io.multi_segment(group.port()) {
                self.send_plain(group.port(), table.heads(group), result.payload, len);
            } else {
                self.send_singly(job, table.ranks(group), result);
            }
        }
        if job.has_others() {
            self.send_otherwise(job, result);
        }
    }

    /// Sends a result to those who hear the job's group, and to others with other than plain headers.
    #[cold]
    #[inline(never)]
    fn send_otherwise(&mut self, job: &Job, result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>) {
        if let Some(seals) = &job.seals {
            return self.send_sealed((job, seals), (job.others(), job.hearers()), result);
        }
        self.send_singly(job, job.others(), result);
        let hearers = job.hearers();
        if let Some(heads) = self.said(job, result).heads().filter(|_| !hearers.is_empty()) {
            self.send_to_groups(hearers, &heads, result.payload);
        }
    }

    /// Sends a result to those who hear groups.
    pub(super) fn send_to_groups(
        &mut self,
        hearers: &[Hearers],
        heads: &Heads,
        payload: &<I::Buf as PacketBuf>::Shared,
    ) {
        for hearers in hearers {
            self.send_result(&hearers.group, GROUP_RANK, heads, payload.clone());
            self.tally.add(Counter::ResultsSpared, hearers.saved());
        }
    }

    /// Finds out what plain packets with a result, whose payload is so long, have in common: mostly the same
    /// as those with the one before, but for the PSN. False if there are none.
    #[inline(always)]
    fn prepare<S: SharedBuf>(&mut self, job: &Job, result: &Aggregate<'_, S>, len: usize) -> bool {
        let Ok(short) = u16::try_from(len) else { return false };
        let like = Like::of(result, short, job.window.room_above());
        if like != self.like {
            self.like = Like::NONE;
            let Some(common) = common(&self.said(job, result)) else { return false };
            (self.like, self.common) = (like, common);
        }
        self.common = self.common.with_psn(result.key.psn());
        true
    }

    /// Sends a result to some ranks, whatever their headers and ports are like.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_singly(
        &mut self,
        job: &Job,
        ranks: &[u16],
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) {
        if let Some(switchml) = &job.switchml {
            return self.send_foreign(job, switchml, ranks, result);
        }
        if let Some(seals) = &job.seals {
            return self.send_sealed((job, seals), (ranks, &[]), result);
        }
        let Some(heads) = self.said(job, result).heads() else { return };
        for &rank in ranks {
            if let Some(member) = job.member(rank) {
                self.send_result(member, rank, &heads, result.payload.clone());
            }
        }
    }
}

/// What plain packets with a result have in common.
#[cold]
#[inline(never)]
fn common<S: SharedBuf>(said: &Said<'_, '_, S>) -> Option<PlainCommon> {
    said.heads()?.plain()
}

/// A result, and what this appliance says with it.
pub(super) struct Said<'a, 'b, S> {
    pub(super) result: &'a Aggregate<'b, S>,
    pub(super) marked: bool,
    pub(super) cap: u16,
    /// The job's generation.
    pub(super) epoch: u16,
}

impl<S: SharedBuf> Said<'_, '_, S> {
    /// What its packets have in common. `None` for an element code that is not one, or a payload that no
    /// datagram holds, which the pool never has.
    pub(super) fn heads(&self) -> Option<Heads> {
        Heads::new(&self.header()?, self.result.payload.bytes().len()).ok()
    }

    /// Their header for rank 0; `None` for an element code that is not one.
    pub(super) fn header(&self) -> Option<Header> {
        let header = result_header(self.result, self.epoch)?;
        let flags = header.flags.with(echo(self.marked));
        Some(Header { flags, own: Own::vote(self.result.round, self.cap), ..header })
    }
}

/// The flags of a packet with values, of which this is the element's byte.
#[inline]
#[must_use]
pub fn flags(element: u8, overflow: bool, trailer: bool) -> Flags {
    let last = if element & Element::LAST != 0 { Flags::FIN } else { Flags::NONE };
    let overflow = if overflow { last.with(Flags::OVERFLOW) } else { last };
    if trailer { overflow.with(Flags::TRAILER) } else { overflow }
}

/// What tells of congestion, where there has been some.
#[inline]
#[must_use]
pub const fn echo(marked: bool) -> Flags {
    if marked { Flags::ECN_ECHO } else { Flags::NONE }
}

/// The header of a result packet for rank 0. `None` for an element code that is not one, which the pool never
/// has.
#[inline]
#[must_use]
pub fn result_header<S>(result: &Aggregate<'_, S>, epoch: u16) -> Option<Header> {
    Some(Header {
        flags: flags(result.element, result.overflow, result.partial).with(echo(result.marked)),
        psn: result.key.psn(),
        fan_in: result.fan_in,
        count: result.count,
        own: Own::vote(result.round, u16::MAX),
        ..Header::about(Kind::Result, Element::from_byte(result.element)?, result.key.job(), epoch)
    })
}
