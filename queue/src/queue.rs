//! The queue: Olaf's Algorithm 1, and first in, first out.

use std::collections::VecDeque;
use std::fmt;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_wire::trailer::QueueState;

use crate::clusters::Clusters;
use crate::combine::{Combiner, Kernel};
use crate::config::{Config, ConfigError, Discipline};
use crate::counters::Counters;
use crate::update::{Departure, Update};
use crate::verdict::{Enqueued, Refusal, Verdict};
use crate::waiting::{Standing, Waiting};

/// An egress queue of updates. With [`Discipline::Olaf`] it is the paper's OlafQueue (sections 3, 4 and
/// 12.1).
///
/// Every function takes constant time, whatever the number of clusters and the length of the queue, except
/// for [`waiting`](Self::waiting); none allocates. One lcore owns it.
pub struct UpdateQueue<B> {
    /// The head first.
    waiting: VecDeque<Waiting<B>>,
    /// The head's number. Updates are numbered, modulo 2³², as they are appended; those that wait have
    /// consecutive numbers since they depart in the same order.
    head: u32,
    /// How many at the head are locked: 0 or 1.
    locked: usize,
    clusters: Clusters,
    combiner: Combiner,
    counters: Counters,
    config: Config,
    max_lead_ns: u64,
}

/// Where an update would go: [`UpdateQueue::foresee`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreseen(u32);

impl<B> fmt::Debug for UpdateQueue<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpdateQueue({:?}, {} of {})", self.config.discipline, self.len(), self.config.segments)
    }
}

impl<B> UpdateQueue<B> {
    /// An empty queue. All the memory that it will ever need is allocated here.
    ///
    /// # Errors
    /// [`ConfigError`] if there cannot be a queue like this.
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

    /// True if nothing waits.
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

    /// What the queue was told.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What has been done so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is stamped on acknowledgements that pass in the other direction (Olaf, sections 5 and 7): active
    /// clusters, Q_max and Q_n. More than 65,535 active clusters are given as that.
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
    /// With [`Discipline::Olaf`], where an update of the same cluster waits and is not locked:
    /// - they are of different generations: the one that comes stays ([`Renewed`](Verdict::Renewed));
    /// - both are single, and of one worker: the newer one stays ([`Replaced`](Verdict::Replaced),
    ///   [`Outdated`](Verdict::Outdated));
    /// - else their rewards decide: within the threshold they are combined ([`Aggregated`](Verdict::Aggregated)), beyond
    ///   it the higher one stays ([`Preferred`](Verdict::Preferred), [`LowReward`](Verdict::LowReward)).
    ///
    /// Whatever stays keeps the place. Where there is none, and always with [`Discipline::Fifo`], the update
    /// goes to the tail, or is dropped if every segment is taken ([`Appended`](Verdict::Appended),
    /// [`Full`](Verdict::Full)).
    #[inline]
    pub fn enqueue(&mut self, now_ns: u64, update: Update, packet: B) -> Enqueued<B> {
        if let Err(reason) = self.examine(now_ns, &update, packet.bytes().len()) {
            return self.refuse(reason, packet);
        }
        self.clusters.hear(update.cluster, now_ns);
        match self.place(update.cluster) {
            Some(place) => self.merge(place, update, packet),
            None => self.append(update, packet),
        }
    }

