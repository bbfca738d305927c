//! Contributions that are kept as they came, until all are there.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};

use pascaline_buffer::combine::InOrder;
use pascaline_buffer::{PacketBuf, Scratch};

use crate::key::Key;
use crate::prefetch::prefetch;

/// Packets that are nothing but payloads, and whose they are.
///
/// Every eighth of them is a node: the words of its scratch line say where those are that came after it, and the link leads to
/// the node before it. So one line, which can be asked for ahead of time, says where all of them are: nobody waits for one
/// packet to learn of the next, and a packet that comes touches no line of the others.
pub(crate) struct Contributions<B: PacketBuf> {
    /// The latest node.
    head: Place,
    count: u16,
    /// How far behind a packet its payload lies, going by the first one: only ever used to prefetch.
    distance: u32,
    _room: Room,
    packets: PhantomData<B>,
}

/// A byte with 255 values to spare, in which an enum that holds a list can say that it holds something else: so it takes two
/// words, as with a bare pointer.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Room {
    Kept,
}

/// Where a packet is, and in the bits that its address leaves, whose it is.
#[derive(Clone, Copy)]
struct Place(*mut ());

/// Bits of an address, as [`PacketBuf`] promises.
const ADDRESS: u32 = 48;
const _: () = assert!(usize::BITS >= ADDRESS + u16::BITS);

/// Packets that a node knows of, with itself.
const NODE: u16 = 8;
/// Lines of each payload that are asked for ahead of time, at the most; the processor foresees those behind by itself. So many where they are
/// probably not in the second-level cache any more.
pub(crate) const FAR_LINES: usize = 16;
/// And where they probably are: more would only push others out of the first-level cache.
pub(crate) const NEAR_LINES: usize = 6;
/// Bytes of a cache line.
const LINE: usize = 64;

impl Place {
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
            head: Place::NOWHERE,
            count: 0,
            distance: u32::try_from(payload.wrapping_sub(raw.addr().get())).unwrap_or(0),
            _room: Room::Kept,
            packets: PhantomData,
        };
        first.push_raw(rank, raw);
        first
    }

    /// One more, of fewer than 2¹⁶. True if the [`line`](Self::line) is another one now.
    #[inline(always)]
    pub(crate) fn push(&mut self, rank: u16, packet: B) -> bool {
        self.push_raw(rank, packet.into_raw())
    }

    #[inline(always)]
    fn push_raw(&mut self, rank: u16, raw: NonNull<()>) -> bool {
        let place = Place::new(rank, raw);
        let at = usize::from(self.count % NODE);
        // SAFETY: both are packets that were given up to the list, so that nobody else uses their lines; there is a head as
        // soon as there is a packet.
        unsafe {
            if at == 0 {
                (*B::raw_scratch(raw)).link = self.head.0;
                self.head = place;
            } else {
                (*self.node()).words[at - 1] = place.word();
            }
        }
        self.count += 1;
        at == 0
    }

    /// The line of the latest node, of a list that is not empty.
    #[inline(always)]
    fn node(&self) -> *mut Scratch {
        // SAFETY: the head is a packet that was given up to the list, so that nobody else uses its line.
        unsafe { B::raw_scratch(NonNull::new_unchecked(self.head.packet())) }
    }

    /// The latest one.
    #[inline(always)]
    fn pop_raw(&mut self) -> Option<(u16, NonNull<()>)> {
        self.count = self.count.checked_sub(1)?;
        let at = usize::from(self.count % NODE);
        let node = self.node();
        // SAFETY: as above; the word has been written when the packet was pushed, as has the link.
        let place = unsafe {
            if at == 0 {
                core::mem::replace(&mut self.head, Place((*node).link))
            } else {
                Place::of_word((*node).words[at - 1])
            }
        };
        Some((place.rank(), NonNull::new(place.packet())?))
    }

    pub(crate) fn pop(&mut self) -> Option<(u16, B)> {
        let (rank, raw) = self.pop_raw()?;
        // SAFETY: the list is made of packets that have been given up, and each is taken back once.
        Some((rank, unsafe { B::from_raw(raw) }))
    }

    /// The line that has to be there before anything can be done with the list; good for prefetching it.
    #[inline(always)]
    pub(crate) fn line(&self) -> *mut u8 {
        self.node().cast()
    }

    /// Asks for what [`sum`](Self::sum) needs of each packet of the latest node, and only those: who has many more
    /// does not wait for one of them either. `len` is the length of a payload, of which at most so many `LINES` are asked for. A hint only.
    #[inline(never)]
    pub(crate) fn prefetch<const LINES: usize>(&self, len: u16) {
        let Some(last) = self.count.checked_sub(1) else { return };
        let node = self.node();
        // SAFETY: a packet of the list; so many words have been written.
        let words = unsafe { &(&(*node).words)[..usize::from(last % NODE)] };
        for place in words.iter().map(|&word| Place::of_word(word)).chain([self.head]) {
            let packet = place.packet().cast::<u8>();
            prefetch(packet);
            let payload = packet.wrapping_add(self.distance as usize);
            let ask = |line: usize| prefetch(payload.wrapping_add(line * LINE));
            if usize::from(len) >= LINES * LINE {
                // Without a loop.
                (0..LINES).for_each(ask);
            } else {
                (0..usize::from(len).div_ceil(LINE)).for_each(ask);
            }
        }
    }

    /// Sums them by rank, in the packet of the lowest one, and gives that with whether an element saturated; the others
    /// are spent. `WORDS` is the width of bitmaps of ranks.
    pub(crate) fn sum<const WORDS: usize>(
        self,
        kernel: InOrder,
        spent: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        // As much of the stack as it takes, and no more.
        if WORDS == 1 {
            self.sum_up_to::<64, WORDS>(kernel, spent)
        } else {
            self.sum_up_to::<1024, WORDS>(kernel, spent)
        }
    }

    /// `N` is the number of ranks of which there can be bitmaps, or more.
    #[inline(never)]
    fn sum_up_to<const N: usize, const WORDS: usize>(
        mut self,
        kernel: InOrder,
        spent: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        // By rank, of those ranks that are inside.
        let mut raws = [const { MaybeUninit::<NonNull<()>>::uninit() }; N];
        let mut payloads = [const { MaybeUninit::<&[u8]>::uninit() }; N];
        let mut inside = [0_u64; WORDS];
        let mut place = |place: Place| {
            let Some(raw) = NonNull::new(place.packet()) else { return };
            let (rank, bit) = (usize::from(place.rank()), 1 << (place.rank() % 64));
            // SAFETY: a packet that was given up to the list, which forgets it.
            let packet = ManuallyDrop::new(unsafe { B::from_raw(raw) });
            match (inside.get_mut(rank / 64), raws.get_mut(rank), payloads.get_mut(rank)) {
                // A rank is inside once.
                (Some(word), Some(at), Some(payload)) if *word & bit == 0 => {
                    *word |= bit;
                    at.write(raw);
                    // SAFETY: the bytes stay where they are until the packet is taken back for good, below.
                    payload.write(unsafe { &*ptr::from_ref(packet.bytes()) });
                }
                _ => spent(ManuallyDrop::into_inner(packet)),
            }
        };
        while let Some(last) = self.count.checked_sub(1) {
            let (node, others) = (self.node(), last % NODE);
            // SAFETY: a packet of the list; the link and so many words have been written.
            let (link, words) = unsafe { ((*node).link, &(&(*node).words)[..usize::from(others)]) };
            words.iter().for_each(|&word| place(Place::of_word(word)));
            place(core::mem::replace(&mut self.head, Place(link)));
            self.count = last - others;
        }
        let count = close_ranks(&inside, &mut raws, &mut payloads);
        // SAFETY: closed ranks are so many of those that have been written.
        let (raws, payloads) =
            unsafe { (raws.get(..count)?.assume_init_ref(), payloads.get(..count)?.assume_init_ref()) };
        let ((&first, others), payloads) = (raws.split_first()?, payloads.get(1..)?);
        // SAFETY: as above; here it is taken back for good, and its bytes are not among the payloads.
        let mut first = unsafe { B::from_raw(first) };
        let overflow = kernel(first.bytes_mut(), payloads);
        // SAFETY: as above; the payloads are of no use any more.
        others.iter().for_each(|&raw| spent(unsafe { B::from_raw(raw) }));
        Some((first, overflow))
    }
}

