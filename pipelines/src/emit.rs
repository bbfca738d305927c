//! What leaves: a stage per port, header buffers, and the fan-out of results.

use arrayvec::ArrayVec;
use pascaline_aggregator::Aggregate;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_telemetry::{Counter, DropReason, Tally};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::template::{Heads, PLAIN, PlainCommon, PlainHead, Template};

use crate::io::{BURST, HEADER_ROOM, Io, STAGE};
use crate::jobs::{Job, JobTable, Member};

/// Whose making a frame is: decides how it is accounted for when it cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A received packet on its way through.
    Forwarded,
    /// The appliance's own.
    Own,
}

/// What waits for a port.
#[derive(Debug)]
struct Stage<B> {
    frames: ArrayVec<B, STAGE>,
    /// Their bytes.
    bytes: usize,
}

impl<B: PacketBuf> Stage<B> {
    /// Gives the frame back if there is no room.
    #[inline]
    fn push(&mut self, frame: B) -> Option<B> {
        let bytes = frame.total_len();
        match self.frames.try_push(frame) {
            Ok(()) => {
                self.bytes += bytes;
                None
            }
            Err(full) => Some(full.element()),
        }
    }
}

/// Everything on the way out of one lcore.
#[derive(Debug)]
pub struct Emitter<I: Io> {
    /// The ports.
    pub io: I,
    /// When the sweep that is under way began.
    pub swept_at: u64,
    /// What waits for each port.
    stages: Vec<Stage<I::Buf>>,
    /// What results are sent with: packets whose payloads have been added, with whatever is in them, and
    /// buffers for headers where there are none. The last one is in the first-level cache, very likely.
    spare: ArrayVec<I::Buf, BURST>,
    /// What is freed when the turn ends.
    spent: ArrayVec<I::Buf, BURST>,
    /// What plain packets with the last result have in common, and with those of what other results, but for
    /// the PSN.
    common: PlainCommon,
    like: Like,
    /// Counts.
    pub tally: Tally,
}

/// What the headers of a result say beside its PSN, in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Like(u64, u64);

impl Like {
    /// Of no result: there is no such key.
    const NONE: Self = Self(u64::MAX, 0);

    #[inline(always)]
    fn of<S>(result: &Aggregate<'_, S>, len: u16) -> Self {
        // All that there is, so that nothing of what comes to it is forgotten.
        let &Aggregate { key, element, fan_in, count, overflow, partial, first: _, round, payload: _ } =
            result;
        Self(
            key.to_bits() >> 32
                | u64::from(element) << 32
                | u64::from(overflow) << 40
                | u64::from(partial) << 41,
            u64::from(fan_in) | u64::from(count) << 16 | u64::from(len) << 32 | u64::from(round) << 48,
        )
    }
}

impl<I: Io> Emitter<I> {
    /// An emitter for `ports` ports.
    pub fn new(io: I, ports: usize) -> Self {
        Self {
            io,
            swept_at: 0,
            stages: (0..ports).map(|_| Stage { frames: ArrayVec::new(), bytes: 0 }).collect(),
            spare: ArrayVec::new(),
            spent: ArrayVec::new(),
            like: Like::NONE,
            common: PlainCommon::NONE,
            tally: Tally::default(),
        }
    }

    /// Takes a packet whose payload has been added, or made room: a result is sent with it, or it is freed.
    #[inline(always)]
    pub fn reuse(&mut self, packet: I::Buf) {
        if let Err(full) = self.spare.try_push(packet) {
            self.recycle(full.element());
        }
    }

    /// Frees a packet, together with others.
    #[inline]
    pub fn recycle(&mut self, packet: I::Buf) {
        if let Err(full) = self.spent.try_push(packet) {
            self.recycle_all(full.element());
        }
    }

    #[cold]
    fn recycle_all(&mut self, packet: I::Buf) {
        self.io.recycle(&mut self.spent);
        // There is room now, unless the port layer keeps what it should free; then dropping it is as good.
        let _ = self.spent.try_push(packet);
    }

