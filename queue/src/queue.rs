//! The queue: Olaf's Algorithm 1, or FIFO.

use std::collections::VecDeque;
use std::fmt;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_wire::trailer::QueueState;

use crate::clusters::Clusters;
use crate::combine::{Combiner, Kernel};
use crate::config::{Config, ConfigError, Discipline};
use crate::counters::Counters;
use crate::outcome::{EnqueueOutcome, Enqueued, UpdateRejection};
use crate::update::{Departure, Update};
use crate::waiting::{Standing, Waiting};

/// An egress queue of updates. With [`Discipline::Olaf`] it is the paper's OlafQueue (sections 3, 4 and
/// 12.1). Every function but [`waiting`](Self::waiting) takes constant time, and none allocates.
pub struct UpdateQueue<B> {
    /// The head first.
    waiting: VecDeque<Waiting<B>>,
    /// The head's number, modulo 2³². Updates are numbered as they are appended and depart in that order, so
    /// waiting ones have consecutive numbers.
    head: u32,
    /// Locked updates at the head: 0 or 1.
    locked: usize,
    clusters: Clusters,
    combiner: Combiner,
    counters: Counters,
    config: Config,
    max_lead_ns: u64,
}

/// Where an update will probably go: see [`UpdateQueue::predict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction(u32);

impl<B> fmt::Debug for UpdateQueue<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpdateQueue({:?}, {} of {})", self.config.discipline, self.len(), self.config.segments)
    }
}

impl<B> UpdateQueue<B> {
    /// An empty queue. Allocates all the memory that it will ever need.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration is invalid.
    pub fn new(config: &Config, kernels: &Kernels) -> Result<Self, ConfigError> {
        config.check()?;
        let nanos = |duration: core::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            waiting: VecDeque::with_capacity(usize::from(config.segments)),
            head: 0,
            locked: 0,
            clusters: Clusters::new(config.clusters, nanos(config.activity)),
            combiner: Combiner::new(config.combine, kernels),
            counters: Counters::default(),
            config: *config,
            max_lead_ns: nanos(config.max_lead),
        })
    }

    /// Updates in the queue, the locked one included.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no update waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if every segment is taken.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= usize::from(self.config.segments)
    }

    /// The totals so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state that acknowledgements carry back (Olaf, sections 5 and 7): active clusters (at most 65,535),
    /// Q_max and Q_n.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65,535 segments")]
    pub fn state(&mut self, now_ns: u64) -> QueueState {
        QueueState {
            clusters: u16::try_from(self.clusters.active(now_ns)).unwrap_or(u16::MAX),
            capacity: self.config.segments,
            waiting: self.len() as u32,
        }
    }
}

impl<B: PacketBuf> UpdateQueue<B> {
    /// Offers an update. `now_ns` is on the clock of [`Update::generated_ns`].
    ///
    /// With [`Discipline::Olaf`], if an update of the same cluster waits and is not locked:
    /// - of different generations: the new one stays ([`Renewed`](EnqueueOutcome::Renewed));
    /// - both single and of one worker: the newer one stays ([`Replaced`](EnqueueOutcome::Replaced),
    ///   [`Outdated`](EnqueueOutcome::Outdated));
    /// - else rewards decide: within the threshold they are combined
    ///   ([`Aggregated`](EnqueueOutcome::Aggregated)), beyond it the higher one stays
    ///   ([`Preferred`](EnqueueOutcome::Preferred), [`LowReward`](EnqueueOutcome::LowReward)).
    ///
    /// The one that stays keeps the place. If none waits, and always with [`Discipline::Fifo`], the update
    /// goes to the tail, or is dropped if the queue is full ([`Appended`](EnqueueOutcome::Appended),
    /// [`Full`](EnqueueOutcome::Full)).
    #[inline]
    pub fn enqueue(&mut self, now_ns: u64, update: Update, packet: B) -> Enqueued<B> {
        if let Err(reason) = self.examine(now_ns, &update, packet.bytes().len()) {
            return self.reject(reason, packet);
        }
        let appended = self.clusters.note_activity(update.cluster, now_ns);
        match self.place(update.cluster, appended) {
            Some(place) => self.merge(place, &update, packet),
            None => self.append(&update, packet),
        }
    }

