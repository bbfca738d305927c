//! Batches between a session and a socket.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use core::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use pascaline_wire::UdpPorts;

use super::Notice;
use super::outgoing::{Cutting, Outgoing};
use super::sealing::Sealing;
use super::socket::{BATCH, PLACE, PLACES, Received, Socket};
use crate::counters::Ignored;
use crate::identity::Identity;
use crate::pieces::Pieces;
use crate::session::{Session, Transmit};

/// How long to wait for the system to take more packets before the rest of a batch is given up, to be
/// recovered like any lost packet.
const SEND_PATIENCE: Duration = Duration::from_millis(10);

/// Attempts at sending a batch while the system reports errors, most of which earlier packets have caused.
const SEND_ATTEMPTS: u32 = 3;
/// How often in a row packets have to be too long before that is believed.
const TOO_LONG_ATTEMPTS: u32 = 8;

/// The structures for moving batches. Made anew for each operation: the system's structures hold pointers, so
/// a worker that kept them could not move to another thread.
pub(super) struct Transfer<'a> {
    socket: &'a Socket,
    origin: &'a Instant,
    ports: UdpPorts,
    outgoing: Outgoing,
    cutting: &'a mut Cutting,
    sealing: Option<&'a mut Sealing>,
    batch: [Transmit; BATCH],
    bytes: &'a mut [u8],
    received: [Received; PLACES],
}

impl<'a> Transfer<'a> {
    /// `bytes` are [`PLACES`] of [`PLACE`] bytes.
    pub(super) fn new(
        socket: &'a Socket,
        ports: UdpPorts,
        origin: &'a Instant,
        (cutting, sealing): (&'a mut Cutting, Option<&'a mut Sealing>),
        bytes: &'a mut [u8],
    ) -> Self {
        Self {
            socket,
            origin,
            ports,
            outgoing: Outgoing::new(),
            cutting,
            sealing,
            batch: [Transmit::PLACEHOLDER; BATCH],
            bytes,
            received: [Received::default(); PLACES],
        }
    }

    /// Talks to another appliance from now on.
    pub(super) fn turn_to(&mut self, appliance: SocketAddr, ports: UdpPorts) -> io::Result<()> {
        self.ports = ports;
        transient(self.socket.turn_to(appliance, ports)).map(drop)
    }

