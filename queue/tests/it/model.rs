//! The queue against a model of Algorithm 1 that is slow and obvious: on any trace both say the same.
//!
//! The model keeps, for each update that waits, everything that it was made of; it looks for clusters by
//! going through the list, and works out sums, means and rewards from the parts each time, in whole numbers.

use pascaline_buffer::PacketBuf;
use pascaline_queue::{
    Combine, Config, Counters, Discipline, EnqueueOutcome, Update, UpdateCount, UpdateRejection,
};
use pascaline_wire::Element;
use proptest::prelude::*;

use crate::common::{HEADERS, NOW, Rig, update};

/// An update as a trace has it: all whole numbers.
#[derive(Debug, Clone, Copy)]
struct Sent {
    cluster: u32,
    worker: u16,
    psn: u32,
    epoch: u16,
    count: u16,
    /// In quarters.
    reward: i64,
    /// Before or after the present time.
    generated: i64,
    value: i64,
    elements: u16,
    integers: bool,
    count_zero: bool,
    /// The reward is not a number.
    nan: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Offer(Sent),
    Lock,
    Take,
}

/// What waits, as everything that it is made of, in the order of arrival.
#[derive(Debug, Clone)]
struct Entry {
    parts: Vec<Sent>,
    locked: bool,
}

impl Entry {
    fn first(&self) -> &Sent {
        &self.parts[0]
    }

    fn count(&self) -> i64 {
        self.parts.iter().map(|part| i64::from(part.count)).sum()
    }

    fn rewards(&self) -> i64 {
        self.parts.iter().map(|part| i64::from(part.count) * part.reward).sum()
    }
}

