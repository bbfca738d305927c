//! A UDP socket that moves datagrams in batches, from and to anybody.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

/// Datagrams moved by one system call.
pub(super) const BATCH: usize = 64;
/// Room for any datagram.
const LONGEST: usize = 65_535;
/// What the kernel is asked to hold of what arrives while the server is at work: all ranks of a job may fall
/// back to it in the same millisecond.
const BUFFER: usize = 32 << 20;

/// The socket, with room for a batch each way.
pub(super) struct Socket {
    udp: UdpSocket,
    incoming: MultiHeaders<SockaddrStorage>,
    places: Vec<Vec<u8>>,
    outgoing: MultiHeaders<SockaddrStorage>,
    queue: Vec<Vec<u8>>,
    queued: usize,
    /// Where everything goes.
    to: SockaddrStorage,
    /// Datagrams that the system would not send.
    pub(super) unsent: u64,
}

impl Socket {
    /// Binds an address, to send to another, with this DSCP if there is one.
    pub(super) fn open(bind: SocketAddr, to: SocketAddr, dscp: Option<u8>) -> io::Result<Self> {
        let udp = UdpSocket::bind(bind)?;
        let class = i32::from(dscp.unwrap_or_default()) << 2;
        match bind {
            SocketAddr::V4(_) => setsockopt(&udp, sockopt::Ipv4Tos, &class)?,
            SocketAddr::V6(_) => setsockopt(&udp, sockopt::Ipv6TClass, &class)?,
        }
        // Only root may exceed the system's limits. Whatever size is granted is taken: the protocol makes
        // losses good.
        if setsockopt(&udp, sockopt::RcvBufForce, &BUFFER).is_err() {
            let _ = setsockopt(&udp, sockopt::RcvBuf, &BUFFER);
        }
        Ok(Self {
            udp,
            incoming: MultiHeaders::preallocate(BATCH, None),
            places: (0..BATCH).map(|_| vec![0; LONGEST]).collect(),
            outgoing: MultiHeaders::preallocate(BATCH, None),
            queue: vec![Vec::new(); BATCH],
            queued: 0,
            to: SockaddrStorage::from(to),
            unsent: 0,
        })
    }

    /// Waits until a datagram is there, for `timeout`, or for a signal.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(self.udp.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives up to [`BATCH`] datagrams that are there to `handle`, each with its source. How many there were.
    pub(super) fn receive(
        &mut self,
        mut handle: impl FnMut(Option<SocketAddr>, &mut [u8]),
    ) -> io::Result<usize> {
        let mut sources = [None; BATCH];
        let mut lengths = [0; BATCH];
        let count = {
            let mut places = self.places.iter_mut();
            let mut parts: [[IoSliceMut<'_>; 1]; BATCH] = core::array::from_fn(|_| {
                [IoSliceMut::new(places.next().map_or(&mut [], |place| place.as_mut_slice()))]
            });
            let flags = MsgFlags::MSG_DONTWAIT;
            match recvmmsg(self.udp.as_raw_fd(), &mut self.incoming, &mut parts, flags, None) {
                Ok(received) => {
                    let fields = sources.iter_mut().zip(&mut lengths);
                    fields
                        .zip(received)
                        .map(|((source, length), datagram)| {
                            *source = datagram.address.as_ref().and_then(inet);
                            *length = datagram.bytes;
                        })
                        .count()
                }
                Err(Errno::EAGAIN | Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            }
        };
        let received = self.places.iter_mut().zip(lengths).zip(sources).take(count);
        for ((place, length), source) in received {
            handle(source, place.get_mut(..length).unwrap_or_default());
        }
        Ok(count)
    }

    /// Has `fill` write a further datagram to be sent, if it has one: it tells. The batch goes out with
    /// [`flush`](Self::flush), or when it is full.
    pub(super) fn queue(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        if self.queued == BATCH {
            self.flush();
        }
        let filled = self.queue.get_mut(self.queued).is_some_and(fill);
        self.queued += usize::from(filled);
        filled
    }

    /// Sends what is queued. Where the system has no room it waits; what the system refuses is counted and
    /// dropped.
    pub(super) fn flush(&mut self) {
        let mut done = 0;
        while done < self.queued {
            let parts: Vec<[IoSlice<'_>; 1]> =
                self.queue[done..self.queued].iter().map(|datagram| [IoSlice::new(datagram)]).collect();
            let to = vec![Some(self.to); parts.len()];
            let none: [ControlMessage<'_>; 0] = [];
            let flags = MsgFlags::empty();
            done += match sendmmsg(self.udp.as_raw_fd(), &mut self.outgoing, &parts, to, none, flags) {
                Ok(sent) => sent.count().max(1),
                Err(Errno::EINTR) => 0,
                Err(_) => {
                    // It is the first one that was refused.
                    self.unsent += 1;
                    1
                }
            };
        }
        self.queued = 0;
    }
}

/// An address of the Internet family.
fn inet(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    address.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into())
}
