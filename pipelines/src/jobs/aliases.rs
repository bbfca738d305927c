//! Whose update went up under which number.
//!
//! To its parent an appliance is one rank, whose updates have running numbers of its own. An Ack names one of
//! them: the place of that number says whose update it was, and how its sender had numbered it. What is too
//! long ago has been overwritten, and is nobody's.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Numbers whose updates are remembered, where updates go up at all: more than there are under way.
const REMEMBERED: usize = 4096;
/// Bits of a number that its place says.
const AT: u32 = REMEMBERED.trailing_zeros();
/// In a place that has not been used: there is no such rank.
const UNUSED: u64 = u64::MAX;

/// The numbers of one generation. Any lcore may draw one, and look one up.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    next: AtomicU32,
    /// Of Acks to updates that came by other appliances.
    next_of_others: AtomicU32,
    /// Each is one word: 16 bits of the number that its place does not say, the rank, the rank's number.
    places: Box<[AtomicU64]>,
}

impl Aliases {
    /// Numbers from `first` on.
    pub(crate) fn new(first: u32) -> Self {
        let places = (0..REMEMBERED).map(|_| AtomicU64::new(UNUSED)).collect();
        Self { next: AtomicU32::new(first), next_of_others: AtomicU32::new(first), places }
    }

    /// The number under which this update of a rank goes up.
    pub(crate) fn draw(&self, rank: u16, psn: u32) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = self.places.get(at(number)) {
            place.store(tag(number) << 48 | u64::from(rank) << 32 | u64::from(psn), Ordering::Relaxed);
        }
        number
    }

    /// The rank whose update went up under this number, and its own number of it; `None` if that is too long
    /// ago, or has never been.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of the word")]
    pub(crate) fn whose(&self, number: u32) -> Option<(u16, u32)> {
        let word = self.places.get(at(number))?.load(Ordering::Relaxed);
        (word != UNUSED && word >> 48 == tag(number)).then_some(((word >> 32) as u16, word as u32))
    }

    /// A number for an Ack that names nobody here: running ones, by which workers tell that it is genuine.
    pub(crate) fn of_others(&self) -> u32 {
        self.next_of_others.fetch_add(1, Ordering::Relaxed)
    }
}

const fn at(number: u32) -> usize {
    number as usize % REMEMBERED
}

fn tag(number: u32) -> u64 {
    u64::from(number >> AT) & 0xffff
}

#[cfg(test)]
mod tests;
