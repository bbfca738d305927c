//! Contributions that are kept as they came, until all are there.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::InOrder;

use crate::key::Key;
use crate::rankset::RankSet;

/// Packets that are nothing but payloads, and whose they are: a list through their scratch lines.
pub(crate) struct Contributions<B: PacketBuf> {
    head: *mut (),
    packets: PhantomData<B>,
}

// SAFETY: the list owns its packets, which are Send.
unsafe impl<B: PacketBuf> Send for Contributions<B> {}

impl<B: PacketBuf> Contributions<B> {
    pub(crate) const fn new() -> Self {
        Self { head: core::ptr::null_mut(), packets: PhantomData }
    }

    pub(crate) fn push(&mut self, rank: u16, mut packet: B) {
        let scratch = packet.scratch_mut();
        scratch.link = self.head;
        scratch.words[0] = u64::from(rank);
        self.head = packet.into_raw().as_ptr();
    }

    pub(crate) fn pop(&mut self) -> Option<(u16, B)> {
        let head = NonNull::new(self.head)?;
        // SAFETY: the list is made of packets that `push` has given up, and each is taken back once.
        let mut packet = unsafe { B::from_raw(head) };
        let scratch = packet.scratch_mut();
        self.head = scratch.link;
        #[expect(clippy::cast_possible_truncation, reason = "it was a rank")]
        let rank = scratch.words[0] as u16;
        Some((rank, packet))
    }

    /// Sums them by rank, in the packet of the lowest one, and gives that with whether an element saturated; the others
    /// are spent. `ranks` are those that are in the list.
    pub(crate) fn sum<const WORDS: usize>(
        self,
        ranks: &RankSet<WORDS>,
        kernel: InOrder,
        spent: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        // As much of the stack as it takes, and no more.
        if WORDS == 1 {
            self.sum_up_to::<64, WORDS>(ranks, kernel, spent)
        } else {
            self.sum_up_to::<1024, WORDS>(ranks, kernel, spent)
        }
    }

    #[inline(never)]
    fn sum_up_to<const N: usize, const WORDS: usize>(
        mut self,
        ranks: &RankSet<WORDS>,
        kernel: InOrder,
        spent: &mut impl FnMut(B),
    ) -> Option<(B, bool)> {
        let mut sorted = ArrayVec::<Option<B>, N>::new();
        for _ in 0..(ranks.count() as usize).min(N) {
            sorted.push(None);
        }
        while let Some((rank, packet)) = self.pop() {
            // Each has a place, and nobody else has it: a rank is inside once.
            match sorted.get_mut(ranks.below(rank) as usize) {
                Some(place) => *place = Some(packet),
                None => spent(packet),
            }
        }
        let mut first = sorted.first_mut()?.take()?;
        let overflow = {
            let mut others = ArrayVec::<&[u8], N>::new();
            others.extend(sorted.iter().flatten().map(PacketBuf::bytes));
            kernel(first.bytes_mut(), &others)
        };
        sorted.iter_mut().filter_map(Option::take).for_each(spent);
        Some((first, overflow))
    }
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
