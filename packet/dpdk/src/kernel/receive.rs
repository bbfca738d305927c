//! Receiving: from the socket into packets.

use core::ffi::c_void;
use core::mem::{MaybeUninit, size_of};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::RawFd;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;

use super::Counts;
use super::frames::{self, Cut, Offload, PREFIX};
use super::socket::Socket;
use crate::error::Errno;
use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::queue::MAX_BURST;

/// Frames of one system call; this many while long ones come, so that they are still in a cache when they are
/// cut.
const FRAMES: usize = 32;
const LONG_FRAMES: usize = 4;
/// The longest IP packet, its Ethernet header and the prefix.
const SLOT: usize = 66_048;
/// Bytes of a VLAN tag, and where it is put.
const TAG: usize = 4;
const TAG_AT: usize = 12;
/// The protocol of ordinary tags, where the kernel does not say.
const VLAN: u16 = 0x8100;

/// Room for the kernel's ancillary data of a frame, suitably aligned.
type Beside = [u64; 8];

/// A received frame.
#[derive(Debug, Clone, Copy)]
struct Frame {
    length: usize,
    /// There was room for all of it.
    whole: bool,
    tag: Option<[u8; TAG]>,
}

/// Receives.
#[derive(Debug)]
pub(crate) struct Reader {
    socket: Arc<Socket>,
    counts: Arc<Counts>,
    pool: Mempool,
    /// Frames to other stations are forwarded unchanged, with all their checksums.
    in_line: bool,
    mac: [u8; 6],
    room: Box<[u8]>,
    beside: Box<[Beside; FRAMES]>,
    frames: ArrayVec<Frame, FRAMES>,
    /// The next of the frames, and how much of its payload has been cut off.
    at: usize,
    cut: usize,
    /// Frames to ask for.
    most: usize,
}

impl Reader {
    pub(super) fn new(
        socket: Arc<Socket>,
        counts: Arc<Counts>,
        pool: Mempool,
        (in_line, mac): (bool, [u8; 6]),
    ) -> Self {
        let room = vec![0; FRAMES * SLOT].into_boxed_slice();
        let beside = Box::new([Beside::default(); FRAMES]);
        let frames = ArrayVec::new();
        Self { socket, counts, pool, in_line, mac, room, beside, frames, at: 0, cut: 0, most: FRAMES }
    }

    /// As `RxQueue::rx`.
    pub(crate) fn rx<const N: usize>(&mut self, out: &mut ArrayVec<Mbuf, N>) -> usize {
        let room = out.remaining_capacity().min(MAX_BURST);
        if self.at == self.frames.len() {
            self.fill();
        }
        let (mut packets, mut bytes) = (0, 0);
        while packets < room && self.at < self.frames.len() {
            if let Some(packet) = self.next() {
                bytes += packet.total_len();
                out.push(packet);
                packets += 1;
            }
        }
        if packets > 0 {
            self.counts.received(packets, bytes);
        }
        packets
    }

    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    /// Receives waiting frames.
    fn fill(&mut self) {
        self.frames.clear();
        (self.at, self.cut) = (0, 0);
        let mut places = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; FRAMES];
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut messages: [libc::mmsghdr; FRAMES] = unsafe { MaybeUninit::zeroed().assume_init() };
        let slots = self.room.chunks_exact_mut(SLOT).zip(self.beside.iter_mut());
        for ((message, place), (slot, beside)) in messages.iter_mut().zip(&mut places).zip(slots) {
            *place = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT };
            message.msg_hdr.msg_iov = ptr::from_mut(place);
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = ptr::from_mut::<Beside>(beside).cast::<c_void>();
            message.msg_hdr.msg_controllen = size_of::<Beside>() as _;
        }
        // SAFETY: the places, the slots and the room beside them live here or in `self`, which is exclusively
        // borrowed; each is as long as it says.
        let got = match unsafe { self.socket.receive(&mut messages[..self.most]) } {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => 0,
            // A frame that this kernel cannot describe, and has dropped.
            Err(_) => {
                self.counts.rx_errors.fetch_add(1, Relaxed);
                0
            }
        };
        let mut long = false;
        for message in messages.iter().take(got) {
            let length = usize::try_from(message.msg_len).unwrap_or(0).min(SLOT);
            long |= length > SLOT / 4;
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            self.frames.push(Frame { length, whole, tag: tag(&message.msg_hdr) });
        }
        self.most = if long { LONG_FRAMES } else { FRAMES };
    }

    /// The next packet, if there was room for it.
    fn next(&mut self) -> Option<Mbuf> {
        let slot = &mut self.room[self.at * SLOT..][..SLOT];
        let Frame { length, whole, tag } = self.frames[self.at];
        let (prefix, frame) = slot[..length].split_at_mut(PREFIX.min(length));
        let prefix: Option<[u8; PREFIX]> = (&*prefix).try_into().ok();
        let Some(prefix) = prefix else {
            self.at += 1;
            return None;
        };
        let offload = if whole { frames::parse_prefix(prefix, frame) } else { Offload::Other };
        let room = usize::from(self.pool.room()).saturating_sub(tag.map_or(0, |tag| tag.len()));
        let packet = match offload {
            Offload::Long(cut) if (cut.headers + cut.size).min(frame.len()) <= room => {
                let from = cut.headers + self.cut;
                let end = (from + cut.size).min(frame.len());
                let piece = piece(&self.pool, frame, cut, self.cut..end, tag, self.in_line);
                self.cut += cut.size;
                if end == frame.len() {
                    (self.at, self.cut) = (self.at + 1, 0);
                }
                piece
            }
            Offload::Plain(_) | Offload::Long(_) | Offload::Other => {
                if let (Offload::Plain(Some((start, place))), true) = (offload, self.in_line) {
                    frames::finish(frame, start, place);
                }
                self.at += 1;
                let begin = &frame[..frame.len().min(room)];
                // The receiver learns from the beginning of a long one that it is too long. No other gets a
                // frame that is not as it came.
                let as_it_came = matches!(offload, Offload::Plain(_)) && begin.len() == frame.len();
                let told = || begin.starts_with(&self.mac) && frames::is_truncated(begin);
                if self.in_line && !as_it_came && !told() {
                    self.counts.rx_errors.fetch_add(1, Relaxed);
                    return None;
                }
                let packet = write(&self.pool, begin, &[], tag);
                match offload {
                    Offload::Plain(Some(_)) if !self.in_line => packet.map(Mbuf::unfinished),
                    _ => packet,
                }
            }
        };
        if packet.is_none() {
            self.counts.rx_no_buffer.fetch_add(1, Relaxed);
        }
        packet
    }
}