    /// Drops a received packet and counts why.
    #[inline]
    pub fn discard(&mut self, packet: I::Buf, reason: DropReason) {
        self.tally.drop_one(reason);
        self.recycle(packet);
    }

    /// Puts a frame on a port's stage. A full stage is sent off first; if the port takes nothing, the frame
    /// is dropped and counted.
    #[inline]
    pub fn stage(&mut self, port: usize, frame: I::Buf, class: Class) {
        match self.stages.get_mut(port) {
            Some(stage) => {
                if let Some(frame) = stage.push(frame) {
                    self.stage_full(port, frame, class);
                }
            }
            // A port that does not exist takes nothing.
            None => self.count_unsent(class),
        }
    }

    #[cold]
    fn stage_full(&mut self, port: usize, frame: I::Buf, class: Class) {
        self.send(port);
        if let Some(frame) = self.stages.get_mut(port).and_then(|stage| stage.push(frame)) {
            self.count_unsent(class);
            self.recycle(frame);
        }
    }

    fn count_unsent(&mut self, class: Class) {
        match class {
            Class::Forwarded => self.tally.forward_failed(),
            Class::Own => self.tally.add(Counter::TransmitDropped, 1),
        }
    }

    /// Hands a port as much of its stage as it takes. The rest waits for the next turn.
    fn send(&mut self, port: usize) {
        let Some(stage) = self.stages.get_mut(port) else { return };
        if stage.frames.is_empty() {
            return;
        }
        let before = (stage.frames.len(), stage.bytes);
        self.io.transmit(port, &mut stage.frames);
        stage.bytes = stage.frames.iter().map(PacketBuf::total_len).sum();
        self.tally.add(Counter::Sent, (before.0 - stage.frames.len()) as u64);
        self.tally.add(Counter::SentBytes, (before.1 - stage.bytes) as u64);
    }

    /// Sends off all stages and frees what is spent: the end of a turn.
    pub fn flush(&mut self) {
        for port in 0..self.stages.len() {
            self.send(port);
        }
        if !self.spent.is_empty() {
            self.io.recycle(&mut self.spent);
        }
    }

