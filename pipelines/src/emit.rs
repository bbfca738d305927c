//! What leaves: a stage per port and header buffers; `results` has the fan-out of results.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, Tally};
use pascaline_wire::header::Header;
use pascaline_wire::template::{PlainCommon, Template};

use crate::io::{BURST, HEADER_ROOM, Io, STAGE};
use crate::jobs::Member;
use crate::membership::Reply;

mod congestion;
mod foreign;
mod passing;
mod results;
mod sealed;

use congestion::Congested;
pub use congestion::Marks;
use results::Like;
pub use results::{echo, flags, result_header};

/// What waits for a port.
#[derive(Debug)]
struct Stage<B> {
    frames: ArrayVec<B, STAGE>,
    /// Their bytes.
    bytes: usize,
    /// What passes through, and leaves before them.
    passing: ArrayVec<B, STAGE>,
}

impl<B> Default for Stage<B> {
    fn default() -> Self {
        Self { frames: ArrayVec::new(), bytes: 0, passing: ArrayVec::new() }
    }
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
    /// From when on this appliance marks results itself, and whether it does.
    marks: Marks,
    congested: Congested,
    /// Something waits for a port that has not taken it.
    backlogged: bool,
    /// The number that something was last sealed with.
    sealed: u64,
    /// Counts.
    pub tally: Tally,
}

impl<I: Io> Emitter<I> {
    /// An emitter for `ports` ports, which marks results from there on.
    pub fn new(io: I, ports: usize, marks: Marks) -> Self {
        Self {
            io,
            swept_at: 0,
            stages: (0..ports).map(|_| Stage::default()).collect(),
            spare: ArrayVec::new(),
            spent: ArrayVec::new(),
            like: Like::NONE,
            common: PlainCommon::NONE,
            marks,
            congested: Congested::default(),
            backlogged: false,
            sealed: 0,
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

    /// Puts a frame of the appliance's own on a port's stage. A full stage is sent off first; if the port
    /// takes nothing, the frame is dropped and counted.
    #[inline]
    pub fn stage(&mut self, port: usize, frame: I::Buf) {
        match self.stages.get_mut(port) {
            Some(stage) => {
                if let Some(frame) = stage.push(frame) {
                    self.stage_full(port, frame);
                }
            }
            // A port that does not exist takes nothing.
            None => self.tally.add(Counter::TransmitDropped, 1),
        }
    }

    #[cold]
    fn stage_full(&mut self, port: usize, frame: I::Buf) {
        self.send(port);
        if let Some(frame) = self.stages.get_mut(port).and_then(|stage| stage.push(frame)) {
            self.tally.add(Counter::TransmitDropped, 1);
            self.recycle(frame);
        }
    }

    /// Hands a port as much of its stage as it takes. The rest waits for the next turn.
    fn send(&mut self, port: usize) {
        let (_, left) = self.send_by(port, I::transmit);
        self.backlogged |= left > 0;
    }

    /// Hands a port a few frames of its stage. True if it has taken some and there are more.
    pub fn send_some(&mut self, port: usize) -> bool {
        let (sent, left) = self.send_by(port, I::transmit_some);
        sent > 0 && left > 0
    }

    /// How many frames the port has taken, and how many are left.
    #[inline(always)]
    fn send_by(
        &mut self,
        port: usize,
        transmit: impl FnOnce(&mut I, usize, &mut ArrayVec<I::Buf, STAGE>),
    ) -> (usize, usize) {
        let Some(stage) = self.stages.get_mut(port) else { return (0, 0) };
        if !stage.passing.is_empty() && !stage.send_passing(port, &mut self.io, &mut self.tally)
            || stage.frames.is_empty()
        {
            return (0, stage.frames.len());
        }
        let before = (stage.frames.len(), stage.bytes);
        transmit(&mut self.io, port, &mut stage.frames);
        let left = stage.frames.len();
        stage.bytes = stage.frames.iter().map(PacketBuf::total_len).sum();
        self.tally.add(Counter::Sent, (before.0 - left) as u64);
        self.tally.add(Counter::SentBytes, (before.1 - stage.bytes) as u64);
        (before.0 - left, left)
    }

    /// Sends off all stages and frees what is spent: the end of a turn.
    pub fn flush(&mut self) {
        for port in 0..self.stages.len() {
            self.send(port);
        }
        if self.backlogged {
            self.look_at_queues();
        }
        if !self.spent.is_empty() {
            self.io.recycle(&mut self.spent);
        }
    }

    /// Frames that no port has taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.stages.iter().map(|stage| stage.frames.len() + stage.passing.len()).sum()
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
            self.tally.add(Counter::TransmitDropped, (stage.frames.len() + stage.passing.len()) as u64);
            stage.frames.clear();
            stage.passing.clear();
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
        self.stage_padded(port, bytes, 0)
    }

    /// Stages a short frame with `padding` zeros behind it.
    pub(crate) fn stage_padded(&mut self, port: usize, bytes: &[u8], padding: usize) -> bool {
        self.stage_whole(port, bytes, padding, &[])
    }

    /// Stages an answer of the control plane.
    pub fn stage_reply(&mut self, reply: &Reply) -> bool {
        self.stage_whole(reply.port, reply.frame(), reply.padding().into(), reply.tail())
    }

    /// As [`stage_padded`](Self::stage_padded), with `tail` behind the zeros.
    pub(crate) fn stage_whole(&mut self, port: usize, bytes: &[u8], padding: usize, tail: &[u8]) -> bool {
        let len = bytes.len() + padding + tail.len();
        let buffer = if len > HEADER_ROOM { self.frame_buffer() } else { self.header_buffer() };
        let Some(mut buffer) = buffer else { return false };
        let whole = buffer.set_len(len);
        if let (true, Some((place, rest))) = (whole, buffer.bytes_mut().split_at_mut_checked(bytes.len())) {
            place.copy_from_slice(bytes);
            let (zeros, end) = rest.split_at_mut(padding.min(rest.len()));
            zeros.fill(0);
            end.copy_from_slice(tail);
            self.stage(port, buffer);
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
            self.stage(port, packet);
        } else {
            debug_assert!(body > 0, "an empty packet has room");
            self.tally.add(Counter::NoBuffer, 1);
            self.recycle(packet);
        }
        written
    }
}