/// Moves what is there of the ranks inside to the front, in their order. Returns how many there are. Mostly all are, and nothing is moved.
#[inline(always)]
fn close_ranks<A: Copy, C: Copy, const WORDS: usize>(
    inside: &[u64; WORDS],
    a: &mut [A],
    c: &mut [C],
) -> usize {
    let mut count = 0;
    for (at, &ranks) in inside.iter().enumerate() {
        let without_gaps = ranks & ranks.wrapping_add(1) == 0 && (ranks == 0 || count == at * 64);
        if !without_gaps {
            return close_up(inside, a, c);
        }
        count += 64 - ranks.leading_zeros() as usize;
    }
    count
}

#[cold]
fn close_up<A: Copy, C: Copy>(inside: &[u64], a: &mut [A], c: &mut [C]) -> usize {
    let mut to = 0;
    for (at, &word) in inside.iter().enumerate() {
        let mut ranks = word;
        while ranks != 0 {
            let rank = at * 64 + ranks.trailing_zeros() as usize;
            ranks &= ranks - 1;
            (a[to], c[to]) = (a[rank], c[rank]);
            to += 1;
        }
    }
    to
}

impl<B: PacketBuf> Drop for Contributions<B> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The contributions of an evicted slot. Those that nobody takes are freed.
pub struct Originals<B: PacketBuf> {
    pub(crate) contributions: Contributions<B>,
    /// Which PSN.
    pub key: Key,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// Ranks of the job.
    pub fan_in: u16,
    /// An element of one of them saturated before it came here.
    pub overflow: bool,
    /// The slot was opened by a contribution that was not sent for the first time, so perhaps none of them was.
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

#[cfg(test)]
mod tests {
    use super::close_ranks;

    /// Against the plain way, for ranks of two words with and without gaps.
    #[test]
    fn ranks_are_closed_in_their_order() {
        let all = u64::MAX;
        for inside in [
            [0, 0],
            [1, 0],
            [0b1011, 0],
            [0b10, 1],
            [all, 0],
            [all, 0b111],
            [all, 0b101],
            [all >> 1, 1],
            [all, all],
            [0, 9],
        ] {
            let expected: Vec<usize> =
                (0..128).filter(|rank| inside[rank / 64] >> (rank % 64) & 1 != 0).collect();
            let (mut a, mut c): ([usize; 128], [usize; 128]) =
                (core::array::from_fn(|n| n), core::array::from_fn(|n| n));
            let count = close_ranks(&inside, &mut a, &mut c);
            assert_eq!((&a[..count], &c[..count]), (&expected[..], &expected[..]), "{inside:?}");
        }
    }
}