    /// Sends all packets that the session has ready, of a tensor that may still have to be made.
    pub(super) fn flush(
        &mut self,
        session: &mut Session,
        tensor: &mut [u8],
        mut pieces: Option<&mut (dyn Pieces + '_)>,
    ) -> io::Result<()> {
        if let Some(sealing) = self.sealing.as_deref_mut() {
            let now = self.origin.elapsed();
            if sealing.renew(now) {
                session.ask_soon(now);
            }
        }
        loop {
            let now = self.origin.elapsed();
            let mut count = 0;
            while count < BATCH
                && let Some(packet) = session.poll_transmit(now)
            {
                self.batch[count] = packet;
                count += 1;
            }
            if self.ports.count() > 1 {
                // Packets to one port in one piece; first those that are not cut out of pieces.
                let ports = self.ports;
                self.batch[..count].sort_by_key(|packet| (packet.is_fresh(), place(ports, packet)));
            }
            if let Some(pieces) = &mut pieces {
                let reach = self.batch[..count].iter().map(Transmit::reach).max().unwrap_or(0);
                pieces.fill(tensor, reach);
            }
            self.send(now, count, session, tensor)?;
            self.cutting.look_at(session.counters().retransmissions);
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// Sends the batch's first `count` packets, all of them before anything is received: a result could
    /// overwrite the payloads.
    fn send(&mut self, now: Duration, count: usize, session: &mut Session, tensor: &[u8]) -> io::Result<()> {
        let mut batch = &self.batch[..count];
        let (mut attempts, mut too_long, mut not_sent) = (0, 0, 0);
        let (mut left, mut kept) = (false, false);
        while !batch.is_empty() {
            let to = place(self.ports, &batch[0]);
            let same = batch.iter().take_while(|packet| place(self.ports, packet) == to).count();
            let fd = self.socket.fd_to(to);
            let with = (&mut *self.cutting, self.sealing.as_deref_mut());
            match self.outgoing.send(fd, &batch[..same], session, tensor, with) {
                Ok(sent) => {
                    batch = &batch[sent..];
                    left = true;
                    continue;
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                    if !self.socket.wait_for(to, PollFlags::POLLOUT, SEND_PATIENCE)? {
                        break;
                    }
                }
                Err(error) if is_unreachable(error) => {
                    self.socket.note(to, error);
                    kept |= matches!(error, Errno::EACCES | Errno::EPERM);
                }
                // An ICMP message causes it once, and may be forged; an interface causes it each time.
                Err(Errno::EMSGSIZE) if too_long < TOO_LONG_ATTEMPTS => {
                    too_long += 1;
                    continue;
                }
                Err(Errno::EMSGSIZE) => {
                    session.note_too_long(self.socket.path_mtu());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            attempts += 1;
            if attempts >= SEND_ATTEMPTS {
                // A filter of this host may drop only this one: each of the others is tried.
                batch = &batch[1..];
                not_sent += 1;
            }
        }
        session.counters_mut().not_sent += not_sent + batch.len() as u64;
        if left || kept {
            session.note_left(now, !left);
        }
        Ok(())
    }

    /// Why packets are sent one by one from now on: once.
    pub(super) const fn take_warning(&mut self) -> Option<&'static str> {
        self.cutting.take_warning()
    }

    /// Receives waiting datagrams, without blocking. Returns how many places are filled.
    pub(super) fn receive(&mut self) -> io::Result<usize> {
        self.receive_at(self.socket)
    }

    /// Likewise, at another socket.
    pub(super) fn receive_at(&mut self, socket: &Socket) -> io::Result<usize> {
        match socket.receive_batch(self.bytes.chunks_exact_mut(PLACE), &mut self.received) {
            Ok(count) => Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::EMSGSIZE) => Ok(0),
            Err(error) if is_unreachable(error) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Handles the datagrams in the first `count` places, which [`receive`](Self::receive) returned last:
    /// opened ones, or why one does not open; and whether it is marked: it has met congestion.
    pub(super) fn each(&mut self, count: usize, mut handle: impl FnMut(Result<&[u8], Ignored>, bool)) {
        let now = self.origin.elapsed();
        for (bytes, received) in self.bytes.chunks_exact_mut(PLACE).zip(self.received).take(count) {
            for (datagram, marked) in received.datagrams(bytes) {
                match self.sealing.as_deref_mut() {
                    None => handle(Ok(datagram), marked),
                    Some(sealing) => {
                        let opened = sealing.open(now, datagram);
                        handle(opened.map(|length| &datagram[..length]), marked);
                    }
                }
            }
        }
    }

    /// Reports to the user what hinders seals.
    pub(super) fn notify(&mut self, notice: Notice, identity: &Identity) {
        if let Some(sealing) = self.sealing.as_deref_mut() {
            sealing.notify(notice, identity, self.origin.elapsed());
        }
    }
}

/// Which of the appliance's UDP ports a packet goes to, counted from the first one.
fn place(ports: UdpPorts, packet: &Transmit) -> usize {
    packet.psn().map_or(0, |psn| usize::from(ports.of(psn) - ports.first()))
}

/// Reports of ICMP, routing or a filter of this host about the peer may change before the deadline: an
/// appliance that is being started, a link that comes back. And any host that knows the two addresses and
/// ports can forge the ICMP messages that cause these.
pub(super) const fn is_unreachable(error: Errno) -> bool {
    matches!(
        error,
        Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETDOWN
            | Errno::EACCES
            | Errno::EPERM
            | Errno::ENONET
            | Errno::ENOPROTOOPT
            | Errno::EOPNOTSUPP
            | Errno::EPROTO
    )
}

/// `None` in place of errors that may pass.
pub(super) fn transient<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS | Errno::EMSGSIZE => Ok(None),
            errno if is_unreachable(errno) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;
