//! One interface, opened raw: whole Ethernet frames, many per system call.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, bind, recvmmsg,
    sendmmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use pascaline_shared::eprintln;

use super::queue::Bytes;

/// Frames moved by one system call.
pub(super) const BATCH: usize = 64;

/// Room for a jumbo frame of 9,216 bytes with its header. A frame that fills it was cut, and is dropped.
const FRAME_ROOM: usize = 9216 + 64;

/// The kernel's queue while another process has the core: a few thousand frames.
const RECEIVE_QUEUE_BYTES: usize = 16 << 20;

/// `sll_pkttype` of a frame that this machine sent. Taking such frames in would make a loop.
const PACKET_OUTGOING: u8 = 4;

/// Promiscuous mode in an interface's flags, see netdevice(7).
const IFF_PROMISC: u32 = 0x100;

/// A frame: memory of full size with `len` bytes in use.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    room: Vec<u8>,
    len: usize,
}

impl Bytes for Frame {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[..self.len]
    }
}

impl Frame {
    fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

/// Frames of one system call.
pub(super) struct Batch {
    /// Frames in order of arrival.
    pub(super) frames: Vec<Frame>,
    /// Frames that did not fit.
    pub(super) too_long: u64,
}

/// An interface that frames are taken from and sent on.
#[derive(Debug)]
pub(super) struct Port {
    name: String,
    socket: OwnedFd,
    index: usize,
    /// Frames taken from the interface, and how many it had received before that.
    taken: u64,
    received_before: u64,
    /// Memory of sent frames, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Restores the interface as it was found.
    _promiscuous: Option<Promiscuous>,
}

impl Port {
    /// Takes over an interface by name.
    ///
    /// # Errors If there is none of that name, or raw sockets are not permitted.
    pub(super) fn open(name: &str) -> anyhow::Result<Self> {
        let address = link_address(name)?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .context("cannot open a raw packet socket: this needs root or CAP_NET_RAW")?;
        bind(socket.as_raw_fd(), &address).with_context(|| format!("cannot take over interface {name}"))?;
        // Only root may exceed the system's limit; others get a smaller queue.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_QUEUE_BYTES);
        let promiscuous = Promiscuous::enter(name);
        if promiscuous.is_none() {
            eprintln!("impair: {name} cannot be made promiscuous: frames for other addresses may not arrive");
        }
        Ok(Self {
            name: name.to_owned(),
            socket,
            index: address.ifindex(),
            taken: 0,
            received_before: received_packets(name).unwrap_or(0),
            spare: Vec::new(),
            _promiscuous: promiscuous,
        })
    }

    /// Takes up to [`BATCH`] frames without waiting. Fewer mean that there are no more.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) fn receive(&mut self) -> anyhow::Result<Batch> {
        let mut rooms: Vec<Vec<u8>> =
            (0..BATCH).map(|_| self.spare.pop().unwrap_or_else(|| vec![0; FRAME_ROOM])).collect();
        let lengths = self.receive_into(&mut rooms)?;
        let mut batch = Batch { frames: Vec::with_capacity(lengths.len()), too_long: 0 };
        self.taken += lengths.iter().flatten().map(|_| 1).sum::<u64>();
        let mut lengths = lengths.into_iter();
        for room in rooms {
            match lengths.next() {
                Some(Some(len)) if len < FRAME_ROOM => batch.frames.push(Frame { room, len }),
                Some(Some(_)) => {
                    batch.too_long += 1;
                    self.spare.push(room);
                }
                Some(None) | None => self.spare.push(room),
            }
        }
        Ok(batch)
    }

