//! What passes through in line: it never waits behind what the appliance makes.

use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, Tally};

use super::{Class, Emitter, Stage};
use crate::io::Io;

impl<B: PacketBuf> Stage<B> {
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
    /// Puts a frame that passes through on a port's stage, before everything of the appliance's own. If there
    /// is no room and the port takes nothing, the frame is dropped and counted.
    pub fn stage_passing(&mut self, port: usize, frame: I::Buf) {
        let Some(stage) = self.stages.get_mut(port) else { return self.count_unsent(Class::Forwarded) };
        let Err(full) = stage.passing.try_push(frame) else { return };
        self.send(port);
        let frame = full.element();
        let left = self.stages.get_mut(port).and_then(|stage| stage.passing.try_push(frame).err());
        if let Some(full) = left {
            self.count_unsent(Class::Forwarded);
            self.recycle(full.element());
        }
    }
}
