//! Ethernet frames as they are: sent and received through a raw socket.

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendmsg, socket,
};
use pascaline_wire::checksum;

use super::net::Namespace;
use super::until;

/// A worker's interface, opened raw.
#[derive(Debug)]
pub(crate) struct Raw(OwnedFd);

impl Raw {
    pub(crate) fn open(namespace: &Namespace) -> Self {
        namespace.within(|| {
            let named = |found: &nix::ifaddrs::InterfaceAddress| found.interface_name == "eth0";
            let address: LinkAddr = getifaddrs()
                .unwrap()
                .filter(named)
                .find_map(|found| found.address?.as_link_addr().copied())
                .expect("eth0 has a link address");
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).unwrap();
            bind(socket.as_raw_fd(), &address).unwrap();
            Self(socket)
        })
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        let parts = [IoSlice::new(frame)];
        let sent = sendmsg::<()>(self.0.as_raw_fd(), &parts, &[], MsgFlags::empty(), None).unwrap();
        assert_eq!(sent, frame.len());
    }

    /// Waits for a frame that is the one.
    pub(crate) fn receive(
        &self,
        what: &str,
        limit: Duration,
        mut is_it: impl FnMut(&[u8]) -> bool,
    ) -> Vec<u8> {
        let mut room = vec![0; 4096];
        until(what, limit, || {
            loop {
                match recv(self.0.as_raw_fd(), &mut room, MsgFlags::empty()) {
                    Ok(length) if is_it(&room[..length]) => return Some(room[..length].to_vec()),
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => return None,
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        })
    }
}

/// Puts the right checksum into an IPv4 header of 20 bytes that begins here.
pub(crate) fn sum_ip(frame: &mut [u8], at: usize) {
    let header = &mut frame[at..at + 20];
    header[10..12].fill(0);
    let sum = checksum::finish(checksum::sum(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
