//! Contributions that are kept as they arrived, until all are there.

mod sum;
#[cfg(test)]
mod tests;

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use pascaline_buffer::prefetch::prefetch;
use pascaline_buffer::{PacketBuf, Scratch};

use crate::key::Key;

/// Packets reduced to their payloads, with their ranks.
///
/// Every eighth packet is a node: the words of its scratch line name the packets that came after it, and the
/// link leads to the node before it. So one line, which can be prefetched, has the addresses of all of them:
/// no packet has to arrive in the cache before the next is known, and a newcomer touches no line of the
/// others.
pub(crate) struct Contributions<B: PacketBuf> {
    /// The latest node.
    head: Ranked,
    count: u16,
    /// How far behind a packet its payload lies, going by the first one: only ever used to prefetch.
    distance: u32,
    _room: Room,
    packets: PhantomData<B>,
}

/// A byte with 255 spare values, so that an enum around a list takes two words, as around a bare pointer.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Room {
    Kept,
}

/// A packet's address, and in the bits that it leaves, the rank.
#[derive(Clone, Copy)]
struct Ranked(*mut ());

/// Bits of an address, as [`PacketBuf`] promises.
const ADDRESS: u32 = 48;
const _: () = assert!(usize::BITS >= ADDRESS + u16::BITS);

/// Packets counted by a node, itself included.
const NODE: u16 = 8;
/// Lines of each payload that are prefetched at most, where they probably left the second-level cache. The
/// processor predicts those behind by itself.
pub(crate) const FAR_LINES: usize = 16;
/// The same where they are probably still there: more would push others out of the first-level cache.
pub(crate) const NEAR_LINES: usize = 6;
/// Bytes of a cache line.
const LINE: usize = 64;

impl Ranked {
    const NOWHERE: Self = Self(ptr::null_mut());

    #[inline(always)]
    fn new(rank: u16, packet: NonNull<()>) -> Self {
        debug_assert_eq!(packet.addr().get() >> ADDRESS, 0, "promised by `PacketBuf`");
        Self(packet.as_ptr().map_addr(|address| address | usize::from(rank) << ADDRESS))
    }

    #[inline(always)]
    fn of_word(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "it was an address")]
        Self(ptr::with_exposed_provenance_mut(word as usize))
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    #[inline(always)]
    fn rank(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits are left")]
        let rank = (self.0.addr() >> ADDRESS) as u16;
        rank
    }

    #[inline(always)]
    fn packet(self) -> *mut () {
        self.0.map_addr(|address| address & ((1 << ADDRESS) - 1))
    }
}

// SAFETY: the list owns its packets, which are Send.
unsafe impl<B: PacketBuf> Send for Contributions<B> {}

impl<B: PacketBuf> Contributions<B> {
    /// The first one.
    #[inline(always)]
    pub(crate) fn new(rank: u16, mut packet: B) -> Self {
        let payload = packet.bytes_mut().as_ptr().addr();
        let raw = packet.into_raw();
        let mut first = Self {
            head: Ranked::NOWHERE,
            count: 0,
            distance: u32::try_from(payload.wrapping_sub(raw.addr().get())).unwrap_or(0),
            _room: Room::Kept,
            packets: PhantomData,
        };
        first.push_raw(rank, raw);
        first
    }

    /// Adds a packet; fewer than 2¹⁶ fit. True if the [`line`](Self::line) is another one now.
    #[inline(always)]
    pub(crate) fn push(&mut self, rank: u16, packet: B) -> bool {
        self.push_raw(rank, packet.into_raw())
    }

    #[inline(always)]
    fn push_raw(&mut self, rank: u16, raw: NonNull<()>) -> bool {
        let place = Ranked::new(rank, raw);
        let at = usize::from(self.count % NODE);
        match self.node() {
            // SAFETY: the packet was given up to the list, so nothing else uses its line.
            Some(node) if at > 0 => unsafe { (*node.as_ptr()).words[at - 1] = place.word() },
            // SAFETY: the same.
            _ => unsafe {
                (*B::raw_scratch(raw)).link = self.head.0;
                self.head = place;
            },
        }
        self.count += 1;
        at == 0
    }

    /// The line of the latest node, if there is a packet.
    #[inline(always)]
    fn node(&self) -> Option<NonNull<Scratch>> {
        let head = NonNull::new(self.head.packet())?;
        // SAFETY: the head was given up to the list, so nothing else uses its line.
        NonNull::new(unsafe { B::raw_scratch(head) })
    }

    /// The latest packet.
    #[inline(always)]
    fn pop_raw(&mut self) -> Option<(u16, NonNull<()>)> {
        let node = self.node()?.as_ptr();
        self.count = self.count.checked_sub(1)?;
        let at = usize::from(self.count % NODE);
        // SAFETY: the line of a packet of the list; `push_raw` has written the word and the link.
        let ranked = unsafe {
            if at == 0 {
                core::mem::replace(&mut self.head, Ranked((*node).link))
            } else {
                Ranked::of_word((*node).words[at - 1])
            }
        };
        Some((ranked.rank(), NonNull::new(ranked.packet())?))
    }

    pub(crate) fn pop(&mut self) -> Option<(u16, B)> {
        let (rank, raw) = self.pop_raw()?;
        // SAFETY: the list is made of packets that have been given up, and each is taken back once.
        Some((rank, unsafe { B::from_raw(raw) }))
    }

    /// The line that everything else begins with, to prefetch it; null without packets.
    #[inline(always)]
    pub(crate) fn line(&self) -> *mut u8 {
        self.node().map_or(ptr::null_mut(), |node| node.as_ptr().cast())
    }

    /// Prefetches what [`sum`](Self::sum) needs of each packet of the latest node: with many more packets, no
    /// read waits for one of these either. `len` is the length of a payload, of which at most `LINES` lines
    /// are prefetched.
    #[inline(never)]
    pub(crate) fn prefetch<const LINES: usize>(&self, len: u16) {
        let (Some(node), Some(last)) = (self.node(), self.count.checked_sub(1)) else { return };
        // SAFETY: a packet of the list; as many words have been written.
        let words = unsafe { &(&(*node.as_ptr()).words)[..usize::from(last % NODE)] };
        for ranked in words.iter().map(|&word| Ranked::of_word(word)).chain([self.head]) {
            let packet = ranked.packet().cast::<u8>();
            prefetch(packet);
            let payload = packet.wrapping_add(self.distance as usize);
            let fetch = |line: usize| prefetch(payload.wrapping_add(line * LINE));
            if usize::from(len) >= LINES * LINE {
                // Without a loop.
                (0..LINES).for_each(fetch);
            } else {
                (0..usize::from(len).div_ceil(LINE)).for_each(fetch);
            }
        }
    }
}

impl<B: PacketBuf> Drop for Contributions<B> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The contributions of an evicted slot. Those that are not taken are freed.
pub struct Originals<B: PacketBuf> {
    pub(crate) contributions: Contributions<B>,
    /// Which PSN.
    pub key: Key,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// Ranks of the job.
    pub fan_in: u16,
    /// An element of one of them had saturated before it arrived.
    pub overflow: bool,
    /// The slot was opened by a contribution that was not sent for the first time, so perhaps none of them
    /// was.
    pub again: bool,
    /// The slot's priority.
    pub priority: u16,
}

impl<B: PacketBuf> Iterator for Originals<B> {
    type Item = (u16, B);

    /// A rank, and its payload and nothing else.
    fn next(&mut self) -> Option<(u16, B)> {
        self.contributions.pop()
    }
}

impl<B: PacketBuf> fmt::Debug for Originals<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Originals({:?})", self.key)
    }
}