type Lost = Vec<(&'static str, i64)>;

impl Entry {
    /// Takes in another worker's update, or is replaced by it, or loses it: as their rewards are.
    fn meet(&mut self, sent: Sent, threshold: Option<i64>, lost: &mut Lost) -> EnqueueOutcome {
        let ahead = sent.reward * self.count() - self.rewards();
        match threshold.map(|threshold| threshold * self.count()) {
            Some(threshold) if ahead > threshold => {
                lost.push(("displaced", self.count()));
                self.parts = vec![sent];
                EnqueueOutcome::Preferred
            }
            Some(threshold) if ahead < -threshold => {
                lost.push(("low reward", i64::from(sent.count)));
                EnqueueOutcome::LowReward
            }
            _ if self.count() + i64::from(sent.count) > i64::from(u16::MAX) => {
                EnqueueOutcome::Rejected(UpdateRejection::CountOverflow)
            }
            _ => {
                self.parts.push(sent);
                EnqueueOutcome::Aggregated
            }
        }
    }
}

struct Model {
    config: Config,
    /// In quarters; `None` is no filter.
    threshold: Option<i64>,
    waiting: Vec<Entry>,
    lost: Lost,
    accepted: i64,
}

/// Behind [`NOW`], in nanoseconds: how far ahead of it a time may be.
const LEAD: i64 = 50;

impl Model {
    /// The error of an update by itself.
    fn rejection(&self, sent: &Sent) -> Option<UpdateRejection> {
        let rules = [
            (sent.cluster >= self.config.clusters, UpdateRejection::ClusterOutOfRange),
            (sent.count_zero, UpdateRejection::CountZero),
            (sent.nan, UpdateRejection::RewardNotFinite),
            (sent.generated > LEAD, UpdateRejection::FromTheFuture),
            (sent.integers && self.config.combine == Combine::Mean, UpdateRejection::ElementUnsupported),
        ];
        rules.into_iter().find_map(|(broken, reason)| broken.then_some(reason))
    }

    fn offer(&mut self, sent: Sent) -> EnqueueOutcome {
        let rejected = EnqueueOutcome::Rejected;
        if let Some(reason) = self.rejection(&sent) {
            return rejected(reason);
        }
        let meets = match self.config.discipline {
            Discipline::Fifo => None,
            Discipline::Olaf => {
                self.waiting.iter_mut().find(|entry| entry.first().cluster == sent.cluster && !entry.locked)
            }
        };
        let Some(entry) = meets else {
            self.accepted += i64::from(sent.count);
            if self.waiting.len() == usize::from(self.config.segments) {
                self.lost.push(("full", i64::from(sent.count)));
                return EnqueueOutcome::Full;
            }
            self.waiting.push(Entry { parts: vec![sent], locked: false });
            return EnqueueOutcome::Appended;
        };
        let first = *entry.first();
        if first.epoch != sent.epoch {
            self.accepted += i64::from(sent.count);
            self.lost.push(("superseded", entry.count()));
            entry.parts = vec![sent];
            return EnqueueOutcome::Renewed;
        }
        if first.integers != sent.integers {
            return rejected(UpdateRejection::ElementChanged);
        }
        if first.elements != sent.elements {
            return rejected(UpdateRejection::LengthChanged);
        }
        let replaceable = entry.parts.len() == 1 && first.count == 1;
        if replaceable && sent.count == 1 && first.worker == sent.worker {
            self.accepted += 1;
            self.lost.push(("superseded", 1));
            if sent.generated < first.generated {
                return EnqueueOutcome::Outdated;
            }
            entry.parts = vec![sent];
            return EnqueueOutcome::Replaced;
        }
        let outcome = entry.meet(sent, self.threshold, &mut self.lost);
        if !matches!(outcome, EnqueueOutcome::Rejected(_)) {
            self.accepted += i64::from(sent.count);
        }
        outcome
    }

    /// What an entry is to the outside: the update, and one of its values, all of which are the same.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]
    fn outside(&self, entry: &Entry) -> (Update, f64) {
        let count = entry.count();
        let newest = entry.parts.iter().map(|part| part.generated).max().unwrap();
        let reward = entry.rewards() as f64 / 4.0 / count as f64;
        // The numbers in a trace are near to each other, on both sides of zero.
        let own = entry.parts.iter().filter(|part| part.worker == entry.first().worker);
        let psn = own.map(|part| part.psn.cast_signed()).max().unwrap().cast_unsigned();
        let update = Update {
            psn,
            count: u16::try_from(count).unwrap(),
            reward: reward as f32,
            generated_ns: at(newest),
            ..updated(entry.first())
        };
        let value = match self.config.combine {
            _ if entry.parts.len() == 1 => entry.first().value as f64,
            Combine::Sum => entry.parts.iter().map(|part| part.value).sum::<i64>() as f64,
            Combine::Mean => {
                let sum: i64 = entry.parts.iter().map(|part| i64::from(part.count) * part.value).sum();
                f64::from(sum as f32 / count as f32)
            }
        };
        (update, value)
    }

    fn lost(&self, why: &str) -> UpdateCount {
        let all = || self.lost.iter().filter(|(cause, _)| *cause == why).map(|(_, count)| *count);
        // An entry may be displaced after much has been combined with it: that is one update.
        UpdateCount { updates: all().count() as u64, contributions: all().sum::<i64>().cast_unsigned() }
    }
}

fn at(time: i64) -> u64 {
    NOW.checked_add_signed(time).unwrap()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]
fn updated(sent: &Sent) -> Update {
    Update {
        psn: sent.psn,
        epoch: sent.epoch,
        count: if sent.count_zero { 0 } else { sent.count },
        reward: if sent.nan { f32::NAN } else { (sent.reward as f64 / 4.0) as f32 },
        generated_ns: at(sent.generated),
        element: if sent.integers { Element::I32_SUM } else { Element::F32_SUM },
        len: sent.elements * 4,
        ..update(sent.cluster, sent.worker)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]
fn payload(sent: &Sent) -> Vec<u8> {
    let value =
        if sent.integers { (sent.value as i32).to_le_bytes() } else { (sent.value as f32).to_le_bytes() };
    value.repeat(usize::from(sent.elements))
}

fn value(update: &Update, bytes: &[u8]) -> f64 {
    let first = *bytes.first_chunk::<4>().unwrap();
    assert!(bytes.chunks(4).all(|other| other == first), "all values were the same when they came");
    if update.element == Element::I32_SUM {
        f64::from(i32::from_le_bytes(first))
    } else {
        f64::from(f32::from_le_bytes(first))
    }
}

/// Everything that must hold after any step.
fn agree(model: &Model, rig: &Rig, departed: UpdateCount) -> Result<(), TestCaseError> {
    let waiting: Vec<_> = model.waiting.iter().map(|entry| model.outside(entry).0).collect();
    prop_assert_eq!(rig.queue.waiting().collect::<Vec<_>>(), waiting);
    if model.config.discipline == Discipline::Olaf {
        let mut clusters: Vec<_> = rig.queue.waiting().map(|update| update.cluster).collect();
        if model.waiting.first().is_some_and(|entry| entry.locked) {
            clusters.remove(0);
        }
        let all = clusters.len();
        clusters.sort_unstable();
        clusters.dedup();
        prop_assert_eq!(clusters.len(), all, "at most one waiting update per cluster");
    }
    prop_assert_eq!(rig.pool.live(), rig.queue.len(), "one packet for each update that waits");
    let Counters { accepted, aggregated, full, low_reward, displaced, superseded, .. } =
        *rig.queue.counters();
    prop_assert_eq!(rig.queue.counters().departed, departed);
    let ours = [full, low_reward, displaced, superseded];
    let theirs = ["full", "low reward", "displaced", "superseded"].map(|why| model.lost(why));
    prop_assert_eq!(ours, theirs);
    prop_assert_eq!(accepted.contributions, model.accepted.cast_unsigned());
    // Nothing is lost in between, neither contributions nor updates.
    let waiting: u64 = rig.queue.waiting().map(|update| u64::from(update.count)).sum();
    let lost: u64 = ours.iter().map(|tally| tally.contributions).sum();
    prop_assert_eq!(accepted.contributions, departed.contributions + waiting + lost);
    let lost: u64 = ours.iter().map(|tally| tally.updates).sum();
    let waiting = rig.queue.len() as u64;
    prop_assert_eq!(accepted.updates, departed.updates + waiting + aggregated.updates + lost);
    Ok(())
}

fn run(config: Config, threshold: Option<i64>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut rig = Rig::new(config);
    let mut model = Model { config, threshold, waiting: Vec::new(), lost: Vec::new(), accepted: 0 };
    let mut departed = UpdateCount::default();
    // At the end, everything leaves.
    let all = steps.into_iter().chain((0..config.segments).map(|_| Step::Take));
    for step in all {
        match step {
            Step::Offer(sent) => {
                let packet = rig.packet(&payload(&sent));
                // Looking ahead changes nothing, whatever the cluster.
                rig.queue.prefetch(rig.queue.predict(sent.cluster));
                let enqueued = rig.queue.enqueue(NOW, updated(&sent), packet);
                prop_assert_eq!(enqueued.outcome, model.offer(sent));
                prop_assert_eq!(enqueued.recycled.is_none(), enqueued.outcome == EnqueueOutcome::Appended);
            }
            Step::Lock => {
                let expected = model.waiting.first().map(|entry| model.outside(entry).0);
                prop_assert_eq!(rig.queue.lock(), expected);
                if let Some(head) = model.waiting.first_mut() {
                    head.locked = true;
                }
            }
            Step::Take => {
                let expected = (!model.waiting.is_empty()).then(|| model.waiting.remove(0));
                let departure = rig.queue.dequeue();
                prop_assert_eq!(departure.is_some(), expected.is_some());
                if let (Some(departure), Some(entry)) = (departure, expected) {
                    let (update, expected) = model.outside(&entry);
                    prop_assert_eq!(departure.update, update);
                    prop_assert_eq!(departure.aggregations as usize, entry.parts.len() - 1);
                    let bytes = departure.packet.bytes();
                    prop_assert_eq!(&bytes[..HEADERS.len()], HEADERS);
                    prop_assert_eq!(bytes.len(), update.payload().end);
                    prop_assert_eq!(value(&update, &bytes[update.payload()]), expected);
                    departed.updates += 1;
                    departed.contributions += u64::from(update.count);
                }
            }
        }
        agree(&model, &rig, departed)?;
    }
    prop_assert!(rig.queue.is_empty());
    prop_assert_eq!(rig.pool.live(), 0);
    Ok(())
}

/// Mostly good updates of few clusters and workers, so that they meet.
fn sent() -> impl Strategy<Value = Sent> {
    let count = prop_oneof![20 => Just(1u16), 5 => 2u16..9, 1 => Just(30_000)];
    let odd = (prop::bool::weighted(0.05), prop::bool::weighted(0.02), prop::bool::weighted(0.02));
    (
        0u32..7,
        (0u16..3, -4i32..4, prop_oneof![30 => Just(255u16), 1 => Just(0)]),
        count,
        -8i64..8,
        -100i64..60,
        -9i64..9,
        prop_oneof![9 => Just(2u16), 1 => Just(3)],
        odd,
    )
        .prop_map(|(cluster, (worker, psn, epoch), count, reward, generated, value, elements, odd)| {
            Sent {
                cluster,
                worker,
                psn: psn.cast_unsigned(),
                epoch,
                count,
                reward,
                generated,
                value,
                elements,
                integers: odd.0,
                count_zero: odd.1,
                nan: odd.2,
            }
        })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![6 => sent().prop_map(Step::Offer), 1 => Just(Step::Lock), 2 => Just(Step::Take)];
    prop::collection::vec(step, 0..200)
}

fn config() -> impl Strategy<Value = (Config, Option<i64>)> {
    let discipline = prop_oneof![1 => Just(Discipline::Fifo), 4 => Just(Discipline::Olaf)];
    let combine = prop_oneof![Just(Combine::Sum), Just(Combine::Mean)];
    (discipline, combine, 1u16..8, 1u32..7, prop::option::of(0i64..12)).prop_map(
        |(discipline, combine, segments, clusters, threshold)| {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let reward_threshold = threshold.map_or(f32::INFINITY, |quarters| quarters as f32 / 4.0);
            let max_lead = core::time::Duration::from_nanos(LEAD.cast_unsigned());
            let config = Config {
                discipline,
                combine,
                segments,
                clusters,
                reward_threshold,
                max_lead,
                ..Config::default()
            };
            (config, threshold)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn queue_and_model_agree_on_any_trace((config, threshold) in config(), steps in steps()) {
        run(config, threshold, steps)?;
    }
}