    /// The update at the head, as it would leave now.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Option<Update> {
        self.waiting.front().map(Waiting::seen)
    }

    /// Locks the head, because parts of it may have left (Olaf, section 12.1): nothing replaces it or is
    /// combined with it any more, and its cluster may have another update waiting beside it. It still takes
    /// up its segment. No effect if it is locked already.
    pub fn lock(&mut self) -> Option<Update> {
        let head = self.head();
        self.locked = usize::from(head.is_some());
        head
    }

    /// Takes the head out, locked or not.
    #[inline]
    pub fn dequeue(&mut self) -> Option<Departure<B>> {
        let head = self.waiting.pop_front()?;
        self.head = self.head.wrapping_add(1);
        self.locked = 0;
        self.counters.departed.add(head.update().count);
        Some(head.depart(&self.combiner))
    }

    /// What waits, the head first. For tests and for looking in; takes time in proportion.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = Update> {
        self.waiting.iter().map(Waiting::seen)
    }

    /// The first half of looking ahead: where an update of this cluster would go. To be called for every
    /// update of a burst before the second half is, so that the processor looks all of them up at the same
    /// time.
    #[must_use]
    #[inline]
    pub fn foresee(&self, cluster: u32) -> Foreseen {
        Foreseen(self.clusters.appended(cluster).wrapping_sub(self.head))
    }

    /// The second half: brings near what waits there. For speed only; the burst may then come in any order,
    /// or not at all.
    #[inline]
    pub fn touch(&self, foreseen: Foreseen) {
        if let Some(waiting) = self.waiting.get(foreseen.0 as usize) {
            waiting.touch();
        }
    }

    /// Looks for what can be said against an update by itself.
    #[inline]
    fn examine(&self, now_ns: u64, update: &Update, packet: usize) -> Result<&Kernel, Refusal> {
        let part = update.element.dtype.size() - 1;
        if !self.clusters.has(update.cluster) {
            Err(Refusal::ClusterOutOfRange)
        } else if update.count == 0 {
            Err(Refusal::CountZero)
        } else if !update.reward.is_finite() {
            Err(Refusal::RewardNotFinite)
        } else if update.generated_ns > now_ns.saturating_add(self.max_lead_ns) {
            Err(Refusal::FromTheFuture)
        } else if update.len > self.config.segment_len {
            Err(Refusal::TooLong)
        } else if update.len == 0 || usize::from(update.len) & part != 0 || update.payload().end > packet {
            Err(Refusal::BadLength)
        } else {
            self.combiner.kernel(update.element).ok_or(Refusal::ElementUnsupported)
        }
    }

    /// Where the cluster's update waits that an arriving one would meet.
    #[inline]
    fn place(&self, cluster: u32) -> Option<usize> {
        if self.config.discipline == Discipline::Fifo {
            return None;
        }
        // A number that has departed gives a place that is beyond the tail; or, once in 2³² updates, one that
        // is not, where another cluster's update waits.
        let place = self.clusters.appended(cluster).wrapping_sub(self.head) as usize;
        let waiting = self.waiting.get(place)?;
        (place >= self.locked && waiting.update().cluster == cluster).then_some(place)
    }

    #[inline]
    fn append(&mut self, update: Update, packet: B) -> Enqueued<B> {
        self.counters.accepted.add(update.count);
        if self.is_full() {
            self.counters.full.add(update.count);
            return Enqueued { verdict: Verdict::Full, spent: Some(packet) };
        }
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
        let number = self.head.wrapping_add(self.len() as u32);
        self.clusters.append(update.cluster, number);
        self.waiting.push_back(Waiting::new(update, packet));
        Enqueued { verdict: Verdict::Appended, spent: None }
    }

    /// Lets an update meet the one of its cluster that waits.
    #[inline]
    fn merge(&mut self, place: usize, update: Update, mut packet: B) -> Enqueued<B> {
        let waiting = &mut self.waiting[place];
        let there = *waiting.update();
        // First of all: another generation may have other elements and another length.
        if there.epoch != update.epoch {
            self.counters.accepted.add(update.count);
            self.counters.superseded.add(there.count);
            let spent = waiting.replace(update, packet);
            return Enqueued { verdict: Verdict::Renewed, spent: Some(spent) };
        }
        if there.element != update.element {
            return self.refuse(Refusal::ElementChanged, packet);
        }
        if there.len != update.len {
            return self.refuse(Refusal::LengthChanged, packet);
        }
        if there.is_single() && update.is_single() && there.worker == update.worker {
            self.counters.accepted.add(1);
            self.counters.superseded.add(1);
            return if update.generated_ns < there.generated_ns {
                Enqueued { verdict: Verdict::Outdated, spent: Some(packet) }
            } else {
                Enqueued { verdict: Verdict::Replaced, spent: Some(waiting.replace(update, packet)) }
            };
        }
        let (verdict, spent) = match waiting.standing(update.reward, self.config.reward_threshold) {
            Standing::Higher => {
                self.counters.displaced.add(there.count);
                (Verdict::Preferred, waiting.replace(update, packet))
            }
            Standing::Lower => {
                self.counters.low_reward.add(update.count);
                (Verdict::LowReward, packet)
            }
            Standing::Comparable => {
                let Some(count) = there.count.checked_add(update.count) else {
                    return self.refuse(Refusal::CountOverflow, packet);
                };
                // It has been examined, so there is a kernel.
                let kernel = self.combiner.kernel(update.element);
                if !kernel.is_some_and(|kernel| waiting.aggregate(kernel, count, &update, &mut packet)) {
                    return self.refuse(Refusal::NoRoom, packet);
                }
                self.counters.aggregated.add(update.count);
                (Verdict::Aggregated, packet)
            }
        };
        self.counters.accepted.add(update.count);
        Enqueued { verdict, spent: Some(spent) }
    }

    #[cold]
    fn refuse(&mut self, reason: Refusal, packet: B) -> Enqueued<B> {
        self.counters.refuse(reason);
        Enqueued { verdict: Verdict::Refused(reason), spent: Some(packet) }
    }
}
