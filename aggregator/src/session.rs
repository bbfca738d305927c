//! One lcore's access to the pool.

mod burst;
mod fast_path;
mod handoff;
mod lane;
mod long;
mod sweep;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use core::fmt;

use pascaline_buffer::PacketBuf;

use crate::handed_off::HandedOff;
use crate::handoff::{Receiver, Sender};
use crate::key::Key;
use crate::policy::Region;
use crate::request::Request;
use crate::shard::Shard;
use crate::share::Shares;
use crate::sink::Sink;
use crate::slot::Slot;

pub(crate) use burst::Place;
pub use burst::{BURST, Burst};
pub(crate) use lane::Lane;
pub use sweep::SweepAction;

/// One lcore's access to a pool: one for each lcore of the layout, and each has one user at a time.
///
/// A turn of its user: [`gather`](Self::gather) and [`add_burst`](Self::add_burst) for the gradients that the
/// fast path recognises, [`offer`](Self::offer) for every other packet, then [`resume`](Self::resume).
pub struct Session<B: PacketBuf, const WORDS: usize = 1> {
    shard: Shard<B, WORDS>,
    /// The ring to each other lcore, by its number; none to itself.
    to: Box<[Option<Lane<HandedOff<B>>>]>,
    /// The rings from the others.
    from: Box<[Receiver<HandedOff<B>>]>,
    /// The ring that is read first in the next turn.
    first_from: usize,
    /// The next of its sets to be swept.
    sweep_at: usize,
}

impl<B: PacketBuf, const WORDS: usize> fmt::Debug for Session<B, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shard { pool, owner, .. } = &self.shard;
        let (count, config) = (pool.owners.count(), &pool.config);
        write!(f, "Session({owner} of {count}, {} slots in sets of {})", config.slots, config.ways)
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// The session of a shard, and its rings to and from the others.
    pub(crate) fn new(
        shard: Shard<B, WORDS>,
        to: Vec<(usize, Sender<HandedOff<B>>)>,
        from: Vec<Receiver<HandedOff<B>>>,
    ) -> Self {
        let mut rings: Box<[_]> = (0..shard.pool.owners.count()).map(|_| None).collect();
        for (number, sender) in to {
            rings[number] = Some(Lane::new(sender));
        }
        Self { shard, to: rings, from: from.into_boxed_slice(), first_from: 0, sweep_at: 0 }
    }

    /// Sets the part of the shared pool that each tenant is guaranteed from now on.
    pub fn set_shares(&mut self, shares: &Shares) {
        *self.shard.memory.shares = shares.clone();
    }

    #[inline(always)]
    fn set_in(&self, region: Region, psn: u32) -> u32 {
        // Past the end of the pool there is nothing; a region that does not fit shares its last set.
        let set = region.first as usize + (psn & region.sets.wrapping_sub(1)) as usize;
        #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
        let set = set.min(self.shard.pool.sets() - 1) as u32;
        set
    }

    /// The set of a key, in the region of its job or in the shared part.
    fn set_of(&self, region: Option<Region>, key: Key) -> u32 {
        let pool = &self.shard.pool;
        match region {
            Some(region) => self.set_in(region, key.psn()),
            None => pool.owners.place(key.spread_job(), key.psn(), pool.groups),
        }
    }

    /// Gives a packet to the pool, in the region of its job if it has one, otherwise in the shared part; the
    /// request's [`rules`](Request::rules) say the same. The event goes to `sink`, or, if another session
    /// owns the set, to the sink of that one when it [resumes](Self::resume).
    #[inline]
    pub fn offer<S: Sink<B, WORDS>>(
        &mut self,
        request: &Request,
        region: Option<Region>,
        packet: B,
        sink: &mut S,
    ) {
        self.offer_to(self.set_of(region, request.key), request, packet, sink);
    }

    #[inline]
    fn offer_to<S: Sink<B, WORDS>>(&mut self, set: u32, request: &Request, packet: B, sink: &mut S) {
        if let Err(packet) = self.shard.apply(set, request, packet, sink) {
            self.hand_off(set, request, packet, sink);
        }
    }

    /// Packets that the slots of this session's sets hold. It visits all of them: for tests and tools.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.shard.memory.slots().iter().map(Slot::packets).sum()
    }
}
