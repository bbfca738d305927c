//! Queues of updates in front of the ports (Olaf, section 4), and who owns them.
//!
//! Each port has a queue, which one lcore owns: lcores share nothing that has to be locked. An update that
//! another lcore receives is left in the owner's inbox, a bounded queue without locks; where that is full, it
//! is dropped and counted. So that acknowledgements can be stamped with the queue's state on any lcore, the
//! owner publishes it each turn, as one word.
//!
//! An update that has been taken in counts as absorbed; one that has not, under the reason. What leaves is
//! the appliance's own: an update that stands for all that went into it. It goes to the parent, where the job
//! has one, and meets that one's queue; else to the parameter server.

mod acks;
mod counts;
mod egress;

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_queue::{Config, ConfigError, Update};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::trailer::QueueState;

use crate::classify::Objection;
use crate::emit::Emitter;
use crate::io::{BURST, Io};
use crate::jobs::JobTable;

pub(crate) use acks::{acknowledge, answered};
pub use counts::{AGGREGATIONS, Fate, QueueCounts, QueueReading};
use egress::Egress;

/// Updates that may wait for the lcore that owns their queue.
pub const INBOX: usize = 1024;

/// The queue of updates in front of a port.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PortQueue {
    /// Its shape and rules. Clusters are jobs, by their numbers.
    pub queue: Config,
    /// How fast it is drained, in bits per second on the wire; as fast as the port takes it, if there is
    /// none.
    pub rate: Option<NonZeroU64>,
}

/// An update under way, and its packet.
pub(crate) struct Offer<B> {
    pub(crate) port: usize,
    pub(crate) update: Update,
    pub(crate) packet: B,
}

/// An update that was not taken, and what its worker should know.
pub(crate) struct Refused {
    pub(crate) update: Update,
    pub(crate) why: Objection,
}

/// What lcores know of a port's queue.
struct Shared<B> {
    inbox: ArrayQueue<(Update, B)>,
    /// [`pack`]ed.
    state: AtomicU64,
    counts: Arc<QueueCounts>,
}

/// One lcore's part in the queues of all ports.
pub struct UpdateEnd<B> {
    shared: Vec<Arc<Shared<B>>>,
    /// By port; those that this lcore owns.
    owned: Vec<Option<Egress<B>>>,
}

impl<B> core::fmt::Debug for UpdateEnd<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.owned.iter().flatten().map(Egress::queue)).finish()
    }
}

impl<B> UpdateEnd<B> {
    /// The ends of this many lcores, and the counts of each port's queue. The queues are dealt out to the
    /// lcores in turn.
    ///
    /// # Errors
    /// [`ConfigError`] if there cannot be a queue like one of these.
    pub fn connect(
        ports: &[PortQueue],
        lcores: usize,
        kernels: &Kernels,
    ) -> Result<(Vec<Self>, Vec<Arc<QueueCounts>>), ConfigError> {
        let shared: Vec<_> = ports
            .iter()
            .map(|port| {
                let idle = QueueState { clusters: 0, capacity: port.queue.segments, waiting: 0 };
                Arc::new(Shared {
                    inbox: ArrayQueue::new(INBOX),
                    state: AtomicU64::new(pack(idle)),
                    counts: Arc::new(QueueCounts::new(port.queue.segments)),
                })
            })
            .collect();
        let counts = shared.iter().map(|shared| Arc::clone(&shared.counts)).collect();
        let mut ends: Vec<Self> = (0..lcores)
            .map(|_| Self { shared: shared.clone(), owned: ports.iter().map(|_| None).collect() })
            .collect();
        for (at, port) in ports.iter().enumerate() {
            let owner = at % lcores.max(1);
            let egress = Egress::new(port, kernels, owner)?;
            if let Some(place) = ends.get_mut(owner).and_then(|end| end.owned.get_mut(at)) {
                *place = Some(egress);
            }
        }
        Ok((ends, counts))
    }

    /// The state of a port's queue; `None` if there is no such port.
    pub(crate) fn state(&mut self, port: usize, unix_ns: u64) -> Option<QueueState> {
        match self.owned.get_mut(port)? {
            Some(egress) => Some(egress.state(unix_ns)),
            None => Some(unpack(self.shared.get(port)?.state.load(Ordering::Relaxed))),
        }
    }
}

