//! One lcore's way into the pool: entering and leaving sets, and the packets that travel between lcores.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;

use pascaline_buffer::PacketBuf;

use crate::handoff::{Left, Linked};
use crate::key::Key;
use crate::pool::Pool;
use crate::request::Request;
use crate::sink::{Refusal, Sink};

/// One lcore's access to a pool: there are exactly as many as were asked for, and each has one user at a time.
pub struct Session<B: PacketBuf, const WORDS: usize = 1> {
    pool: Arc<Pool<B, WORDS>>,
    /// Sets that this lcore still owns because more was left with it than one turn may work off; the one that has
    /// waited longest is first.
    parked: VecDeque<u32>,
    sweep_at: usize,
}

/// Links and requests travel in the packets' scratch lines.
struct Scratched<B>(PhantomData<B>);

// SAFETY: a packet's scratch line belongs to whoever holds the packet.
unsafe impl<B: PacketBuf> Linked for Scratched<B> {
    unsafe fn set_link(packet: NonNull<()>, next: *mut ()) {
        // SAFETY: the caller holds the packet, so the line is valid and nobody else uses it.
        unsafe { (*B::raw_scratch(packet)).link = next }
    }

    unsafe fn link(packet: NonNull<()>) -> *mut () {
        // SAFETY: as above.
        unsafe { (*B::raw_scratch(packet)).link }
    }
}

impl<B: PacketBuf, const WORDS: usize> fmt::Debug for Session<B, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} slots in sets of {})", self.pool.slots.len(), self.pool.ways)
    }
}