    /// The length of each message; none for those that must not be passed on.
    fn receive_into(&self, rooms: &mut [Vec<u8>]) -> anyhow::Result<Vec<Option<usize>>> {
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(rooms.len(), None);
        let mut slices: Vec<_> = rooms.iter_mut().map(|room| [IoSliceMut::new(room)]).collect();
        match recvmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)
        {
            Ok(messages) => {
                let ours =
                    |from: &LinkAddr| from.ifindex() == self.index && from.pkttype() != PACKET_OUTGOING;
                Ok(messages.map(|m| m.address.as_ref().is_some_and(ours).then_some(m.bytes)).collect())
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Vec::new()),
            // The interface is down for now; its losses meanwhile are not counted here.
            Err(Errno::ENETDOWN) => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("cannot receive from {}", self.name)),
        }
    }

    /// Sends `frames` in order and returns how many the interface refused.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) fn send(&mut self, frames: &[Frame]) -> anyhow::Result<u64> {
        let mut refused = 0;
        let mut rest = frames;
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(BATCH)];
            let sent = match self.send_batch(batch) {
                Ok(sent) => sent,
                Err(Errno::EINTR) => continue,
                // Queue full, frame beyond the MTU, or interface down: this frame is lost, the next may pass.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EMSGSIZE | Errno::ENETDOWN) => {
                    refused += 1;
                    1
                }
                Err(error) => return Err(error).with_context(|| format!("cannot send on {}", self.name)),
            };
            rest = &rest[sent..];
        }
        Ok(refused)
    }

    fn send_batch(&self, frames: &[Frame]) -> nix::Result<usize> {
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(frames.len(), None);
        let slices: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame.bytes())]).collect();
        // The socket is bound to the interface: no message needs an address.
        let addresses = [None; BATCH];
        let flags = MsgFlags::MSG_DONTWAIT;
        sendmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter(), addresses, [], flags)
            .map(Iterator::count)
    }

    /// Frames that the interface received but the kernel's queue had no room for.
    pub(super) fn missed(&self) -> u64 {
        received_packets(&self.name)
            .map_or(0, |received| received.saturating_sub(self.received_before).saturating_sub(self.taken))
    }

    /// Takes back memory of frames.
    pub(super) fn recycle(&mut self, frames: impl Iterator<Item = Frame>) {
        self.spare.extend(frames.map(|frame| frame.room));
        // Duplicates add memory: keep a bounded amount.
        self.spare.truncate(4 * BATCH);
    }
}

/// Sleeps until a frame arrives at either port, a signal comes, or the time is over.
///
/// # Errors
/// The ports cannot be waited for.
pub(super) fn wait(left: &Port, right: &Port, timeout: Duration) -> anyhow::Result<()> {
    let mut fds = [
        PollFd::new(left.socket.as_fd(), PollFlags::POLLIN),
        PollFd::new(right.socket.as_fd(), PollFlags::POLLIN),
    ];
    // A queue's frames leave by microseconds.
    match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for frames"),
    }
}

/// The address to bind to, as the kernel lists it.
fn link_address(name: &str) -> anyhow::Result<LinkAddr> {
    getifaddrs()
        .context("cannot list the interfaces")?
        .filter(|interface| interface.interface_name == name)
        .find_map(|interface| interface.address?.as_link_addr().copied())
        .with_context(|| format!("interface {name} does not exist here"))
}

/// Frames that an interface has received since it exists.
fn received_packets(name: &str) -> Option<u64> {
    let file = PathBuf::from("/sys/class/net").join(name).join("statistics/rx_packets");
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// An interface in promiscuous mode, for as long as this value lives.
#[derive(Debug)]
struct Promiscuous {
    file: PathBuf,
    before: u32,
}

impl Promiscuous {
    fn enter(name: &str) -> Option<Self> {
        let file = PathBuf::from("/sys/class/net").join(name).join("flags");
        let text = std::fs::read_to_string(&file).ok()?;
        let before = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
        std::fs::write(&file, format!("{:#x}", before | IFF_PROMISC)).ok()?;
        Some(Self { file, before })
    }
}

impl Drop for Promiscuous {
    fn drop(&mut self) {
        // The interface may be gone with its namespace.
        let _ = std::fs::write(&self.file, format!("{:#x}", self.before));
    }
}
