//! Sending: from packets into the socket.

use core::mem::{self, MaybeUninit};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use super::Counts;
use super::frames::{self, HEADERS, PREFIX};
use super::socket::Socket;
use crate::error::Errno;
use crate::mbuf::Mbuf;

/// Frames of one call; the rest stays for the next one.
const BATCH: usize = 256;
/// The kernel cuts a long datagram into this many at most.
const JOINED: usize = 64;
/// Frames of one long datagram where the caller has other work waiting.
const FEW: usize = 16;
/// Bytes of UDP payload in a long datagram: the room of an IP packet.
const PAYLOAD: usize = 65_000;
/// The first Linux whose packet sockets take long UDP datagrams, and give them.
const JOINS_SINCE: (u32, u32) = (6, 2);
/// Prefix and headers of joined frames, or a prefix of zeros.
const HEAD: usize = PREFIX + HEADERS;

/// Sends.
#[derive(Debug)]
pub(crate) struct Writer {
    socket: Arc<Socket>,
    counts: Arc<Counts>,
    joins: bool,
    heads: Box<[[u8; HEAD]; BATCH]>,
}

/// Frames that leave as one message: the first one, and how many.
#[derive(Debug, Clone, Copy)]
struct Message {
    frames: usize,
    bytes: usize,
}

impl Writer {
    pub(super) fn new(socket: Arc<Socket>, counts: Arc<Counts>) -> Self {
        Self { socket, counts, joins: supports_long(), heads: Box::new([[0; HEAD]; BATCH]) }
    }

    /// As `TxQueue::tx`, with packets of one or two segments.
    pub(crate) fn tx<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        self.tx_most(frames, (BATCH, JOINED))
    }

    /// As `TxQueue::tx_some`.
    pub(crate) fn tx_some<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        self.tx_most(frames, (1, FEW))
    }

    /// Sends `most.0` messages at most, each of `most.1` frames at most.
    fn tx_most<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>, most: (usize, usize)) -> usize {
        let offered = frames.len().min(BATCH);
        let mut order = ArrayVec::<u16, BATCH>::new();
        let mut messages = ArrayVec::<Message, BATCH>::new();
        self.arrange(&frames[..offered], most, &mut order, &mut messages);
        let (taken, lost) = match self.send(frames, &order, &messages) {
            Ok(taken) => (taken, false),
            Err(Errno::AGAIN | Errno::NOBUFS) => return 0,
            // Unsupported by this kernel or interface.
            Err(Errno::INVAL | Errno::NOTSUP) if self.joins => {
                self.joins = false;
                return 0;
            }
            // An interface that is down, a frame that is too long: lost, as on a wire.
            Err(_) => (1.min(messages.len()), true),
        };
        let gone: usize = messages[..taken].iter().map(|message| message.frames).sum();
        if lost {
            self.counts.tx_errors.fetch_add(gone as u64, Relaxed);
        } else {
            self.counts.sent(gone, messages[..taken].iter().map(|message| message.bytes).sum());
        }
        if gone == offered {
            drop(frames.drain(..offered));
        } else if gone > 0 {
            let mut sent = [false; BATCH];
            for &at in &order[..gone] {
                sent[usize::from(at)] = true;
            }
            let mut at = 0;
            frames.retain(|_| {
                at += 1;
                !sent.get(at - 1).is_some_and(|sent| *sent)
            });
        }
        gone
    }

    /// Which frames leave together: those with one way and one length, of which the last may be shorter.
    /// Frames with one way keep the order in which they were offered.
    fn arrange(
        &mut self,
        frames: &[Mbuf],
        (most, joined): (usize, usize),
        order: &mut ArrayVec<u16, BATCH>,
        messages: &mut ArrayVec<Message, BATCH>,
    ) {
        let mut seen = [false; BATCH];
        for first in 0..frames.len() {
            if messages.len() == most {
                break;
            }
            if seen[first] {
                continue;
            }
            let start = order.len();
            let head = frames[first].bytes();
            let size = frames[first].total_len().saturating_sub(HEADERS);
            let mut bytes = size;
            order.push(u16::try_from(first).unwrap_or(u16::MAX));
            if self.joins && size > 0 && frames::can_join(head, size) {
                for (next, frame) in frames.iter().enumerate().skip(first + 1) {
                    if seen[next] || !frames::same_flow(head, frame.bytes()) {
                        continue;
                    }
                    let more = frame.total_len().saturating_sub(HEADERS);
                    let full = order.len() - start == joined || bytes + more > PAYLOAD;
                    if full || more == 0 || more > size || !frames::can_join(frame.bytes(), more) {
                        break;
                    }
                    seen[next] = true;
                    order.push(u16::try_from(next).unwrap_or(u16::MAX));
                    bytes += more;
                    if more < size {
                        break;
                    }
                }
            }
            let count = order.len() - start;
            let head = &mut self.heads[messages.len()];
            *head = match frames::joined(frames[first].bytes(), bytes, size) {
                Some(joined) if count > 1 => joined,
                _ => [0; HEAD],
            };
            messages.push(Message { frames: count, bytes: bytes + HEADERS * count });
        }
    }

    /// Returns how many messages were taken.
    fn send(&self, frames: &[Mbuf], order: &[u16], messages: &[Message]) -> Result<usize, Errno> {
        let mut parts = ArrayVec::<libc::iovec, { 3 * BATCH }>::new();
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut calls: [libc::mmsghdr; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut places = order.iter();
        for (message, (call, head)) in messages.iter().zip(calls.iter_mut().zip(self.heads.iter())) {
            let begin = parts.len();
            let joined = message.frames > 1;
            parts.push(part(&head[..if joined { HEAD } else { PREFIX }]));
            for &at in places.by_ref().take(message.frames) {
                let frame = &frames[usize::from(at)];
                let own = frame.bytes();
                parts.push(part(if joined { &own[HEADERS..] } else { own }));
                if let Some(tail) = tail(frame) {
                    parts.push(tail);
                }
            }
            call.msg_hdr.msg_iov = parts[begin..].as_mut_ptr();
            call.msg_hdr.msg_iovlen = (parts.len() - begin) as _;
        }
        // SAFETY: the parts lie in `parts`, which is not moved or lengthened any more; they lead to `heads`
        // and to the frames, which are borrowed and not written.
        unsafe { self.socket.send(&mut calls[..messages.len()]) }
    }
}

fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// The second segment.
fn tail(frame: &Mbuf) -> Option<libc::iovec> {
    // SAFETY: the packet is ours; its tail is held by it, and read-only for all holders.
    unsafe {
        let next: *mut sys::rte_mbuf = *field::next(frame.as_raw());
        (!next.is_null()).then(|| libc::iovec {
            iov_base: (*field::buf_addr(next)).add(usize::from(*field::data_off(next))).cast(),
            iov_len: usize::from(*field::data_len(next)),
        })
    }
}

/// Whether this Linux has long UDP datagrams at packet sockets.
pub(super) fn supports_long() -> bool {
    kernel_version().is_none_or(|version| version >= JOINS_SINCE)
}

/// Major and minor number.
fn kernel_version() -> Option<(u32, u32)> {
    // SAFETY: arrays of characters, for which zero is valid.
    let mut names: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the result goes to a live variable.
    if unsafe { libc::uname(ptr::from_mut(&mut names)) } != 0 {
        return None;
    }
    let release = names.release.iter().map(|&byte| char::from(byte.cast_unsigned())).collect::<String>();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}
