//! A job: its configuration in the appliance, and what its workers do.

use core::time::Duration;
use std::sync::Arc;

use pascaline_aggregator::{ConflictPolicy, Order, Policy, Region};
use pascaline_pipelines::membership::{JobKind, JobSpec, OnDeath, ServerMode};
use pascaline_seal::{JobKeys, Protection};
use pascaline_wire::{DType, Element, Op};

use super::GroupPlan;
use crate::attacker;
use crate::oracle::Values;
use crate::random::Random;

/// The reasons for which a job's allreduces may fail. Without one, all have to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Excuse {
    /// The appliance restarts. That is no excuse by itself: ranks resume, or begin from the first PSN and
    /// succeed.
    pub(crate) appliance: bool,
    /// A worker restarts. Running operations are refused; a rank that has left does not come back.
    pub(crate) restart: bool,
    /// A worker never comes back.
    pub(crate) kill: bool,
    /// A member halts or resets the job: running operations are refused, and no rank resumes them.
    pub(crate) reset: bool,
    /// PSNs are complete without the ranks that are late: those may be left behind for good.
    pub(crate) threshold: bool,
    /// It is run many times in a row: only each run's outcome counts.
    pub(crate) runs: bool,
}

/// A call in which one rank differs from the others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Differs {
    Length,
    Op,
    /// It leaves instead.
    Fewer,
    /// Once more, when the others leave.
    More,
}

/// One rank disagrees with the others about an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dispute {
    pub(crate) rank: u16,
    pub(crate) operation: usize,
    what: Differs,
}

/// A job and what its workers do.
#[derive(Debug, Clone)]
pub(crate) struct JobPlan {
    pub(crate) id: u16,
    pub(crate) ranks: u16,
    pub(crate) payload: u16,
    pub(crate) in_flight: u16,
    pub(crate) window: u16,
    pub(crate) element: Element,
    /// Its values are rough: their sums show in which order they were made.
    pub(crate) rough: bool,
    /// Elements of each allreduce.
    pub(crate) operations: Vec<usize>,
    pub(crate) policy: Policy,
    /// Its region, if it has one, has twice as many slots as the window; otherwise as many.
    pub(crate) wide_region: bool,
    /// Its results never lack ranks: it has a parent, or a backup.
    pub(crate) whole: bool,
    /// Contributions that complete a PSN, if not all.
    pub(crate) threshold: Option<u16>,
    /// Workers take results that do not contain every rank.
    pub(crate) accept_partial: bool,
    /// How its packets are protected, if they are sealed.
    pub(crate) sealed: Option<Protection>,
    /// The group that its results go to.
    pub(crate) multicast: Option<GroupPlan>,
    /// Formed by its workers' Joins.
    pub(crate) formed: bool,
    /// Whether the appliance knows the members' addresses beforehand.
    pub(crate) admitted: bool,
    pub(crate) dead_after: Option<Duration>,
    pub(crate) on_death: OnDeath,
    /// How long it may take, in addition to `dead_after`, until a worker learns of a death.
    pub(crate) news: Duration,
    pub(crate) excuse: Excuse,
    pub(crate) dispute: Option<Dispute>,
    /// How often a worker may join; more than once only if that can help.
    pub(crate) lives: u32,
    pub(crate) join_deadline: Duration,
    pub(crate) deadline: Duration,
    /// How long a worker that leaves stays when no rank is known to wait.
    pub(crate) linger: Duration,
}

