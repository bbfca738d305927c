//! Batches of packets to be sent through a socket.
//!
//! Contributions that follow each other have one length. They go to the system as one long datagram, which it
//! cuts (UDP generic segmentation offload, `UDP_SEGMENT` in udp(7)): all of them pass the network stack at
//! once, up to the interface, or beyond it where the interface cuts.
//!
//! Not every path allows that: an interface refuses, or a raw socket at the far end of a virtual cable sees
//! datagrams before they are cut. So retransmissions are never sent in one piece, and if most packets sent in
//! one piece have to be sent again, no more are sent so.

use std::io::IoSlice;
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, sendmmsg};
use pascaline_wire::header;

use super::sealing::{SealedPackets, Sealing};
use super::socket::BATCH;
use crate::session::{Session, Transmit};

/// The most packets in one piece (`UDP_MAX_SEGMENTS` of the kernel's).
const PIECE_PACKETS: usize = 64;
/// The most in a small window: a full queue drops a piece as a whole.
const SMALL_PIECE: usize = 16;
/// A piece is this part of a large window, so that both ends have work.
const WINDOW_SHARE: u32 = 2;
/// The most bytes in one piece: the room of a UDP datagram over IPv4 or IPv6.
const PIECE_BYTES: usize = 65_000;
/// Packets sent in pieces before retransmissions are judged.
const TRIAL_PACKETS: u64 = 64;

