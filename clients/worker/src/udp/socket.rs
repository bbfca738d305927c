//! A connected UDP socket that moves datagrams in batches.
//!
//! An appliance with several UDP ports has a socket connected to each, all of them with one local address and
//! port. They stay connected so that the kernel need not look up the route with each packet. The appliance
//! sends from its first port, so that one socket receives all of its packets.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use core::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, MultiHeaders, SockFlag, SockType, SockaddrStorage, bind,
    recvmmsg, recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use pascaline_wire::{UdpPorts, ecn};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use crate::way::{Obstacle, Unreachable};

/// Most packets of one batch on its way out.
pub(super) const BATCH: usize = 128;
/// Places that one system call receives into. Datagrams that the kernel has joined (`UDP_GRO` in udp(7)) lie
/// in one.
pub(super) const PLACES: usize = 32;
/// Bytes of each: the longest datagram over IPv4 or IPv6, in whole cache lines.
pub(super) const PLACE: usize = 65_536;

/// The largest buffer that can be asked for. The kernel doubles it, as a signed number of 32 bits.
const MOST_ROOM: usize = 0x3fff_ffff;

/// The content of a place: its bytes, and the length of its datagrams except the last one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Received {
    bytes: usize,
    each: usize,
    /// The datagrams have met congestion. The kernel joins only those of one mark.
    marked: bool,
}

impl Received {
    /// The datagrams in a place, and whether they are marked.
    pub(super) fn datagrams(self, place: &mut [u8]) -> impl Iterator<Item = (&mut [u8], bool)> {
        let used = self.bytes.min(place.len());
        place[..used].chunks_mut(self.each.max(1)).map(move |datagram| (datagram, self.marked))
    }
}

pub(super) struct Socket {
    udp: UdpSocket,
    /// To the ports behind the first one.
    others: Vec<UdpSocket>,
    /// The latest report that has not been taken.
    report: Cell<Option<Unreachable>>,
    /// Whether packets ask to be marked instead of dropped.
    heeding: Cell<bool>,
    dscp: Cell<u8>,
}

impl Socket {
    /// Opens a socket that talks to `peer` only.
    pub(super) fn open(bind: Option<SocketAddr>, peer: SocketAddr) -> io::Result<Self> {
        let udp = UdpSocket::bind(bind.unwrap_or(any(peer)))?;
        prepare(&udp, peer)?;
        Ok(Self::of(udp, Vec::new()))
    }

    /// Opens sockets that talk only to these ports of `peer`.
    pub(super) fn open_to(bind: Option<SocketAddr>, peer: SocketAddr, ports: UdpPorts) -> io::Result<Self> {
        if ports.count() == 1 {
            return Self::open(bind, peer);
        }
        let wanted = bind.unwrap_or(any(peer));
        let udp = if wanted.port() == 0 {
            // With shared ports, the system could choose one that another worker has.
            let udp = UdpSocket::bind(wanted)?;
            setsockopt(&udp, sockopt::ReusePort, &true)?;
            udp
        } else {
            shared(wanted)?
        };
        prepare(&udp, peer)?;
        let local = udp.local_addr()?;
        let others = (1..ports.count()).map(|at| {
            let other = shared(local)?;
            prepare(&other, SocketAddr::new(peer.ip(), ports.first() + at))?;
            Ok(other)
        });
        let others = others.collect::<io::Result<Vec<_>>>()?;
        Ok(Self::of(udp, others))
    }

    /// A socket at this local address, which others may share, that receives only from `peer`.
    pub(super) fn open_shared(local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
        let udp = shared(local)?;
        prepare(&udp, peer)?;
        Ok(udp)
    }

    /// One that receives only.
    pub(super) fn listening(udp: UdpSocket) -> Self {
        Self::of(udp, Vec::new())
    }

    fn of(udp: UdpSocket, others: Vec<UdpSocket>) -> Self {
        Self { udp, others, report: Cell::new(None), heeding: Cell::new(false), dscp: Cell::new(0) }
    }