pub(super) fn narrow(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// The widest window.
pub(crate) const WIDEST: u16 = 24;

impl JobPlan {
    pub(super) fn draw(random: &mut Random, base: u16) -> Self {
        let ranks = random.pick(&[2, 2, 3, 3, 4, 5, 6, 8]);
        let payload = random.pick(&[8, 8, 16, 16, 24, 32, 48, 64]);
        let window = narrow(random.between(1, u64::from(WIDEST)));
        let element = element(random);
        let size = element.dtype.size() as u64;
        let mut operations = Vec::new();
        for _ in 0..random.between(1, 3) {
            let packets = random.between(1, 10);
            // The last packet may be shorter.
            let elements = packets * u64::from(payload) / size - random.below(u64::from(payload) / size);
            operations.push(usize::from(narrow(elements)));
        }
        let admitted = random.chance(400_000);
        Self {
            operations,
            id: base + narrow(random.below(100)),
            ranks,
            payload,
            window,
            in_flight: narrow(random.between(1, u64::from(window))),
            element,
            rough: false,
            policy: policy(random, window),
            wide_region: random.chance(700_000),
            whole: false,
            threshold: None,
            accept_partial: false,
            sealed: None,
            multicast: None,
            formed: !admitted && random.chance(250_000),
            admitted,
            dead_after: random.pick(&[None, Some(Duration::from_secs(5))]),
            on_death: if random.chance(500_000) { OnDeath::Continue } else { OnDeath::Fail },
            news: Duration::ZERO,
            excuse: Excuse::default(),
            dispute: None,
            lives: 1,
            join_deadline: Duration::from_secs(20),
            deadline: Duration::from_secs(20),
            linger: Duration::ZERO,
        }
        .with_rarer_types()
    }

    /// A rank disagrees with the others, if all else has to succeed.
    pub(super) fn disagree(&mut self, random: &mut Random) {
        let rank = narrow(random.below(u64::from(self.ranks)));
        let calls = self.operations.len();
        let (what, operation) = match random.below(4) {
            0 => (Differs::Length, random.index(calls)),
            1 => (Differs::Op, random.index(calls)),
            2 => (Differs::Fewer, calls - 1),
            _ => (Differs::More, calls),
        };
        if self.excuse == Excuse::default() {
            self.dispute = Some(Dispute { rank, operation, what });
        }
    }

    /// The call of a rank, and its number of elements; `None` if it leaves.
    pub(crate) fn call(&self, rank: u16, operation: usize) -> Option<(usize, Op)> {
        let agreed = self.operations.get(operation).map(|&elements| (elements, self.element.op));
        let differs = self.dispute.filter(|one| (one.rank, one.operation) == (rank, operation));
        let Some(differs) = differs else { return agreed };
        match (differs.what, agreed) {
            (Differs::Length, Some((elements, op))) => Some((elements + 1, op)),
            (Differs::Op, Some((elements, Op::Sum))) if self.element.dtype.is_block() => {
                Some((elements, Op::Mean))
            }
            (Differs::Op, Some((elements, Op::Sum))) => Some((elements, Op::Max)),
            (Differs::Op, Some((elements, _))) => Some((elements, Op::Sum)),
            (Differs::More, _) => self.operations.first().map(|&elements| (elements, self.element.op)),
            _ => None,
        }
    }

    /// What it is, with this server if it has one.
    fn kind(&self, server: ServerMode) -> JobKind {
        let Policy { conflict, order, region, quota, partial_after, server: served } = self.policy;
        match (region, self.threshold) {
            (Some(place), Some(needed)) => {
                let partial_after = (partial_after > 0).then(|| Duration::from_nanos(partial_after));
                JobKind::Early { place, needed, partial_after }
            }
            (Some(place), None) => JobKind::Region { place, order },
            (None, _) => {
                let server = if served { server } else { ServerMode::None };
                JobKind::Shared { conflict, order, quota, server }
            }
        }
    }

    /// Its configuration in an appliance, for any ranks, with this server if it has one.
    pub(crate) fn spec(&self, server: ServerMode) -> JobSpec {
        JobSpec {
            window: self.window,
            kind: self.kind(server),
            dead_after: self.dead_after,
            on_death: self.on_death,
            multicast: self.multicast.as_ref().map(|plan| plan.group),
            keys: self.keys(0, false),
            ..JobSpec::new(self.id, self.ranks)
        }
    }

    /// Its keys at an appliance; other ones once they have changed.
    pub(crate) fn keys(&self, node: usize, changed: bool) -> Option<Arc<JobKeys>> {
        let (protection, secret) = self.sealed.zip(attacker::secret(self.id, node, changed))?;
        Some(Arc::new(JobKeys::new(&secret, self.id, protection)))
    }

    /// Has its packets sealed, if it is one of those whose packets can be.
    pub(crate) fn seal(&mut self, protection: Protection) {
        self.sealed = Some(protection).filter(|_| !self.formed);
    }

    /// The values that its workers contribute.
    pub(crate) const fn values(&self) -> Values {
        Values { element: self.element, rough: self.rough }
    }

    /// Changes only the type of its elements, as far as possible.
    pub(super) fn travel_as(&mut self, dtype: DType) {
        let (before, size) = (self.element.dtype.size(), dtype.size());
        self.operations.iter_mut().for_each(|elements| *elements = (*elements * before).div_ceil(size));
        self.element = Element::sum(dtype);
    }

    /// Half of the sums of 16-bit floats become such of blocks, one or two in a packet, and half of the jobs
    /// with `i32` have `u32`. No random number is drawn for that, so that other schedules stay the same.
    fn with_rarer_types(mut self) -> Self {
        let Element { dtype, op } = self.element;
        if !self.id.is_multiple_of(2) {
            return self;
        }
        if dtype == DType::I32 {
            self.element = Element { dtype: DType::U32, op };
        } else if dtype.sums_wide() && op == Op::Sum {
            self.payload = self.payload.max(2 * 32) + 8;
            self.travel_as(if dtype == DType::F16 { DType::MxInt8 } else { DType::MxFp8 });
        }
        self
    }

    /// Makes its values rough, with a chance in millionths, if that can show an error. To be decided last.
    ///
    /// - Every result must contain every rank: only exact values distinguish sums of fewer.
    /// - There must be an order: sums of more than two ranks have one; minima and maxima have none.
    /// - Integers become floats. 16-bit floats are rounded once, so hardly any of their sums shows an order.
    /// - Without a server no part guards the bits (protocol, section 11).
    pub(super) fn roughen(&mut self, random: &mut Random, chance: u32) {
        let complete = !self.excuse.threshold && (self.on_death == OnDeath::Fail || !self.excuse.kill);
        let Element { dtype, op } = self.element;
        let has_order = op == Op::Sum && !dtype.sums_wide() && self.ranks > 2;
        self.rough = complete && has_order && random.chance(chance) && self.policy.server;
        if self.rough {
            (self.accept_partial, self.on_death) = (false, OnDeath::Fail);
            let dtype = if dtype.is_float() { dtype } else { DType::F32 };
            self.element = Element { dtype, op };
        }
    }

    /// News takes this much longer.
    pub(super) fn wait(&mut self, longer: Duration) {
        self.news += longer;
        self.linger += longer;
    }

    /// Everything may take this much longer.
    pub(super) fn endure(&mut self, longer: Duration) {
        self.wait(longer);
        self.deadline += longer;
        self.join_deadline += longer;
    }

    /// Sets the fields that depend on the job's incidents, and on how long `news` may take in this network.
    pub(super) fn settle(&mut self, random: &mut Random, news: Duration) {
        const SECOND: Duration = Duration::from_secs(1);
        self.news = news;
        // Just long enough for the appliance to learn which ranks wait.
        self.linger = news;
        let early = self.excuse == Excuse::default() && self.policy.region.is_some() && !self.whole;
        if early && random.chance(500_000) {
            self.excuse.threshold = true;
            self.threshold = Some(narrow(random.between(1, u64::from(self.ranks))));
            self.policy.partial_after = random.pick(&[0, 1_000_000, 20_000_000]);
            self.policy.order = Order::Arrival;
            // As in the configuration: such a job has none.
            self.policy.quota = 0;
            (self.deadline, self.linger) = (2 * SECOND, 4 * SECOND);
        }
        self.accept_partial = self.excuse.threshold || self.on_death == OnDeath::Continue;
        if self.accept_partial {
            // The sum shows which ranks are inside.
            self.element = Element { op: Op::Sum, ..self.element };
            if self.element.dtype.sums_wide() {
                self.travel_as(DType::F32);
            }
        }
        if self.excuse.kill || self.excuse.restart {
            self.dead_after = random.pick(&[None, Some(SECOND), Some(SECOND), Some(2 * SECOND)]);
        }
        match (self.excuse, self.dead_after) {
            (Excuse { kill: true, .. }, None) => {
                self.join_deadline = SECOND;
                self.deadline = Duration::from_millis(700);
                self.linger = SECOND / 2;
            }
            (Excuse { kill: true, .. }, Some(dead_after)) => {
                self.join_deadline = 2 * SECOND;
                // Two may die, one after the other.
                self.deadline = 2 * (dead_after + news) + 10 * SECOND;
                self.linger = dead_after + news + 2 * SECOND;
            }
            (Excuse { reset: true, .. }, _) => (self.join_deadline, self.deadline) = (5 * SECOND, 8 * SECOND),
            // Workers that end before the restart do not join again, and the others' wait cannot succeed.
            (Excuse { restart: true, .. }, _) => {
                self.lives = 8;
                self.join_deadline = 5 * SECOND;
                self.deadline = 8 * SECOND;
            }
            (Excuse { appliance: true, .. }, _) => self.linger = self.deadline + 2 * SECOND,
            _ => {}
        }
    }
}

fn element(random: &mut Random) -> Element {
    let dtypes = [
        DType::I32,
        DType::I32,
        DType::I32,
        DType::F32,
        DType::F32,
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
    ];
    let dtype = dtypes.get(random.index(dtypes.len())).copied().unwrap_or(DType::F32);
    let ops = [Op::Sum, Op::Min, Op::Max];
    // A sum shows the most.
    let op = if random.chance(850_000) { Op::Sum } else { ops[random.index(ops.len())] };
    Element { dtype, op }
}

/// The papers' systems, and some that no paper has.
fn policy(random: &mut Random, window: u16) -> Policy {
    let shared = Policy { server: true, ..Policy::default() };
    let mut policy = match random.below(12) {
        0..4 => Policy { conflict: ConflictPolicy::Preempt, ..shared },
        4 | 5 => shared,
        6 => Policy { conflict: ConflictPolicy::Always, ..shared },
        7 => Policy { conflict: ConflictPolicy::Coin, ..shared },
        8 => Policy { region: Some(Region { first: 0, sets: 1 }), ..Policy::default() },
        _ => Policy::default(),
    };
    if policy.server && random.chance(100_000) {
        policy.server = false;
    }
    if random.chance(200_000) {
        policy.order = Order::Rank;
        policy.quota = u32::try_from(random.between(1, u64::from(window))).unwrap_or(1);
    } else if random.chance(250_000) {
        policy.quota = u32::try_from(random.between(1, 8)).unwrap_or(1);
    }
    policy
}
