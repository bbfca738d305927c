//! The socket for results that are sent to a job's multicast group.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use pascaline_wire::MulticastGroup;

use super::socket::Socket;
use crate::session::Session;

/// Listens to the group that a session names.
pub(super) struct Listener {
    group: Option<MulticastGroup>,
    socket: Option<Socket>,
    /// Why there is no socket, until it is reported.
    trouble: Option<io::Error>,
    /// Bytes that the socket should have room for.
    room: usize,
}

impl Listener {
    pub(super) const fn new(room: usize) -> Self {
        Self { group: None, socket: None, trouble: None, room }
    }

    /// Listens to the session's group, if that is another one than before, for packets from the appliance
    /// that `unicast` talks to.
    pub(super) fn follow(&mut self, session: &mut Session, unicast: &Socket, appliance: SocketAddr) {
        if self.group == session.group() {
            return;
        }
        self.group = session.group();
        let opened = self.group.map(|group| open(group, unicast.local_addr()?.ip(), appliance));
        (self.socket, self.trouble) = match opened.transpose() {
            Ok(socket) => (socket, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(socket) = &self.socket {
            socket.make_room(self.room);
            socket.join_datagrams();
            socket.read_marks(session.control().reacts_to_marks());
        }
        session.listen(self.socket.is_some());
    }

    pub(super) const fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// The group that it cannot listen to, and why, once.
    pub(super) fn trouble(&mut self) -> Option<(MulticastGroup, io::Error)> {
        self.group.zip(self.trouble.take())
    }
}

/// Listens at the interface that has this address. The appliance's UDP port is the group's as well.
fn open(group: MulticastGroup, local: IpAddr, appliance: SocketAddr) -> io::Result<Socket> {
    let address = IpAddr::from(group.address());
    let udp = Socket::open_shared(SocketAddr::new(address, appliance.port()), appliance)?;
    join(&udp, address, local)?;
    Ok(Socket::listening(udp))
}

fn join(udp: &UdpSocket, group: IpAddr, local: IpAddr) -> io::Result<()> {
    match (group, local) {
        (IpAddr::V4(group), IpAddr::V4(local)) => udp.join_multicast_v4(&group, &local),
        (IpAddr::V4(group), IpAddr::V6(_)) => udp.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
        (IpAddr::V6(group), local) => udp.join_multicast_v6(&group, interface_of(local)?),
    }
}

/// The number of the interface with an address; 0 lets the system choose.
fn interface_of(address: IpAddr) -> io::Result<u32> {
    let has = |ifaddr: &nix::ifaddrs::InterfaceAddress| {
        let own = ifaddr.address.as_ref().and_then(|own| own.as_sockaddr_in6()).map(|own| own.ip());
        own.is_some_and(|own| IpAddr::V6(own) == address)
    };
    let name = getifaddrs()?.find(has).map(|ifaddr| ifaddr.interface_name);
    Ok(name.map(|name| if_nametoindex(name.as_str())).transpose()?.unwrap_or(0))
}
