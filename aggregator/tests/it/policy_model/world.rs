//! A pool, its jobs in their present generations, and the outcome of each request.

use pascaline_aggregator::{Key, Request, SweepAction};
use proptest::prelude::*;

use super::ledger::{Ledger, Move, Ranks};
use super::plan::{JobPlan, Plan, Step, Twist, What};
use crate::common::{Event, Known, Parcel, Rig, Sum, TICK, bytes};

/// What a trace asks of the pool.
pub(crate) enum Ask {
    Offer(Parcel),
    Sweep {
        sets: usize,
        patience: Option<u64>,
    },
    /// All that is no longer needed goes, of jobs with a quota.
    Expire,
}

/// The outcome of a request.
pub(crate) struct Turn {
    pub(crate) parcel: Option<Parcel>,
    pub(crate) events: Vec<Event>,
    pub(crate) moves: Vec<(Event, Move)>,
    /// Packets that only the sink has.
    pub(crate) with_the_sink: usize,
}

impl Turn {
    pub(crate) fn request(&self) -> Option<&Request> {
        self.parcel.as_ref().map(|parcel| &parcel.request)
    }
}

pub(crate) struct World<const WORDS: usize> {
    pub(crate) plan: Plan,
    pub(crate) rig: Rig<WORDS>,
    pub(crate) ledger: Ledger,
    epochs: Vec<u16>,
    needed: Vec<u16>,
    /// In ticks.
    pub(crate) now: u64,
}

/// The ranks inside a sum, by its values; `None` if one is there more than once.
pub(crate) fn ranks_of(sum: &Sum, job: &JobPlan) -> Option<Ranks> {
    let counts = job.decode(&bytes(&sum.values))?;
    let once = counts.iter().all(|&count| count <= 1);
    once.then(|| (0..job.fan_in).filter(|&rank| counts[usize::from(rank)] == 1).collect())
}

impl<const WORDS: usize> World<WORDS> {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            rig: Rig::of(&plan.config).by_way(plan.fast),
            ledger: Ledger::default(),
            epochs: vec![u16::MAX - 5; plan.jobs.len()],
            needed: plan.jobs.iter().map(|job| job.needed).collect(),
            now: TICK,
            plan: plan.clone(),
        }
    }

    pub(crate) fn job(&self, key: Key) -> &JobPlan {
        &self.plan.jobs[usize::from(key.job())]
    }

    pub(crate) fn epoch(&self, job: u16) -> u16 {
        self.epochs[usize::from(job)]
    }

    fn key(&self, job: usize, psn: u32) -> Key {
        Key::new(u16::try_from(job).unwrap(), self.epochs[job], self.plan.jobs[job].base.wrapping_add(psn))
    }

    /// A parcel as its job would have it now.
    pub(crate) fn of_job(&self, parcel: Parcel) -> Parcel {
        let number = usize::from(parcel.request.key.job());
        let job = &self.plan.jobs[number];
        parcel.under(&job.policy).of(job.element()).needing(self.needed[number]).at(self.now * TICK)
    }

    fn add(&self, job: usize, psn: u32, rank: u16) -> Parcel {
        let plan = &self.plan.jobs[job];
        self.of_job(Parcel::add(self.key(job, psn), rank, plan.fan_in, &plan.signature(rank)))
    }

    /// A contribution to a PSN that is far ahead of all others.
    pub(crate) fn newcomer(&self, job: usize, ahead: u32, rank: u16) -> Ask {
        Ask::Offer(self.add(job, 1000 + ahead, rank))
    }

    /// What a step asks for, in this order; time passes before it.
    pub(crate) fn requests(&mut self, step: &Step) -> Vec<Ask> {
        let Step { what, psn, rank, priority, pause, .. } = *step;
        let number = step.job % self.plan.jobs.len();
        self.now += pause;
        let job = self.plan.jobs[number].clone();
        let (key, rank) = (self.key(number, psn), rank % job.fan_in);
        let parcels = match what {
            What::Add(twist) => vec![twisted(self.add(number, psn, rank).priority(priority), twist)],
            What::Round { short } => (0..job.fan_in.saturating_sub(short))
                .map(|n| (u32::from(rank) + u32::from(n) * 7) % u32::from(job.fan_in))
                .map(|rank| self.add(number, psn, u16::try_from(rank).unwrap()).priority(priority))
                .collect(),
            What::Remind => vec![Parcel::remind(key, rank, job.fan_in)],
            // No other rank asks for it.
            What::Fetch if job.policy.server => vec![Parcel::fetch(key, job.fan_in)],
            What::Release if job.may_be_partial() => vec![Parcel::release(key, rank, job.fan_in)],
            What::Install => vec![Parcel::install(key, rank, job.fan_in, &job.full())],
            What::InstallOf(bits) if job.may_be_partial() => {
                let inside: Vec<u16> = (0..job.fan_in).filter(|rank| bits >> (rank % 8) & 1 != 0).collect();
                let some = !inside.is_empty() && inside.len() < usize::from(job.fan_in);
                some.then(|| Parcel::install_of(key, &inside, job.fan_in, &job.sum(&inside)))
                    .into_iter()
                    .collect()
            }
            What::Need(needed) if job.may_be_partial() => {
                self.needed[number] = needed % job.fan_in + 1;
                Vec::new()
            }
            What::Generation => {
                self.epochs[number] = self.epochs[number].wrapping_add(1);
                Vec::new()
            }
            What::Sweep { sets, patience } => return vec![Ask::Sweep { sets, patience }],
            What::Fetch | What::Release | What::InstallOf(_) | What::Need(_) => Vec::new(),
        };
        let of_job = |parcel: Parcel| {
            // An altered parcel stays as it is.
            if matches!(what, What::Add(_) | What::Round { .. }) { parcel } else { self.of_job(parcel) }
        };
        parcels.into_iter().map(of_job).map(Ask::Offer).collect()
    }

    /// Carries out a request, and follows its outcome.
    pub(crate) fn turn(&mut self, ask: Ask) -> Result<Turn, TestCaseError> {
        let (parcel, events) = match ask {
            Ask::Offer(mut parcel) => {
                self.now += 1;
                parcel.request.now = self.now * TICK;
                let region = self.plan.jobs[usize::from(parcel.request.key.job())].policy.region;
                let events = match region {
                    Some(region) => self.rig.offer_in(region, &parcel),
                    None => self.rig.offer(&parcel),
                };
                (Some(parcel), events)
            }
            Ask::Sweep { sets, patience } => (None, self.sweep(sets, patience)),
            Ask::Expire => {
                let (jobs, now) = (&self.plan.jobs, self.now * TICK);
                let limited = |key: Key| jobs[usize::from(key.job())].policy.quota > 0;
                let judge = |key, _| if limited(key) { SweepAction::Expire(now) } else { SweepAction::Keep };
                (None, self.rig.judge(usize::MAX, judge))
            }
        };
        let mut moves = Vec::new();
        for event in &events {
            let passage = self.ledger.follow(event)?;
            moves.extend(passage.map(|passage| (event.clone(), passage)));
        }
        // Results that the pool has let go of are the sink's alone.
        let alone = self.rig.sink.payloads.iter().filter(|payload| payload.holders() == 1).count();
        let with_the_sink = self.rig.sink.returned.len() + alone;
        Ok(Turn { parcel, events, moves, with_the_sink })
    }

    fn sweep(&mut self, sets: usize, patience: Option<u64>) -> Vec<Event> {
        let (epochs, jobs, now) = (&self.epochs, &self.plan.jobs, self.now);
        let judge = |key: Key, first: Option<u64>| {
            let number = usize::from(key.job());
            let late = |first: u64| patience.is_some_and(|patience| now - first / TICK > patience);
            match first {
                _ if !key.is_of(epochs[number]) => SweepAction::Vacate,
                Some(first) if jobs[number].may_be_partial() && late(first) => SweepAction::Release,
                _ => SweepAction::Keep,
            }
        };
        self.rig.judge(sets, judge)
    }

    /// Packets that the pool must hold: one per result or sum, or all contributions that are kept.
    pub(crate) fn packets(&self) -> usize {
        let held = |(key, ranks): (&Key, &Ranks)| if self.job(*key).keeps_all() { ranks.len() } else { 1 };
        self.ledger.partials.iter().map(held).sum::<usize>() + self.ledger.results.len()
    }
}