    /// The update at the head, as it would leave now.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Option<Update> {
        self.waiting.front().map(Waiting::seen)
    }

    /// Locks the head, because parts of it may have left (Olaf, section 12.1): no update replaces it or is
    /// combined with it any more. Another update of its cluster may wait beside it.
    pub fn lock(&mut self) -> Option<Update> {
        let head = self.head();
        self.locked = usize::from(head.is_some());
        head
    }

    /// Removes the head, locked or not.
    #[inline]
    pub fn dequeue(&mut self) -> Option<Departure<B>> {
        let departure = self.depart()?;
        self.counters.departed.add(departure.update.count);
        Some(departure)
    }

    /// Drops the head, locked or not, because its receiver is gone. Returns its packet.
    pub fn discard(&mut self) -> Option<B> {
        let Departure { update, packet, .. } = self.depart()?;
        self.counters.lapsed.add(update.count);
        Some(packet)
    }

    #[inline]
    fn depart(&mut self) -> Option<Departure<B>> {
        self.waiting.front_mut()?.end(&self.combiner);
        self.head = self.head.wrapping_add(1);
        self.locked = 0;
        self.waiting.pop_front().map(Waiting::depart)
    }

    /// The waiting updates, the head first. Takes time in proportion.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = Update> {
        self.waiting.iter().map(Waiting::seen)
    }

    /// Predicts where an update of this cluster will go. Call it for a whole burst before
    /// [`prefetch`](Self::prefetch), so that the processor does all the look-ups at the same time.
    #[must_use]
    #[inline]
    pub fn predict(&self, cluster: u32) -> Prediction {
        Prediction(self.clusters.appended(cluster).wrapping_sub(self.head))
    }

    /// Prefetches the update that waits there. For speed only: the update may come later, or not at all.
    #[inline]
    pub fn prefetch(&self, prediction: Prediction) {
        if let Some(waiting) = self.waiting.get(prediction.0 as usize) {
            waiting.prefetch();
        }
    }

    /// Checks an update by itself; `packet` is the packet's length.
    #[inline]
    fn examine(&self, now_ns: u64, update: &Update, packet: usize) -> Result<&Kernel, UpdateRejection> {
        let size = update.element.dtype.size();
        if !self.clusters.has(update.cluster) {
            Err(UpdateRejection::ClusterOutOfRange)
        } else if update.count == 0 {
            Err(UpdateRejection::CountZero)
        } else if !update.reward.is_finite() {
            Err(UpdateRejection::RewardNotFinite)
        } else if update.generated_ns > now_ns.saturating_add(self.max_lead_ns) {
            Err(UpdateRejection::FromTheFuture)
        } else if update.len > self.config.segment_len {
            Err(UpdateRejection::TooLong)
        } else if update.len == 0
            || !usize::from(update.len).is_multiple_of(size)
            || update.payload().end > packet
        {
            Err(UpdateRejection::BadLength)
        } else {
            self.combiner.kernel(update.element).ok_or(UpdateRejection::ElementUnsupported)
        }
    }

    /// Where the cluster's waiting update is, unless it is locked; `appended` is the number of its last one.
    #[inline]
    fn place(&self, cluster: u32, appended: u32) -> Option<usize> {
        if self.config.discipline == Discipline::Fifo {
            return None;
        }
        // A departed number gives a place beyond the tail or, once in 2³² updates, another cluster's update.
        let place = appended.wrapping_sub(self.head) as usize;
        let waiting = self.waiting.get(place)?;
        (place >= self.locked && waiting.update().cluster == cluster).then_some(place)
    }

    #[inline]
    fn append(&mut self, update: &Update, packet: B) -> Enqueued<B> {
        self.counters.accepted.add(update.count);
        if self.is_full() {
            self.counters.full.add(update.count);
            return Enqueued { outcome: EnqueueOutcome::Full, recycled: Some(packet) };
        }
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
        let number = self.head.wrapping_add(self.len() as u32);
        self.clusters.append(update.cluster, number);
        self.waiting.push_back(Waiting::new(update, packet));
        Enqueued { outcome: EnqueueOutcome::Appended, recycled: None }
    }

    /// Handles an update whose cluster has one waiting.
    #[inline]
    fn merge(&mut self, place: usize, update: &Update, mut packet: B) -> Enqueued<B> {
        let waiting = &mut self.waiting[place];
        let there = waiting.update();
        // First, since another generation may have other elements and another length.
        if there.epoch != update.epoch {
            self.counters.accepted.add(update.count);
            self.counters.superseded.add(there.count);
            let recycled = waiting.replace(update, packet);
            return Enqueued { outcome: EnqueueOutcome::Renewed, recycled: Some(recycled) };
        }
        if there.element != update.element {
            return self.reject(UpdateRejection::ElementChanged, packet);
        }
        if there.len != update.len {
            return self.reject(UpdateRejection::LengthChanged, packet);
        }
        if there.is_single() && update.is_single() && there.is_of_the_same(update) {
            self.counters.accepted.add(1);
            self.counters.superseded.add(1);
            return if update.generated_ns < there.generated_ns {
                Enqueued { outcome: EnqueueOutcome::Outdated, recycled: Some(packet) }
            } else {
                Enqueued {
                    outcome: EnqueueOutcome::Replaced,
                    recycled: Some(waiting.replace(update, packet)),
                }
            };
        }
        let (outcome, recycled) = match waiting.standing(update.reward, self.config.reward_threshold) {
            Standing::Higher => {
                self.counters.displaced.add(there.count);
                (EnqueueOutcome::Preferred, waiting.replace(update, packet))
            }
            Standing::Lower => {
                self.counters.low_reward.add(update.count);
                (EnqueueOutcome::LowReward, packet)
            }
            Standing::Comparable => {
                let Some(count) = there.count.checked_add(update.count) else {
                    return self.reject(UpdateRejection::CountOverflow, packet);
                };
                let kernel = self.combiner.kernel(update.element);
                if !kernel.is_some_and(|kernel| waiting.aggregate(kernel, count, update, &mut packet)) {
                    return self.reject(UpdateRejection::NoRoom, packet);
                }
                self.counters.aggregated.add(update.count);
                (EnqueueOutcome::Aggregated, packet)
            }
        };
        self.counters.accepted.add(update.count);
        Enqueued { outcome, recycled: Some(recycled) }
    }

    #[cold]
    fn reject(&mut self, reason: UpdateRejection, packet: B) -> Enqueued<B> {
        self.counters.reject(reason);
        Enqueued { outcome: EnqueueOutcome::Rejected(reason), recycled: Some(packet) }
    }
}