/// The structures for sending in batches. The system's structures hold pointers, so it does not move to
/// another thread.
pub(super) struct Outgoing {
    plain: MultiHeaders<()>,
    pieces: MultiHeaders<()>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            plain: MultiHeaders::preallocate(BATCH, None),
            pieces: MultiHeaders::preallocate(BATCH, Some(nix::cmsg_space!(u16))),
        }
    }

    /// Sends packets from the batch's beginning, straight from where their parts lie, or sealed. Returns how
    /// many were taken, at least one. A sealed packet that the system has not taken is sealed anew.
    pub(super) fn send(
        &mut self,
        fd: RawFd,
        batch: &[Transmit],
        session: &Session,
        tensor: &[u8],
        (cutting, mut sealing): (&mut Cutting, Option<&mut Sealing>),
    ) -> Result<usize, Errno> {
        let batch = &batch[..batch.len().min(BATCH)];
        let per_piece = cutting.per_piece(session.allowed());
        // Up to the first two that can be in one piece; a single one goes as it is.
        let others = match per_piece {
            1 => batch.len(),
            _ => {
                batch.windows(2).position(|two| two[0].is_fresh() && two[1].is_fresh()).unwrap_or(batch.len())
            }
        };
        if others > 0 {
            return self.send_plain(fd, &Packets::of(&batch[..others], session, tensor, sealing)?);
        }
        let fresh = batch.iter().take_while(|packet| packet.is_fresh()).count();
        let packets = Packets::of(&batch[..fresh], session, tensor, sealing.as_deref_mut())?;
        match self.send_pieces(fd, &packets, per_piece) {
            Ok(sent) => {
                cutting.sent += sent as u64;
                Ok(sent)
            }
            // The interface cannot, or its frames are too short: then they are sent one by one.
            Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::EOPNOTSUPP) => {
                cutting.give_up("this host's interface does not cut long datagrams");
                self.send_plain(fd, &Packets::of(batch, session, tensor, sealing)?)
            }
            Err(error) => Err(error),
        }
    }

    fn send_plain(&mut self, fd: RawFd, packets: &Packets<'_>) -> Result<usize, Errno> {
        let parts: [[IoSlice<'_>; 3]; BATCH] = core::array::from_fn(|at| packets.parts(at).map(IoSlice::new));
        let no_control: [ControlMessage<'_>; 0] = [];
        let (parts, to_peer) = (&parts[..packets.batch.len()], [None; BATCH]);
        sendmmsg(fd, &mut self.plain, parts, to_peer, no_control, MsgFlags::MSG_DONTWAIT).map(Iterator::count)
    }

    fn send_pieces(&mut self, fd: RawFd, packets: &Packets<'_>, per_piece: usize) -> Result<usize, Errno> {
        // All have the first one's length, but for the last one of a tensor. It can be less than the job's
        // payload, which whole elements may not fill.
        let [header, payload, _] = packets.parts(0);
        let length = u16::try_from(header.len() + payload.len()).map_err(|_| Errno::EINVAL)?;
        // They have no trailer, but for a seal.
        let parts: [[IoSlice<'_>; 2]; BATCH] = core::array::from_fn(|at| {
            let [header, payload, _] = packets.parts(at);
            [IoSlice::new(header), IoSlice::new(payload)]
        });
        let mut pieces: [&[IoSlice<'_>]; BATCH] = [&[]; BATCH];
        let (mut count, batch) = (0, packets.batch);
        for piece in parts[..batch.len()].chunks(per_piece) {
            pieces[count] = piece.as_flattened();
            count += 1;
        }
        let (cut, to_peer) = ([ControlMessage::UdpGsoSegments(&length)], [None; BATCH]);
        let sent = sendmmsg(fd, &mut self.pieces, &pieces[..count], to_peer, cut, MsgFlags::MSG_DONTWAIT)?;
        Ok((sent.count() * per_piece).min(batch.len()))
    }
}

/// Packets as they go to the system.
struct Packets<'a> {
    batch: &'a [Transmit],
    session: &'a Session,
    tensor: &'a [u8],
    /// The same, if they are sealed.
    sealed: Option<SealedPackets<'a>>,
}

impl<'a> Packets<'a> {
    /// Those of a batch, or as many from its beginning as there is room for where they are sealed.
    fn of(
        batch: &'a [Transmit],
        session: &'a Session,
        tensor: &'a [u8],
        sealing: Option<&'a mut Sealing>,
    ) -> Result<Self, Errno> {
        let sealed = sealing.map(|sealing| sealing.seal_batch(batch, session, tensor));
        let count = sealed.as_ref().map_or(batch.len(), SealedPackets::count);
        // A session makes none that cannot be sealed.
        if count == 0 {
            return Err(Errno::EBADMSG);
        }
        Ok(Self { batch: &batch[..count], session, tensor, sealed })
    }

    /// Header, payload and trailer of one, or all in one piece; empty if there is none.
    fn parts(&self, at: usize) -> [&[u8]; 3] {
        match (&self.sealed, self.batch.get(at)) {
            (_, None) => [&[]; 3],
            (Some(sealed), Some(_)) => [sealed.packet(at), &[], &[]],
            (None, Some(packet)) => {
                let (payload, trailer) =
                    (self.session.payload(packet, self.tensor), self.session.trailer(packet));
                [&packet.header, payload, trailer]
            }
        }
    }
}

/// Whether a worker's contributions are sent in pieces, and how well that works.
#[derive(Debug)]
pub(super) struct Cutting {
    /// Bytes of a full packet from Pascaline's header on.
    length: u16,
    given_up: bool,
    /// Why, until it is reported.
    news: Option<&'static str>,
    /// Packets sent in pieces.
    sent: u64,
}

impl Cutting {
    /// For packets with this many bytes behind the header.
    pub(super) fn new(payload: u16) -> Self {
        let length = usize::from(payload) + header::LEN;
        // At least two must fit into a piece.
        let length = u16::try_from(length).ok().filter(|&length| usize::from(length) <= PIECE_BYTES / 2);
        Self { length: length.unwrap_or(0), given_up: length.is_none(), news: None, sent: 0 }
    }

    /// Packets in a piece while this many may be in flight.
    fn per_piece(&self, allowed: u32) -> usize {
        if self.given_up {
            return 1;
        }
        let share = usize::try_from(allowed / WINDOW_SHARE).unwrap_or(usize::MAX);
        (PIECE_BYTES / usize::from(self.length)).min(share.clamp(SMALL_PIECE, PIECE_PACKETS))
    }

    fn give_up(&mut self, why: &'static str) {
        self.given_up = true;
        self.news = Some(why);
    }

    /// Why packets are sent one by one from now on: once.
    pub(super) const fn take_warning(&mut self) -> Option<&'static str> {
        self.news.take()
    }

    /// Notes how many packets the worker has sent again in all.
    pub(super) fn look_at(&mut self, retransmissions: u64) {
        if !self.given_up && self.sent >= TRIAL_PACKETS && retransmissions > self.sent / 2 {
            self.give_up("most of what was sent in long datagrams did not arrive");
        }
    }
}

#[cfg(test)]
mod tests;
