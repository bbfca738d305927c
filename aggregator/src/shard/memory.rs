//! The memory of a shard.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::prefetch::prefetch;

use crate::request::Rules;
use crate::set::{self, Directory, Set};
use crate::share::Shares;
use crate::slot::Slot;

/// The directory of a set: one cache line.
#[repr(align(64))]
pub(crate) struct SetHead(Directory);

const _: () = assert!(size_of::<SetHead>() == 64);

/// Sets and their slots.
pub(crate) struct Memory<B: PacketBuf, const WORDS: usize> {
    heads: Box<[SetHead]>,
    slots: Box<[Slot<B, WORDS>]>,
    /// A power of two.
    ways: usize,
    /// The binary logarithm of `ways`: a slot's number, shifted right by it, is its set's number.
    way_bits: u32,
    /// `ways` less one: a slot's number and this is the slot's way in its set.
    way_mask: usize,
    pub(crate) shares: Box<Shares>,
}

/// A slot, and where it is.
pub(crate) struct At<'a, B: PacketBuf, const WORDS: usize> {
    pub(crate) directory: &'a mut Directory,
    pub(crate) slot: &'a mut Slot<B, WORDS>,
    pub(crate) way: usize,
}

impl<B: PacketBuf, const WORDS: usize> Memory<B, WORDS> {
    pub(crate) fn new(sets: usize, ways: usize) -> Self {
        Self {
            heads: (0..sets).map(|_| SetHead(Directory::new())).collect(),
            slots: (0..sets * ways).map(|_| Slot::new()).collect(),
            ways,
            way_bits: ways.trailing_zeros(),
            way_mask: ways - 1,
            shares: Box::default(),
        }
    }

    #[inline(always)]
    pub(crate) const fn sets(&self) -> usize {
        self.heads.len()
    }

    pub(crate) const fn ways(&self) -> usize {
        self.ways
    }

    /// The directory of a set.
    #[inline(always)]
    pub(crate) fn directory(&self, set: usize) -> Option<&Directory> {
        self.heads.get(set).map(|head| &head.0)
    }

    /// A set.
    #[inline(always)]
    pub(crate) fn set(&mut self, set: usize) -> Option<Set<'_, B, WORDS>> {
        let first = set * self.ways;
        let slots = self.slots.get_mut(first..first + self.ways)?;
        let directory = &mut self.heads.get_mut(set)?.0;
        Some(Set { directory, slots, number: set, shares: &self.shares })
    }

    /// A slot, by its number among all of them.
    #[inline(always)]
    pub(crate) fn slot(&self, number: u32) -> Option<&Slot<B, WORDS>> {
        self.slots.get(number as usize)
    }

    /// The same, for changing.
    #[inline(always)]
    pub(crate) fn slot_mut(&mut self, number: u32) -> Option<&mut Slot<B, WORDS>> {
        self.slots.get_mut(number as usize)
    }

    /// The set of a slot, by its number among all of them.
    #[inline(always)]
    pub(crate) const fn set_of(&self, number: u32) -> usize {
        number as usize >> self.way_bits
    }

    /// The way of a slot in its set, by its number among all of them.
    #[inline(always)]
    pub(crate) const fn way_of(&self, number: u32) -> usize {
        number as usize & self.way_mask
    }

    /// A slot, by its number, with the directory of its set and its way there.
    #[inline(always)]
    pub(crate) fn at(&mut self, number: u32) -> Option<At<'_, B, WORDS>> {
        let (set, way) = (self.set_of(number), self.way_of(number));
        let directory = &mut self.heads.get_mut(set)?.0;
        Some(At { directory, slot: self.slots.get_mut(number as usize)?, way })
    }

    /// The slot that a newcomer with these rules may open if this one is predicted for it, by number: that,
    /// or otherwise the one of its own longest idle result.
    #[inline(always)]
    pub(crate) fn fair(&mut self, number: u32, rules: Rules) -> Option<At<'_, B, WORDS>> {
        let way = self.way_of(number);
        if self.heads.get(self.set_of(number))?.0.is_its_own(way, rules.sender()) {
            return self.at(number);
        }
        self.fair_among(number, rules)
    }

    #[inline(never)]
    fn fair_among(&mut self, number: u32, rules: Rules) -> Option<At<'_, B, WORDS>> {
        let Some(tenant) = rules.tenant() else { return self.at(number) };
        let (set, way) = (self.set_of(number), self.way_of(number));
        let directory = &self.heads.get(set)?.0;
        let way = if set::may_replace(directory, &self.shares, tenant, way, (set, self.ways)) {
            way
        } else {
            directory.longest_idle_among(directory.ways_of(tenant))?
        };
        self.at(u32::try_from(set * self.ways + way).ok()?)
    }

    /// All of them.
    pub(crate) fn slots(&self) -> &[Slot<B, WORDS>] {
        &self.slots
    }

    /// Prefetches a directory; past the end, any address.
    #[inline(always)]
    pub(crate) fn prefetch_head(&self, set: usize) {
        prefetch(self.heads.as_ptr().wrapping_add(set));
    }

    /// Prefetches a slot, by its number.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, number: u32) {
        prefetch(self.slots.as_ptr().wrapping_add(number as usize));
    }
}