impl<B: PacketBuf> UpdateEnd<B> {
    /// Takes in a burst of updates, or leaves them with those who own their queues. `unix_ns` is now. Gives
    /// one of those that were refused: no more are answered at a time.
    pub(crate) fn offer<I: Io<Buf = B>>(
        &mut self,
        emitter: &mut Emitter<I>,
        offers: ArrayVec<Offer<B>, BURST>,
        unix_ns: u64,
    ) -> Option<Refused> {
        // All look-ups first, so that the processor does them at the same time; then what they will meet.
        let mut ahead = ArrayVec::<_, BURST>::new();
        for Offer { port, update, .. } in &offers {
            let egress = self.owned.get(*port).and_then(Option::as_ref);
            ahead.push(egress.map(|egress| egress.queue().predict(update.cluster)));
        }
        for (offer, prediction) in offers.iter().zip(ahead) {
            if let (Some(Some(egress)), Some(prediction)) = (self.owned.get(offer.port), prediction) {
                egress.queue().prefetch(prediction);
            }
        }
        let mut refused = None;
        for Offer { port, update, packet } in offers {
            match (self.owned.get_mut(port), self.shared.get(port)) {
                (Some(Some(egress)), _) => {
                    refused = egress.enqueue(emitter, unix_ns, update, packet).or(refused);
                }
                (_, Some(shared)) => match shared.inbox.push((update, packet)) {
                    Ok(()) => emitter.tally.add(Counter::HandedOff, 1),
                    Err((_, packet)) => {
                        shared.counts.handoff_full();
                        emitter.discard(packet, DropReason::HandoffFull);
                    }
                },
                (_, None) => emitter.discard(packet, DropReason::NoServer),
            }
        }
        refused
    }

    /// The owner's share of a turn: takes in what others have left, sends off what may leave, and publishes.
    /// Work is bounded. True if there was anything to do, and one of the updates that were refused.
    pub(crate) fn turn<I: Io<Buf = B>>(
        &mut self,
        emitter: &mut Emitter<I>,
        table: &JobTable,
        now: u64,
        unix_ns: u64,
    ) -> (bool, Option<Refused>) {
        let (mut busy, mut refused) = (false, None);
        for port in 0..self.owned.len() {
            let (Some(Some(_)), Some(shared)) = (self.owned.get(port), self.shared.get(port)) else {
                continue;
            };
            let mut offers = ArrayVec::new();
            while !offers.is_full()
                // `is_empty` is two loads; `pop` would begin with a fence.
                && !shared.inbox.is_empty()
                && let Some((update, packet)) = shared.inbox.pop()
            {
                // The generation may have ended while it was here.
                if is_present(table, &update) {
                    offers.push(Offer { port, update, packet });
                } else {
                    emitter.discard(packet, DropReason::WrongEpoch);
                }
                busy = true;
            }
            if !offers.is_empty() {
                refused = self.offer(emitter, offers, unix_ns).or(refused);
            }
            let (Some(Some(egress)), Some(shared)) = (self.owned.get_mut(port), self.shared.get(port)) else {
                continue;
            };
            busy |= egress.depart(emitter, port, table, now);
            let state = egress.state(unix_ns);
            shared.state.store(pack(state), Ordering::Relaxed);
            egress.publish(&shared.counts, state);
        }
        (busy, refused)
    }

    /// The end of the lcore: drops what has been left in any inbox. Whoever has left something there is still
    /// running or comes here later than that, so nothing remains unaccounted for, whoever ends first.
    pub(crate) fn finish<I: Io<Buf = B>>(&mut self, emitter: &mut Emitter<I>) {
        for shared in &self.shared {
            while let Some((_, packet)) = shared.inbox.pop() {
                shared.counts.handoff_full();
                emitter.discard(packet, DropReason::HandoffFull);
            }
        }
    }
}

/// True if an update belongs to the present generation of its job.
fn is_present(table: &JobTable, update: &Update) -> bool {
    let job = u16::try_from(update.cluster).ok().and_then(|id| table.get(id));
    job.is_some_and(|job| job.epoch == update.epoch)
}

/// A queue's state as one word.
fn pack(state: QueueState) -> u64 {
    u64::from(state.clusters) << 48 | u64::from(state.capacity) << 32 | u64::from(state.waiting)
}

#[expect(clippy::cast_possible_truncation, reason = "the parts of the word")]
fn unpack(word: u64) -> QueueState {
    QueueState { clusters: (word >> 48) as u16, capacity: (word >> 32) as u16, waiting: word as u32 }
}

#[cfg(test)]
mod tests;
