//! How kept contributions are summed: by rank, in the packet of the lowest one.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::InOrder;

use super::{Contributions, NODE, Ranked};

impl<B: PacketBuf> Contributions<B> {
    /// Sums them by rank and returns the sum's packet, and whether an element saturated; the others are
    /// recycled. `WORDS` is the width of bitmaps of ranks.
    pub(crate) fn sum<const WORDS: usize>(
        self,
        kernel: InOrder,
        recycle: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        // Uses no more of the stack than necessary.
        if WORDS == 1 {
            self.sum_up_to::<64, WORDS>(kernel, recycle)
        } else {
            self.sum_up_to::<1024, WORDS>(kernel, recycle)
        }
    }

    /// `N` is at least the number of ranks in a bitmap.
    #[inline(never)]
    fn sum_up_to<const N: usize, const WORDS: usize>(
        mut self,
        kernel: InOrder,
        recycle: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        // By rank, of those ranks that are inside.
        let mut packets = [const { MaybeUninit::<B>::uninit() }; N];
        let mut payloads = [const { MaybeUninit::<&[u8]>::uninit() }; N];
        let mut inside = [0_u64; WORDS];
        let mut place = |ranked: Ranked| {
            let Some(raw) = NonNull::new(ranked.packet()) else { return };
            let (rank, bit) = (usize::from(ranked.rank()), 1 << (ranked.rank() % 64));
            // SAFETY: a packet that was given up to the list, which forgets it: it is taken back once.
            let packet = unsafe { B::from_raw(raw) };
            match (inside.get_mut(rank / 64), packets.get_mut(rank), payloads.get_mut(rank)) {
                // A rank is inside once.
                (Some(word), Some(at), Some(payload)) if *word & bit == 0 => {
                    *word |= bit;
                    // SAFETY: the bytes stay where they are until the packet is recycled, below.
                    payload.write(unsafe { &*ptr::from_ref(packet.bytes()) });
                    at.write(packet);
                }
                _ => recycle(packet),
            }
        };
        while let (Some(node), Some(last)) = (self.node(), self.count.checked_sub(1)) {
            let (node, others) = (node.as_ptr(), last % NODE);
            // SAFETY: a packet of the list; the link and as many words have been written.
            let (link, words) = unsafe { ((*node).link, &(&(*node).words)[..usize::from(others)]) };
            words.iter().for_each(|&word| place(Ranked::of_word(word)));
            place(core::mem::replace(&mut self.head, Ranked(link)));
            self.count = last - others;
        }
        let count = close_ranks(&inside, &mut packets, &mut payloads);
        let (packets, payloads) = (packets.get_mut(..count)?, payloads.get(..count)?);
        let (first, others) = packets.split_first_mut()?;
        // SAFETY: `close_ranks` has moved the written entries to the front. Each packet is read once, here or
        // below, and the first one's bytes are not among these payloads.
        let (mut first, payloads) =
            unsafe { (first.assume_init_read(), payloads.get(1..)?.assume_init_ref()) };
        let overflow = kernel(first.bytes_mut(), payloads);
        // SAFETY: as above; the payloads are no longer read.
        others.iter().for_each(|packet| recycle(unsafe { packet.assume_init_read() }));
        Some((first, overflow))
    }
}

/// Moves the entries of the ranks inside to the front, in their order, and returns how many there are.
/// Usually all ranks are inside, and nothing moves.
#[inline(always)]
pub(super) fn close_ranks<A, C, const WORDS: usize>(
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
fn close_up<A, C>(inside: &[u64], a: &mut [A], c: &mut [C]) -> usize {
    let mut to = 0;
    for (at, &word) in inside.iter().enumerate() {
        let mut ranks = word;
        while ranks != 0 {
            let rank = at * 64 + ranks.trailing_zeros() as usize;
            ranks &= ranks - 1;
            a.swap(to, rank);
            c.swap(to, rank);
            to += 1;
        }
    }
    to
}
