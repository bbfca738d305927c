//! A connected UDP socket that moves datagrams in batches.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use core::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

/// Datagrams moved by one system call.
pub(super) const BATCH: usize = 64;

pub(super) struct Socket {
    udp: UdpSocket,
}

impl Socket {
    /// Opens a socket that talks to `peer` only, with room for `buffer` bytes each way if the system allows.
    pub(super) fn open(bind: Option<SocketAddr>, peer: SocketAddr, buffer: usize) -> io::Result<Self> {
        let any = match peer {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let udp = UdpSocket::bind(bind.unwrap_or(any))?;
        udp.connect(peer)?;
        udp.set_nonblocking(true)?;
        // Only root may exceed the system's limits; whatever size is granted is taken, a small buffer costs
        // retransmissions only.
        if setsockopt(&udp, sockopt::RcvBufForce, &buffer).is_err() {
            let _ = setsockopt(&udp, sockopt::RcvBuf, &buffer);
        }
        if setsockopt(&udp, sockopt::SndBufForce, &buffer).is_err() {
            let _ = setsockopt(&udp, sockopt::SndBuf, &buffer);
        }
        Ok(Self { udp })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// How long an IP packet to the peer may be, as far as this host knows; `None` if it does not say.
    pub(super) fn path_mtu(&self) -> Option<usize> {
        let mtu = match self.udp.peer_addr().ok()? {
            SocketAddr::V4(_) => nix::sys::socket::getsockopt(&self.udp, sockopt::IpMtu),
            SocketAddr::V6(_) => return None,
        };
        usize::try_from(mtu.ok()?).ok()
    }

    /// Waits until a datagram (or with `POLLOUT`: room for one) is there, or for `timeout`.
    pub(super) fn wait(&self, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.udp.as_fd(), events)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.udp.as_raw_fd()
    }

    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.udp.send(datagram)
    }

    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.udp.recv(buffer)
    }

    /// Receives what is there, up to [`BATCH`] datagrams, without waiting: into one of `places` each. Returns how many.
    pub(super) fn receive_batch<'a>(
        &self,
        headers: &mut MultiHeaders<SockaddrStorage>,
        mut places: impl Iterator<Item = &'a mut [u8]>,
        lengths: &mut [usize; BATCH],
    ) -> Result<usize, Errno> {
        let mut places: [[IoSliceMut<'_>; 1]; BATCH] =
            core::array::from_fn(|_| [IoSliceMut::new(places.next().unwrap_or_default())]);
        let received = recvmmsg(self.udp.as_raw_fd(), headers, &mut places, MsgFlags::MSG_DONTWAIT, None)?;
        Ok(lengths.iter_mut().zip(received).map(|(length, datagram)| *length = datagram.bytes).count())
    }
}
