//! Where packets come from and go to.

use core::time::Duration;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;

/// Most packets of one burst.
pub const BURST: usize = 32;

/// Most frames that wait for a port's transmit queue.
pub const STAGE: usize = 256;

/// The ports of one lcore: its own queue pair of each.
pub trait Io {
    /// A packet.
    type Buf: PacketBuf;

    /// Appends up to one burst of packets received on a port.
    fn receive(&mut self, port: usize, into: &mut ArrayVec<Self::Buf, BURST>);

    /// Sends frames from the front, as many as the port takes; the rest stays.
    fn transmit(&mut self, port: usize, frames: &mut ArrayVec<Self::Buf, STAGE>);

    /// Sends a few frames from the front that leave together, so that the caller can see to something else
    /// before the next ones.
    fn transmit_some(&mut self, port: usize, frames: &mut ArrayVec<Self::Buf, STAGE>) {
        self.transmit(port, frames);
    }

    /// As `transmit`, for frames that only pass through: by a queue of their own, where the port has one.
    fn transmit_passing(&mut self, port: usize, frames: &mut ArrayVec<Self::Buf, STAGE>) {
        self.transmit(port, frames);
    }

    /// Appends empty buffers for headers and short packets, each with room for [`HEADER_ROOM`] bytes, until
    /// `into` is full or there are no more.
    fn header_buffers(&mut self, into: &mut ArrayVec<Self::Buf, BURST>);

    /// An empty buffer with room for a whole frame.
    fn frame_buffer(&mut self) -> Option<Self::Buf>;

    /// True if the port can send a frame of several segments.
    fn multi_segment(&self, port: usize) -> bool;

    /// Frees packets.
    fn recycle(&mut self, spent: &mut ArrayVec<Self::Buf, BURST>);

    /// Sleeps for so long, or until a packet arrives, if the ports can tell.
    fn rest(&mut self, nap: Duration) {
        std::thread::sleep(nap);
    }

    /// Nanoseconds of a clock that all lcores share.
    fn now(&self) -> u64;
}

/// Room of a header buffer: the longest headers and a control body.
pub const HEADER_ROOM: usize = 192;
