//! Sweeping: looking after slots that receive no packets any more.

use pascaline_buffer::PacketBuf;

use super::Session;
use crate::key::Key;
use crate::shard::Shard;
use crate::sink::{Cause, Sink};

/// The action of a [sweep](Session::sweep) on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepAction {
    /// Nothing.
    Keep,
    /// Empties it.
    Vacate,
    /// If it holds a partial: makes it the result, as it is.
    Release,
    /// Empties it if it holds a partial that has received no packet or request in the pool's age limit before
    /// this time, in nanoseconds of the caller's clock. Such a partial yields to other PSNs in any case, but
    /// until one needs its slot it counts against its job's quota.
    Expire(u64),
    /// The same, unless the sink [says](Sink::seen) that a rank waits for it.
    Abandon(u64),
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Sets that this session owns: all of the pool's, if it is the only one.
    #[must_use]
    pub const fn sets(&self) -> usize {
        self.shard.memory.sets()
    }

    /// Slots of a set.
    #[must_use]
    pub const fn ways(&self) -> usize {
        self.shard.memory.ways()
    }

    /// Visits the next `sets` sets, in cycles from the first one on, and carries out the action that `judge`
    /// returns for each slot, given the key, and for a partial the time of its first contribution. Call it
    /// regularly, so that no slot of a past generation outlives the sweep and no partial its time.
    pub fn sweep<S: Sink<B, WORDS>>(
        &mut self,
        sets: usize,
        mut judge: impl FnMut(Key, Option<u64>) -> SweepAction,
        sink: &mut S,
    ) {
        let own = self.sets();
        let Shard { pool, memory, .. } = &mut self.shard;
        for _ in 0..sets.min(own) {
            let Some(mut set) = memory.set(self.sweep_at) else { break };
            self.sweep_at = if self.sweep_at + 1 >= own { 0 } else { self.sweep_at + 1 };
            for way in set.directory.used_ways() {
                let Some(slot) = set.slots.get(way) else { break };
                let waited = slot.is_partial() && sink.seen(slot.key(), slot.first(), slot.ranks());
                match judge(slot.key(), slot.is_partial().then_some(slot.first())) {
                    SweepAction::Abandon(_) if waited => {}
                    SweepAction::Keep => {}
                    SweepAction::Vacate => pool.vacate(&mut set, way, Cause::Swept, sink),
                    SweepAction::Release => {
                        pool.release(&mut set, way, sink);
                    }
                    SweepAction::Expire(now) | SweepAction::Abandon(now) => {
                        pool.expire(&mut set, way, now, sink);
                    }
                }
            }
        }
    }
}
