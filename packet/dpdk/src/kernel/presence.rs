//! Whether the interface that a port was opened on is still there.
//!
//! The kernel takes a packet socket off its interface when that is deleted or moved to another namespace, and
//! never puts it back: an interface made anew is another one, even under the same name and number. So a
//! socket that is bound but receives nothing shows what no name can.

use core::ffi::CStr;
use std::ffi::CString;
use std::fs;

use super::socket::Socket;
use crate::error::Errno;
use crate::port::{Link, LinkState, ReopenError};

/// The kernel's counters of an interface, as in /proc/net/dev; none if there is no such one in the network
/// namespace of the calling thread, where drivers look.
pub(crate) fn counts_of(interface: &str) -> Option<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == interface).map(|(_, counts)| counts.to_owned())
}

/// Watches the interface that had a name when it was opened.
#[derive(Debug)]
pub(crate) struct Presence {
    name: CString,
    /// The interface's at the start, and the port's for good.
    mac: [u8; 6],
    socket: Socket,
}

impl Presence {
    /// Watches an interface of this thread's network namespace.
    pub(crate) fn of(name: &CStr) -> Result<Self, Errno> {
        let socket = Socket::unbound()?;
        socket.attach(socket.index(name)?)?;
        Ok(Self { name: name.to_owned(), mac: socket.mac(name)?, socket })
    }

    /// Watches another interface, of this number. If it has a MAC address of its own, it also accepts that of
    /// the port.
    pub(crate) fn renew(&self, index: i32) -> Result<(), Errno> {
        if self.socket.mac(&self.name)? != self.mac {
            self.socket.accept_mac(index, self.mac)?;
            tracing::info!(interface = ?self.name, "its MAC address is another one: the port keeps its own");
        }
        self.socket.attach(index)
    }

    /// The address of its port.
    pub(crate) const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The number of the interface that has the name now, if it takes packets of this length.
    pub(crate) fn takes(&self, mtu: u16) -> Result<i32, ReopenError> {
        let index = self.socket.index(&self.name)?;
        let has = self.socket.mtu(&self.name)?;
        if has < mtu {
            let interface = self.name.to_string_lossy().into_owned();
            return Err(ReopenError::Mtu { interface, has, mtu });
        }
        Ok(index)
    }

    /// The name that the interface was opened by.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// For queries about interfaces of the namespace in which it was opened.
    pub(super) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The number of the interface, while it is there.
    pub(super) fn index(&self) -> Result<i32, Errno> {
        self.socket.attached_to()?.ok_or(Errno::NODEV)
    }

    /// Packets that the interface has received, by the kernel's own count, as long as it is there.
    pub(crate) fn received(&self) -> Option<u64> {
        let name = self.index().and_then(|index| self.socket.name_of(index)).ok()?;
        // Bytes come first.
        counts_of(name.to_str().ok()?)?.split_whitespace().nth(1)?.parse().ok()
    }

    /// The state of the interface.
    pub(crate) fn link(&self) -> Result<Link, Errno> {
        let opened = self.socket.attached_to()?;
        let named = match self.socket.index(&self.name) {
            Ok(index) => Some(index),
            Err(Errno::NODEV) => None,
            Err(errno) => return Err(errno),
        };
        Ok(match (opened, named) {
            (None, None) => LinkState::Missing.into(),
            (Some(opened), Some(named)) if opened == named => self.state_of(&self.name)?.into(),
            (_, Some(_)) => LinkState::Replaced.into(),
            (Some(opened), None) => match self.socket.name_of(opened) {
                Ok(name) => Link {
                    renamed: Some(name.to_string_lossy().into_owned()),
                    ..self.state_of(&name)?.into()
                },
                Err(_) => LinkState::Missing.into(),
            },
        })
    }

    fn state_of(&self, name: &CStr) -> Result<LinkState, Errno> {
        Ok(match self.socket.flags(name) {
            Ok(flags) if flags & libc::IFF_UP == 0 => LinkState::Off,
            // For drivers that cannot be asked, the flags decide.
            Ok(flags) if flags & libc::IFF_RUNNING == 0 && self.socket.has_carrier(name) != Ok(true) => {
                LinkState::Down
            }
            Ok(_) => LinkState::Up,
            // It disappeared between two queries.
            Err(Errno::NODEV) => LinkState::Missing,
            Err(errno) => return Err(errno),
        })
    }
}