    /// Frames that no port has taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.stages.iter().map(|stage| stage.frames.len()).sum()
    }

    /// Frames that a port has not taken yet.
    #[must_use]
    pub fn backlog(&self, port: usize) -> usize {
        self.stages.get(port).map_or(0, |stage| stage.frames.len())
    }

    /// Gives up on frames that no port has taken: the end of the lcore.
    ///
    /// All of them count as transmit drops: a forwarded one among them has been published as such turns ago,
    /// and published counters only grow.
    pub fn abandon(&mut self) {
        for stage in &mut self.stages {
            self.tally.add(Counter::TransmitDropped, stage.frames.len() as u64);
            stage.frames.clear();
            stage.bytes = 0;
        }
        self.spare.clear();
    }

    /// An empty buffer for headers.
    #[inline]
    pub fn header_buffer(&mut self) -> Option<I::Buf> {
        let mut buffer = I::Buf::renewed(&mut self.spare, HEADER_ROOM);
        if buffer.is_none() {
            self.io.header_buffers(&mut self.spare);
            buffer = I::Buf::renewed(&mut self.spare, HEADER_ROOM);
        }
        if buffer.is_none() {
            self.tally.add(Counter::NoBuffer, 1);
        }
        buffer
    }

    /// An empty buffer for a whole frame.
    fn frame_buffer(&mut self) -> Option<I::Buf> {
        let buffer = self.io.frame_buffer();
        if buffer.is_none() {
            self.tally.add(Counter::NoBuffer, 1);
        }
        buffer
    }

    /// Stages a short frame of the appliance's own making. One that is longer than a header buffer (an answer
    /// with the bitmap of many lost ranks) takes a whole frame's buffer.
    pub fn stage_bytes(&mut self, port: usize, bytes: &[u8]) -> bool {
        let buffer = if bytes.len() > HEADER_ROOM { self.frame_buffer() } else { self.header_buffer() };
        let Some(mut buffer) = buffer else { return false };
        let whole = buffer.set_len(bytes.len());
        if let (true, Some(place)) = (whole, buffer.bytes_mut().get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
            self.stage(port, buffer, Class::Own);
            true
        } else {
            self.recycle(buffer);
            false
        }
    }

    /// Stages a packet that consists of its headers only.
    pub fn stage_header(&mut self, member: &Member, header: &Header) -> bool {
        let mut bytes = [0u8; HEADER_ROOM];
        match member.template.write(&mut bytes, header, &[]) {
            Ok(len) => self.stage_bytes(member.endpoint.port, bytes.get(..len).unwrap_or_default()),
            Err(_) => false,
        }
    }

    /// Sends what begins with a payload, and has room before it, as it lies: with headers for one destination
    /// put in front. False, and the packet is given back to its pool, if there is no room.
    pub fn send_in_place(
        &mut self,
        port: usize,
        template: &Template,
        header: &Header,
        mut packet: I::Buf,
    ) -> bool {
        let len = template.len();
        let body = packet.bytes().len();
        let written = packet.retreat(len) && {
            let (head, body) = packet.bytes_mut().split_at_mut(len);
            debug_assert!(body.len() < usize::from(u16::MAX));
            template.write(head, header, body).is_ok()
        };
        if written {
            self.stage(port, packet, Class::Own);
        } else {
            debug_assert!(body > 0, "an empty packet has room");
            self.tally.add(Counter::NoBuffer, 1);
            self.recycle(packet);
        }
        written
    }

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
            self.stage(port, frame, Class::Own);
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
        let plain = self.prepare(result, len);
        for group in table.groups(job) {
            if plain && self.io.multi_segment(group.port()) {
                self.send_plain(group.port(), table.heads(group), result.payload, len);
            } else {
                self.send_singly(job, table.ranks(group), result);
            }
        }
        if job.has_others() {
            self.send_singly(job, job.others(), result);
        }
    }

    /// Finds out what plain packets with a result, whose payload is so long, have in common: mostly the same
    /// as those with the one before, but for the PSN. False if there are none.
    #[inline(always)]
    fn prepare<S: SharedBuf>(&mut self, result: &Aggregate<'_, S>, len: usize) -> bool {
        let Ok(short) = u16::try_from(len) else { return false };
        let like = Like::of(result, short);
        if like != self.like {
            self.like = Like::NONE;
            let Some(common) = common(result) else { return false };
            (self.like, self.common) = (like, common);
        }
        self.common = self.common.with_psn(result.key.psn());
        true
    }

    /// Sends a result to some ranks, whatever their headers and ports are like.
    #[cold]
    #[inline(never)]
    fn send_singly(
        &mut self,
        job: &Job,
        ranks: &[u16],
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) {
        let Some(heads) = heads(result) else { return };
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
fn common<S: SharedBuf>(result: &Aggregate<'_, S>) -> Option<PlainCommon> {
    heads(result)?.plain()
}

/// What the packets of a result have in common. `None` for an element code that is not one, or a payload that
/// no datagram holds, which the pool never has.
#[inline]
#[must_use]
pub fn heads<S: SharedBuf>(result: &Aggregate<'_, S>) -> Option<Heads> {
    Heads::new(&result_header(result)?, result.payload.bytes().len()).ok()
}

/// The flags of a packet with values.
#[inline]
#[must_use]
pub fn flags(overflow: bool, trailer: bool) -> Flags {
    let overflow = if overflow { Flags::OVERFLOW } else { Flags::NONE };
    if trailer { overflow.with(Flags::TRAILER) } else { overflow }
}

/// The header of a result packet for rank 0. `None` for an element code that is not one, which the pool never
/// has.
#[inline]
#[must_use]
pub fn result_header<S>(result: &Aggregate<'_, S>) -> Option<Header> {
    Some(Header {
        kind: Kind::Result,
        flags: flags(result.overflow, result.partial),
        element: Element::from_code(result.element)?,
        job: result.key.job(),
        rank: 0,
        psn: result.key.psn(),
        fan_in: result.fan_in,
        count: result.count,
        priority: result.round,
        wnd_cap: u16::MAX,
        tree: 0,
        epoch: result.key.epoch(),
    })
}
