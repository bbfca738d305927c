//! A connected UDP socket that moves datagrams in batches.
//!
//! An appliance with several UDP ports has a socket connected to each, all of them with one local address and
//! port. They stay connected because the kernel then knows the way and need not look for it with each packet.
//! What the appliance sends comes from its first port, so that one socket receives all of it.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use core::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, MultiHeaders, SockFlag, SockType, SockaddrStorage, bind, recvmmsg, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;
use pascaline_wire::UdpPorts;

/// Datagrams moved by one system call.
pub(super) const BATCH: usize = 64;

pub(super) struct Socket {
    udp: UdpSocket,
    /// To the ports behind the first one.
    others: Vec<UdpSocket>,
}

impl Socket {
    /// Opens a socket that talks to `peer` only, with room for `buffer` bytes each way if the system allows.
    pub(super) fn open(bind: Option<SocketAddr>, peer: SocketAddr, buffer: usize) -> io::Result<Self> {
        let udp = UdpSocket::bind(bind.unwrap_or(any(peer)))?;
        prepare(&udp, peer, buffer)?;
        Ok(Self { udp, others: Vec::new() })
    }

    /// Opens sockets that talk to these ports of `peer` and to nobody else.
    pub(super) fn open_to(
        bind: Option<SocketAddr>,
        peer: SocketAddr,
        ports: UdpPorts,
        buffer: usize,
    ) -> io::Result<Self> {
        if ports.count() == 1 {
            return Self::open(bind, peer, buffer);
        }
        let udp = shared(bind.unwrap_or(any(peer)))?;
        prepare(&udp, peer, buffer)?;
        let local = udp.local_addr()?;
        let others = (1..ports.count()).map(|at| {
            let other = shared(local)?;
            prepare(&other, SocketAddr::new(peer.ip(), ports.first() + at), buffer)?;
            Ok(other)
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        Ok(Self { udp, others })
    }

    /// The socket to a port, by its place among the ports.
    fn to(&self, place: usize) -> &UdpSocket {
        place.checked_sub(1).and_then(|place| self.others.get(place)).unwrap_or(&self.udp)
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
        self.wait_for(0, events, timeout)
    }

    /// Likewise, for the socket to a port.
    pub(super) fn wait_for(&self, place: usize, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.to(place).as_fd(), events)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The socket to a port.
    pub(super) fn fd_to(&self, place: usize) -> RawFd {
        self.to(place).as_raw_fd()
    }

    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.udp.send(datagram)
    }

    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.udp.recv(buffer)
    }

    /// Receives what is there, up to [`BATCH`] datagrams, without waiting: into one of `places` each. Returns
    /// how many.
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

fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    }
}

/// A socket whose local address and port others of this user may have too.
fn shared(local: SocketAddr) -> io::Result<UdpSocket> {
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReusePort, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(local))?;
    Ok(UdpSocket::from(fd))
}

fn prepare(udp: &UdpSocket, peer: SocketAddr, buffer: usize) -> io::Result<()> {
    udp.connect(peer)?;
    udp.set_nonblocking(true)?;
    // Only root may exceed the system's limits; whatever size is granted is taken, a small buffer costs
    // retransmissions only.
    if setsockopt(udp, sockopt::RcvBufForce, &buffer).is_err() {
        let _ = setsockopt(udp, sockopt::RcvBuf, &buffer);
    }
    if setsockopt(udp, sockopt::SndBufForce, &buffer).is_err() {
        let _ = setsockopt(udp, sockopt::SndBuf, &buffer);
    }
    Ok(())
}