/// Packets that one release works off before it postpones the rest to the next turn.
const DRAIN_BUDGET: usize = 128;

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// A session of `pool`, which has `sets` sets.
    pub(crate) fn new(pool: Arc<Pool<B, WORDS>>, sets: usize) -> Self {
        Self { pool, parked: VecDeque::with_capacity(sets), sweep_at: 0 }
    }

    /// Slots in all.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.pool.slots.len()
    }

    /// True if the pool can combine elements of this code.
    #[must_use]
    #[inline]
    pub fn supports(&self, element: u8) -> bool {
        self.pool.kernel(element).is_some()
    }

    /// Asks the processor to bring in what a request for this key will look at first; a hint only.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        let set = key.place(self.pool.set_bits);
        prefetch(&raw const self.pool.heads[set]);
        prefetch(&raw const self.pool.slots[set * self.pool.ways]);
    }

    /// As [`prefetch`](Self::prefetch), once what that brought in has arrived: the slot that holds the key, if there is
    /// only one session. With several, nobody may look into a set that it does not own.
    #[inline]
    pub fn prefetch_slot(&mut self, key: Key) {
        // A pool of this size is in the second-level cache anyway.
        const SMALL: usize = 1024;
        if self.pool.shared || self.pool.slots.len() <= SMALL {
            return;
        }
        let set = key.place(self.pool.set_bits);
        // SAFETY: there is only one session, and it is borrowed exclusively.
        let set = unsafe { self.pool.set(set) };
        if let Some(way) = set.likely(key)
            && let Some(slot) = set.slots.get(way)
        {
            prefetch(core::ptr::from_ref(slot));
        }
    }

    /// Gives a packet to the pool. The events go to `sink`: this packet's, unless it was handed off, and those of
    /// packets that other lcores left meanwhile.
    #[inline]
    pub fn offer<S: Sink<B, WORDS>>(&mut self, request: &Request, packet: B, sink: &mut S) {
        let set = request.key.place(self.pool.set_bits);
        if !self.pool.shared {
            self.pool.apply(set, request, packet, sink);
            return;
        }
        let owner = &self.pool.heads[set].owner;
        if owner.enter() {
            self.pool.apply(set, request, packet, sink);
        } else {
            let mut packet = packet;
            packet.scratch_mut().words[..4].copy_from_slice(&request.pack());
            let raw = packet.into_raw();
            // SAFETY: `into_raw` made this lcore the holder of `raw`; packets are aligned by contract.
            match unsafe { owner.leave_with_owner::<Scratched<B>>(raw) } {
                Left::HandedOff => {
                    sink.handed_off();
                    return;
                }
                Left::Entered => {
                    // SAFETY: the packet was not given up, so `raw` is still this lcore's.
                    let packet = unsafe { B::from_raw(raw) };
                    self.pool.apply(set, request, packet, sink);
                }
                Left::Contention => {
                    // SAFETY: as above.
                    let packet = unsafe { B::from_raw(raw) };
                    sink.refused(request, packet, Refusal::Contention);
                    return;
                }
            }
        }
        self.release(set, sink);
    }

    /// Goes on with sets that the last turn had to postpone. To be called once per turn.
    pub fn resume<S: Sink<B, WORDS>>(&mut self, sink: &mut S) {
        for _ in 0..self.parked.len() {
            if let Some(set) = self.parked.pop_front() {
                self.release(set as usize, sink);
            }
        }
    }

    /// True if sets were postponed.
    #[must_use]
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Visits the next `sets` sets and vacates the slots whose key is `outdated`. Sets that another lcore owns are
    /// passed over. To be called now and then, so that nothing of a past generation outlives the sweep.
    pub fn sweep<S: Sink<B, WORDS>>(&mut self, sets: usize, outdated: impl Fn(Key) -> bool, sink: &mut S) {
        for _ in 0..sets.min(self.pool.heads.len()) {
            let set = self.sweep_at;
            self.sweep_at = if set + 1 == self.pool.heads.len() { 0 } else { set + 1 };
            if self.pool.shared && !self.pool.heads[set].owner.enter() {
                continue;
            }
            {
                // SAFETY: this lcore owns the set: it has just entered it, or it is the only user.
                let mut owned = unsafe { self.pool.set(set) };
                for way in 0..self.pool.ways {
                    if outdated(owned.slots[way].key)
                        && let Some((key, what)) = owned.vacate(way)
                    {
                        sink.displaced(key, what);
                    }
                }
            }
            if self.pool.shared {
                self.release(set, sink);
            }
        }
    }

    /// Lets go of a set, working off first what was left here, up to a budget.
    fn release<S: Sink<B, WORDS>>(&mut self, set: usize, sink: &mut S) {
        let owner = &self.pool.heads[set].owner;
        let mut worked_off = 0;
        while let Some(mut chain) = owner.leave::<Scratched<B>>() {
            while let Some(raw) = chain.pop::<Scratched<B>>() {
                // SAFETY: packets on the chain were given up to the owner of the set, which this lcore is.
                let mut packet = unsafe { B::from_raw(raw) };
                let [key, now, ranks, payload, ..] = packet.scratch_mut().words;
                let request = Request::unpack([key, now, ranks, payload]);
                self.pool.apply(set, &request, packet, sink);
                worked_off += 1;
            }
            // The queue has room for every set, so this never allocates.
            if worked_off >= DRAIN_BUDGET && self.parked.len() < self.parked.capacity() {
                if owner.let_go() {
                    return;
                }
                self.parked.push_back(u32::try_from(set).unwrap_or(u32::MAX));
                return;
            }
        }
    }
}

impl<B: PacketBuf, const WORDS: usize> Drop for Session<B, WORDS> {
    /// Lets go of postponed sets; packets that wait there are freed.
    fn drop(&mut self) {
        for set in core::mem::take(&mut self.parked) {
            while let Some(mut chain) = self.pool.heads[set as usize].owner.leave::<Scratched<B>>() {
                while let Some(raw) = chain.pop::<Scratched<B>>() {
                    // SAFETY: packets on the chain were given up to the owner of the set, which this lcore is.
                    drop(unsafe { B::from_raw(raw) });
                }
            }
        }
    }
}

#[inline]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults nowhere; SSE is part of the architecture.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