fn twisted(parcel: Parcel, twist: Twist) -> Parcel {
    let mut parcel = parcel;
    let request = &mut parcel.request;
    match twist {
        Twist::None => {}
        Twist::RankOutOfRange => request.rank = request.job_fan_in,
        Twist::FanIn => request.fan_in += 1,
        Twist::JobFanIn => request.job_fan_in += 1,
        Twist::Count => request.count += 1,
        Twist::ShortPacket => drop(parcel.values.pop()),
        Twist::Trailing => parcel.trailing = 3,
    }
    parcel
}

/// What a trace should have seen of everything.
pub(crate) const EVERYTHING: &[&str] = &[
    "opened",
    "added",
    "completed",
    "completed in part",
    "replayed",
    "installed",
    "installed in part",
    "passed on",
    "reminded: kept",
    "reminded: partial",
    "reminded: recently",
    "reminded: unknown",
    "fetched: nothing",
    "fetched: kept",
    "obeyed",
    "released",
    "displaced result",
    "displaced partial",
    "evicted: Age",
    "evicted: Preempted",
    "evicted: Fetched",
    "originals: Age",
    "originals: Preempted",
    "originals: Fetched",
    "refused: Conflict",
    "refused: Quota",
    "refused: Stale",
    "refused: UnknownPsn",
    "refused: Duplicate",
    "refused: RankOutOfRange",
    "refused: FanInMismatch",
    "refused: FanInChanged",
    "refused: LengthChanged",
    "refused: BadCount",
];

pub(crate) fn what(event: &Event) -> String {
    let in_part = |sum: &Sum| if sum.inside.is_some() { " in part" } else { "" };
    match event {
        Event::Opened(_) => "opened".to_owned(),
        Event::Added(_) => "added".to_owned(),
        Event::Completed { sum, .. } => format!("completed{}", in_part(sum)),
        Event::Replayed(..) => "replayed".to_owned(),
        Event::Installed { sum, .. } => format!("installed{}", in_part(sum)),
        Event::PassedOn { .. } => "passed on".to_owned(),
        Event::Reminded(_, Known::Cached(_)) => "reminded: kept".to_owned(),
        Event::Reminded(_, Known::Partial(_)) => "reminded: partial".to_owned(),
        Event::Reminded(_, Known::Recently) => "reminded: recently".to_owned(),
        Event::Reminded(_, Known::Unknown) => "reminded: unknown".to_owned(),
        Event::Rejected(_, why) => format!("refused: {why:?}"),
        Event::Fetched(_, result) => {
            format!("fetched: {}", if result.is_some() { "kept" } else { "nothing" })
        }
        Event::Obeyed(_) => "obeyed".to_owned(),
        Event::HandedOff => "handed off".to_owned(),
        Event::Released(_) => "released".to_owned(),
        Event::EvictedResult(_) => "displaced result".to_owned(),
        Event::EvictedPartial(_) => "displaced partial".to_owned(),
        Event::Evicted { cause, .. } => format!("evicted: {cause:?}"),
        Event::Originals { cause, .. } => format!("originals: {cause:?}"),
    }
}
