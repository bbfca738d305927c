//! An interface of the kernel's, through packet sockets that understand segmentation:
//! `net_kernel0,iface=eth1`.
//!
//! Packets that a local program, or the far end of a virtual cable, sends as one long datagram for the kernel
//! to cut (`UDP_SEGMENT`) arrive here in one piece, with the length at which to cut (`PACKET_VNET_HDR` in
//! packet(7)); and packets to one receiver that follow each other leave in one piece, which the kernel cuts
//! as late as it can, or never if the receiver takes it whole (`UDP_GRO`). Up to 64 packets pass the network
//! stack at once, which is most of the cost of a packet. DPDK's own driver over packet sockets cannot do
//! that: it would see one frame that is far too long.
//!
//! Received frames are cut into packets, as a wire would have carried them, so no other code sees them.

mod frames;
mod presence;
mod receive;
mod send;
mod socket;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(crate) use presence::{Presence, counts_of};
pub(crate) use receive::Reader;
pub(crate) use send::Writer;
use socket::Socket;

use crate::error::Errno;
use crate::mempool::Mempool;
use crate::port::{Link, ReopenError, Stats};

/// The name of devices of this kind, before their number.
pub const DRIVER: &str = "net_kernel";

/// Most queues: sockets among which the kernel spreads flows.
pub(crate) const MOST_QUEUES: u16 = 64;

/// The counts of all queues of an interface.
#[derive(Debug, Default)]
struct Counts {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_missed: AtomicU64,
    rx_errors: AtomicU64,
    rx_no_buffer: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
}

/// An interface.
#[derive(Debug)]
pub(crate) struct Interface {
    mtu: u16,
    presence: Presence,
    /// The queues that are open.
    queues: Mutex<Vec<Queue>>,
    counts: Arc<Counts>,
}

/// A queue's socket, and how it was opened.
#[derive(Debug)]
struct Queue {
    socket: Weak<Socket>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// One of this many that receive; the second is true in promiscuous mode.
    Receives(u16, bool),
    Sends,
}

impl Interface {
    /// Finds the interface in this thread's network namespace.
    pub(crate) fn open(name: &str) -> Result<Self, Errno> {
        if !send::supports_long() {
            tracing::warn!(
                interface = name,
                remedy = "`ethtool -K INTERFACE tx-udp-segmentation off` at the sender's end, or Linux 6.2",
                "this kernel drops what arrives as one long UDP datagram; the port counts it as an error"
            );
        }
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let presence = Presence::of(&name)?;
        let mtu = presence.socket().mtu(&name)?;
        Ok(Self { mtu, presence, queues: Mutex::default(), counts: Arc::default() })
    }

    pub(crate) const fn mac(&self) -> [u8; 6] {
        self.presence.mac()
    }

    pub(crate) const fn mtu(&self) -> u16 {
        self.mtu
    }

    pub(crate) fn link(&self) -> Result<Link, Errno> {
        self.presence.link()
    }

    pub(crate) const fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Switches the interface on or off.
    pub(crate) fn set_up(&self, up: bool) -> Result<(), Errno> {
        self.presence.socket().set_up(self.presence.name(), up)
    }

    /// Tries whether this process may switch the interface, and leaves it as it is.
    pub(crate) fn try_set_up(&self) -> Result<(), Errno> {
        let (socket, name) = (self.presence.socket(), self.presence.name());
        socket.set_up(name, socket.flags(name)? & libc::IFF_UP != 0)
    }

    pub(crate) fn stats(&self) -> Stats {
        let counts = &self.counts;
        for queue in self.queues().iter() {
            let missed = queue.socket.upgrade().map_or(0, |socket| socket.missed());
            counts.rx_missed.fetch_add(missed, Relaxed);
        }
        Stats {
            rx_packets: counts.rx_packets.load(Relaxed),
            rx_bytes: counts.rx_bytes.load(Relaxed),
            rx_missed: counts.rx_missed.load(Relaxed),
            rx_errors: counts.rx_errors.load(Relaxed),
            rx_no_buffer: counts.rx_no_buffer.load(Relaxed),
            tx_packets: counts.tx_packets.load(Relaxed),
            tx_bytes: counts.tx_bytes.load(Relaxed),
            tx_errors: counts.tx_errors.load(Relaxed),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one more of this many queues.
    pub(crate) fn queue(
        &self,
        queues: u16,
        promiscuous: bool,
        pool: &Mempool,
    ) -> Result<(Reader, Writer), Errno> {
        let socket = self.open_queue(Kind::Receives(queues, promiscuous))?;
        let whom_for = (promiscuous, self.mac());
        let reader = Reader::new(Arc::clone(&socket), Arc::clone(&self.counts), pool.clone(), whom_for);
        Ok((reader, Writer::new(socket, Arc::clone(&self.counts))))
    }

    /// Opens a queue that only sends.
    pub(crate) fn sending_queue(&self) -> Result<Writer, Errno> {
        Ok(Writer::new(self.open_queue(Kind::Sends)?, Arc::clone(&self.counts)))
    }

    fn open_queue(&self, kind: Kind) -> Result<Arc<Socket>, Errno> {
        let socket = Arc::new(kind.open(self.presence.index()?)?);
        self.queues().push(Queue { socket: Arc::downgrade(&socket), kind });
        Ok(socket)
    }

    /// Moves all queues to the interface that has the name now. Its address may be another one: the port
    /// keeps its own, and the interface lets that through.
    ///
    /// Lcores notice nothing: the numbers of their sockets stay the same.
    pub(crate) fn reopen(&self, mtu: u16) -> Result<(), ReopenError> {
        let index = self.presence.takes(mtu)?;
        let queues = self.queues();
        let mut fresh = Vec::with_capacity(queues.len());
        for queue in queues.iter() {
            if let Some(old) = queue.socket.upgrade() {
                fresh.push((old, queue.kind.open(index)?));
            }
        }
        for (old, new) in &fresh {
            self.counts.rx_missed.fetch_add(old.missed(), Relaxed);
            old.replace_by(new)?;
        }
        // By its number: if another one has the name by now, the next check finds that.
        Ok(self.presence.renew(index)?)
    }
}

impl Kind {
    fn open(self, index: i32) -> Result<Socket, Errno> {
        match self {
            Self::Receives(queues, promiscuous) => Socket::on(index, queues, promiscuous),
            Self::Sends => Socket::sending(index),
        }
    }
}

/// Sleep until a frame arrives at one of several queues.
#[derive(Debug, Default)]
pub struct Waiting(Vec<libc::pollfd>);

impl Waiting {
    /// For queues that [can be waited for](crate::RxQueue::waits_for).
    pub fn new(queues: impl IntoIterator<Item = RawFd>) -> Self {
        let queues = queues.into_iter();
        Self(queues.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect())
    }

    /// Sleeps until one of them has a frame, but no longer than that.
    pub fn wait(&mut self, longest: Duration) {
        socket::wait(&mut self.0, longest);
    }
}

impl Counts {
    /// Only the main figures, once a burst.
    fn received(&self, packets: usize, bytes: usize) {
        self.rx_packets.fetch_add(packets as u64, Relaxed);
        self.rx_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn sent(&self, packets: usize, bytes: usize) {
        self.tx_packets.fetch_add(packets as u64, Relaxed);
        self.tx_bytes.fetch_add(bytes as u64, Relaxed);
    }
}
