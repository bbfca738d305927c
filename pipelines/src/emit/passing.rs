//! What passes through in line: it never waits behind what the appliance makes.

use arrayvec::CapacityError;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, Tally};
use pascaline_wire::frame::ETH_LEN;

use super::{Emitter, Stage};
use crate::bridge::Ports;
use crate::io::{HEADER_ROOM, Io};
use crate::setup::Passing;

/// Frames of one that goes to several ports.
#[derive(Default)]
struct Tried {
    made: u64,
    /// Those that a stage has taken.
    taken: u64,
}

impl<B: PacketBuf> Stage<B> {
    /// Gives the frame back if there is no room.
    fn push_passing(&mut self, frame: B, passing: Passing) -> Option<B> {
        match passing {
            Passing::First => self.passing.try_push(frame).err().map(CapacityError::element),
            Passing::InTurn => self.push(frame),
        }
    }

    /// Hands a port what passes through. True if it has taken all of it: only then comes what else waits.
    #[cold]
    pub(super) fn send_passing<I: Io<Buf = B>>(
        &mut self,
        port: usize,
        io: &mut I,
        tally: &mut Tally,
    ) -> bool {
        let bytes = |frames: &[B]| frames.iter().map(PacketBuf::total_len).sum::<usize>();
        let before = (self.passing.len(), bytes(&self.passing));
        io.transmit_passing(port, &mut self.passing);
        tally.add(Counter::Sent, (before.0 - self.passing.len()) as u64);
        tally.add(Counter::SentBytes, (before.1 - bytes(&self.passing)) as u64);
        self.passing.is_empty()
    }
}

impl<I: Io> Emitter<I> {
    /// Puts a frame that passes through on a port's stage. If there is no room and the port takes nothing,
    /// the frame is dropped and counted.
    pub fn pass(&mut self, port: usize, frame: I::Buf, passing: Passing) {
        if let Err(frame) = self.stage_passing(port, frame, passing) {
            self.tally.forward_failed();
            self.recycle(frame);
        }
    }

    /// Sends off what passes through.
    pub fn flush_passing(&mut self) {
        for (port, stage) in self.stages.iter_mut().enumerate() {
            if !stage.passing.is_empty() {
                stage.send_passing(port, &mut self.io, &mut self.tally);
            }
        }
    }

    /// Before everything of the appliance's own, or in turn with it. Gives the frame back if there is no room
    /// and the port takes nothing.
    fn stage_passing(&mut self, port: usize, frame: I::Buf, passing: Passing) -> Result<(), I::Buf> {
        let frame = match self.stages.get_mut(port) {
            None => return Err(frame),
            Some(stage) => match stage.push_passing(frame, passing) {
                None => return Ok(()),
                Some(frame) => frame,
            },
        };
        self.send(port);
        let left = self.stages.get_mut(port).and_then(|stage| stage.push_passing(frame, passing));
        left.map_or(Ok(()), Err)
    }

    /// Sends a frame that passes through to several ports, as one that is forwarded, if any of them takes it.
    /// What the others do not take counts as frames of the appliance's own.
    ///
    /// Where the ports send several segments, a long frame is not copied: each port gets its Ethernet header
    /// in a buffer of its own, and a holder of the rest. Else each gets a copy but the first, which gets the
    /// frame.
    pub fn flood(&mut self, to: Ports, mut frame: I::Buf, passing: Passing) {
        let shares = frame.bytes().len() > HEADER_ROOM && to.iter().all(|port| self.io.multi_segment(port));
        let mut tried = Tried::default();
        match frame.bytes().first_chunk::<ETH_LEN>().copied() {
            Some(head) if shares && frame.advance(ETH_LEN) => {
                let tail = frame.freeze();
                for port in to.iter() {
                    let copy = self.headed(&head, &tail);
                    self.pass_copy(port, copy, passing, &mut tried);
                }
                if let Some(packet) = I::Buf::thaw(tail) {
                    self.recycle(packet);
                }
            }
            _ => {
                let Some(first) = to.first() else { return self.discard(frame, DropReason::NotForUs) };
                for port in to.without(first).iter() {
                    let copy = self.copied(&frame);
                    self.pass_copy(port, copy, passing, &mut tried);
                }
                self.pass_copy(first, Some(frame), passing, &mut tried);
            }
        }
        let forwarded = u64::from(tried.taken > 0);
        self.tally.add(Counter::Forwarded, 1);
        if forwarded == 0 {
            self.tally.forward_failed();
        }
        self.tally.add(Counter::FloodCopies, tried.made - forwarded);
    }

    fn pass_copy(&mut self, port: usize, copy: Option<I::Buf>, passing: Passing, tried: &mut Tried) {
        let Some(copy) = copy else { return };
        tried.made += 1;
        match self.stage_passing(port, copy, passing) {
            Ok(()) => tried.taken += 1,
            Err(copy) => {
                self.tally.add(Counter::TransmitDropped, 1);
                self.recycle(copy);
            }
        }
    }

    /// An Ethernet header and what follows it.
    fn headed(&mut self, head: &[u8; ETH_LEN], tail: &<I::Buf as PacketBuf>::Shared) -> Option<I::Buf> {
        let mut copy = self.header_buffer()?;
        let whole = copy.set_len(ETH_LEN);
        match copy.bytes_mut().first_chunk_mut() {
            Some(place) if whole => *place = *head,
            _ => {
                self.recycle(copy);
                return None;
            }
        }
        copy.append_shared(tail.clone());
        Some(copy)
    }

    fn copied(&mut self, frame: &I::Buf) -> Option<I::Buf> {
        let bytes = frame.bytes();
        let buffer = if bytes.len() > HEADER_ROOM { self.frame_buffer() } else { self.header_buffer() };
        let mut copy = buffer?;
        if copy.set_len(bytes.len()) {
            copy.bytes_mut().copy_from_slice(bytes);
            return Some(copy);
        }
        self.recycle(copy);
        None
    }
}