    /// Has all packets carry this DSCP.
    pub(super) fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        self.dscp.set(dscp);
        core::iter::once(&self.udp).chain(&self.others).try_for_each(|udp| self.set_class(udp, 0))
    }

    /// Sets the DSCP and ECN of a socket's packets.
    fn set_class(&self, udp: &UdpSocket, ecn: u8) -> io::Result<()> {
        let class = i32::from(self.dscp.get() << 2 | ecn);
        match udp.local_addr()? {
            SocketAddr::V4(_) => setsockopt(udp, sockopt::Ipv4Tos, &class)?,
            SocketAddr::V6(_) => setsockopt(udp, sockopt::Ipv6TClass, &class)?,
        }
        Ok(())
    }

    /// Talks to these ports of another peer from now on, from the same address and port: the peer knows this
    /// worker by them, should it come back.
    pub(super) fn turn_to(&self, peer: SocketAddr, ports: UdpPorts) -> io::Result<()> {
        for (udp, at) in core::iter::once(&self.udp).chain(&self.others).zip(0..) {
            udp.connect(SocketAddr::new(peer.ip(), ports.first() + at))?;
        }
        Ok(())
    }

    /// Makes room for this many bytes each way, if the system allows. Only root may exceed its limits; any
    /// size is accepted, since a small buffer only costs retransmissions.
    pub(super) fn make_room(&self, bytes: usize) {
        let bytes = bytes.min(MOST_ROOM);
        for udp in core::iter::once(&self.udp).chain(&self.others) {
            if setsockopt(udp, sockopt::RcvBufForce, &bytes).is_err() {
                let _ = setsockopt(udp, sockopt::RcvBuf, &bytes);
            }
            if setsockopt(udp, sockopt::SndBufForce, &bytes).is_err() {
                let _ = setsockopt(udp, sockopt::SndBuf, &bytes);
            }
        }
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
            SocketAddr::V4(_) => ip_mtu(&self.udp),
            SocketAddr::V6(_) => ipv6_mtu(&self.udp),
        };
        usize::try_from(mtu.ok()?).ok()
    }

    /// The report of ICMP or this host's kernel since the last call: why packets do not arrive.
    pub(super) fn report(&self) -> Option<Unreachable> {
        self.report.take()
    }

    /// Waits until a datagram (or with `POLLOUT`: room for one) is there, or for `timeout`.
    pub(super) fn wait(&self, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        self.wait_for(0, events, timeout)
    }

    /// Likewise, for the socket to a port.
    pub(super) fn wait_for(&self, place: usize, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.to(place).as_fd(), events)];
        let ready = poll(&mut fds, timeout)?;
        if has_reports(&fds[0]) {
            self.take_reports(place);
        }
        Ok(ready)
    }

    /// Waits until a datagram is there at one of them, or for `timeout`.
    pub(super) fn wait_any<'a>(
        sockets: impl Iterator<Item = &'a Self>,
        timeout: Duration,
    ) -> io::Result<bool> {
        let sockets: Vec<_> = sockets.collect();
        let polled = sockets.iter().map(|socket| PollFd::new(socket.udp.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<_> = polled.collect();
        let ready = poll(&mut fds, timeout)?;
        for (socket, _) in sockets.iter().zip(&fds).filter(|(_, fd)| has_reports(fd)) {
            socket.take_reports(0);
        }
        Ok(ready)
    }

    /// Empties the queue of errors: until then the socket is ready for any event.
    fn take_reports(&self, place: usize) {
        // With room for the message's mark, which comes first where marks are read: reports without room are
        // lost.
        let mut room = nix::cmsg_space!(
            [u8; size_of::<libc::sock_extended_err>() + size_of::<libc::sockaddr_in6>()],
            libc::c_int
        );
        let (fd, flags) = (self.fd_to(place), MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT);
        let here = self.local_addr().ok().map(|local| local.ip());
        let peer = self.to(place).peer_addr().ok().map(|peer| peer.ip());
        while let Ok(message) = recvmsg::<SockaddrStorage>(fd, &mut [], Some(&mut room), flags) {
            for told in message.cmsgs().into_iter().flatten() {
                let report = match told {
                    ControlMessageOwned::Ipv4RecvErr(error, by) => {
                        let by = by.map(|by| Ipv4Addr::from(u32::from_be(by.sin_addr.s_addr)).into());
                        reported(error, by, peer)
                    }
                    ControlMessageOwned::Ipv6RecvErr(error, by) => {
                        reported(error, by.map(|by| Ipv6Addr::from(by.sin6_addr.s6_addr).into()), peer)
                    }
                    _ => None,
                };
                // If no host answers for an address, this host reports it.
                let report = report
                    .map(|report| Unreachable { by: report.by.filter(|by| Some(*by) != here), ..report });
                self.report.set(report.or(self.report.get()));
            }
        }
    }

    /// The socket to a port.
    pub(super) fn fd_to(&self, place: usize) -> RawFd {
        self.to(place).as_raw_fd()
    }

    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.udp.send(datagram).inspect_err(|error| {
            self.note(0, Errno::from_raw(error.raw_os_error().unwrap_or(0)));
        })
    }

    /// Notes an error of sending. ICMP's reports are in the queue of errors; those of this host's own routes
    /// and filters are nowhere else.
    pub(super) fn note(&self, place: usize, error: Errno) {
        self.take_reports(place);
        if self.report.get().is_none() {
            self.report.set(obstacle(error).map(|obstacle| Unreachable { obstacle, by: None }));
        }
    }

    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.udp.recv(buffer)
    }

    /// Whether packets ask to be marked instead of dropped under congestion, and whether marks of received
    /// ones are read. A system without support leaves marks unseen.
    pub(super) fn read_marks(&self, heed: bool) {
        if self.heeding.replace(heed) == heed {
            return;
        }
        let class = if heed { ecn::CAPABLE } else { 0 };
        for udp in core::iter::once(&self.udp).chain(&self.others) {
            let _ = self.set_class(udp, class);
            let _ = match udp.local_addr() {
                Ok(SocketAddr::V6(_)) => setsockopt(udp, sockopt::Ipv6RecvTClass, &heed),
                _ => setsockopt(udp, sockopt::IpRecvTos, &heed),
            };
        }
    }

    /// Lets the kernel join datagrams of one length that arrive together, if it can.
    pub(super) fn join_datagrams(&self) {
        let _ = setsockopt(&self.udp, sockopt::UdpGroSegment, &true);
    }

    /// Receives waiting datagrams, each into one of `places`, without blocking. Returns how many are filled.
    pub(super) fn receive_batch<'a>(
        &self,
        mut places: impl Iterator<Item = &'a mut [u8]>,
        into: &mut [Received; PLACES],
    ) -> Result<usize, Errno> {
        let mut places: [[IoSliceMut<'_>; 1]; PLACES] =
            core::array::from_fn(|_| [IoSliceMut::new(places.next().unwrap_or_default())]);
        // Made anew each time: the system writes their used length, and nothing here resets it. With room for
        // addresses although the peer's is known: they are written wherever there is a pointer.
        let room = nix::cmsg_space!(libc::c_int, libc::c_int);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(PLACES, Some(room));
        let received =
            recvmmsg(self.udp.as_raw_fd(), &mut headers, &mut places, MsgFlags::MSG_DONTWAIT, None)?;
        let noted = into.iter_mut().zip(received).map(|(place, message)| {
            *place = Received { bytes: message.bytes, each: message.bytes, marked: false };
            for told in message.cmsgs().into_iter().flatten() {
                match told {
                    ControlMessageOwned::UdpGroSegments(each) => {
                        place.each = usize::try_from(each).unwrap_or(place.each);
                    }
                    ControlMessageOwned::Ipv4Tos(class) => place.marked = ecn::is_marked(class),
                    ControlMessageOwned::Ipv6TClass(class) => {
                        place.marked = u8::try_from(class).is_ok_and(ecn::is_marked);
                    }
                    _ => {}
                }
            }
        });
        Ok(noted.count())
    }
}

/// Waits for one of these for `timeout` at most. True if one is ready.
fn poll(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    match ppoll(fds, Some(TimeSpec::from_duration(timeout)), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn has_reports(fd: &PollFd<'_>) -> bool {
    fd.revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// The report on the way to `peer` in an entry of the queue of errors; none if it is about something else,
/// such as a packet that is too long.
fn reported(error: libc::sock_extended_err, by: Option<IpAddr>, peer: Option<IpAddr>) -> Option<Unreachable> {
    let local = error.ee_origin == libc::SO_EE_ORIGIN_LOCAL;
    let by = by.filter(|by| !local && !by.is_unspecified());
    // RFC 1812, section 5.2.7.1: administratively prohibited.
    let prohibited = error.ee_origin == libc::SO_EE_ORIGIN_ICMP && matches!(error.ee_code, 9 | 10 | 13);
    let obstacle = match obstacle(Errno::from_raw(i32::try_from(error.ee_errno).ok()?))? {
        Obstacle::NoHost if prohibited => Obstacle::Filtered,
        // Only the host itself knows which of its ports are open. Another sender is a firewall.
        Obstacle::NothingListens if by.is_some() && by != peer => Obstacle::Filtered,
        obstacle => obstacle,
    };
    Some(Unreachable { obstacle, by })
}

/// The obstacle that an error of the system means, if any.
const fn obstacle(error: Errno) -> Option<Obstacle> {
    match error {
        Errno::ECONNREFUSED => Some(Obstacle::NothingListens),
        Errno::EACCES | Errno::EPERM | Errno::ENOPROTOOPT => Some(Obstacle::Filtered),
        Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EHOSTDOWN | Errno::ENETDOWN | Errno::ENONET => {
            Some(Obstacle::NoHost)
        }
        _ => None,
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

fn prepare(udp: &UdpSocket, peer: SocketAddr) -> io::Result<()> {
    udp.connect(peer)?;
    udp.set_nonblocking(true)?;
    // Reports of hosts on the way reach only sockets that ask for them. A datagram that is too long for the
    // interface must be an error: an appliance cannot aggregate fragments. The path's MTU in ICMP messages is
    // ignored: any host can send it, and the kernel would use it for ten minutes.
    match peer {
        SocketAddr::V4(_) => {
            setsockopt(udp, sockopt::Ipv4RecvErr, &true)?;
            set_ip_mtu_discover(udp, Ipv4PathMtuDiscovery::PROBE)?;
        }
        SocketAddr::V6(_) => {
            setsockopt(udp, sockopt::Ipv6RecvErr, &true)?;
            set_ipv6_mtu_discover(udp, Ipv6PathMtuDiscovery::PROBE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