/// One of the pieces of a long frame.
fn piece(
    pool: &Mempool,
    frame: &[u8],
    cut: Cut,
    range: Range<usize>,
    tag: Option<[u8; TAG]>,
    finish: bool,
) -> Option<Mbuf> {
    let (offset, end) = (range.start, range.end);
    let payload = frame.get(cut.headers + offset..end)?;
    // A longer header has IP options, which hosts do not use.
    let mut headers = [0; 128];
    let headers = headers.get_mut(..cut.headers)?;
    headers.copy_from_slice(frame.get(..cut.headers)?);
    frames::rewrite_headers(headers, cut, offset, payload, (end == frame.len(), finish));
    write(pool, headers, payload, tag)
}

/// A packet with these bytes; `None` if there is none that has room for them.
fn write(pool: &Mempool, head: &[u8], rest: &[u8], tag: Option<[u8; TAG]>) -> Option<Mbuf> {
    let mut packet = pool.alloc()?;
    let tag: &[u8] = tag.as_ref().map_or(&[], |tag| tag);
    let (addresses, head) = head.split_at_checked(TAG_AT)?;
    if !packet.set_len(TAG_AT + tag.len() + head.len() + rest.len()) {
        return None;
    }
    let mut place = packet.bytes_mut();
    for part in [addresses, tag, head, rest] {
        let (here, behind) = place.split_at_mut(part.len());
        here.copy_from_slice(part);
        place = behind;
    }
    Some(packet)
}

/// The VLAN tag that the kernel has taken out of a frame.
fn tag(message: &libc::msghdr) -> Option<[u8; TAG]> {
    // SAFETY: the kernel has written what lies there, and its length; it is not read beyond that.
    unsafe {
        let beside = libc::CMSG_FIRSTHDR(message).as_ref()?;
        let whole =
            beside.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
        if beside.cmsg_level != libc::SOL_PACKET || beside.cmsg_type != libc::PACKET_AUXDATA || !whole {
            return None;
        }
        let auxdata = libc::CMSG_DATA(beside).cast::<libc::tpacket_auxdata>().read_unaligned();
        if auxdata.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = auxdata.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let protocol = if known { auxdata.tp_vlan_tpid } else { VLAN };
        let [a, b] = protocol.to_be_bytes();
        let [c, d] = auxdata.tp_vlan_tci.to_be_bytes();
        Some([a, b, c, d])
    }
}
