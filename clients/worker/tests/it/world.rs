//! Ranks, an aggregator and the network between them, under a virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::adversary::{Conditions, up_to};
use crate::aggregator::Aggregator;
use crate::job::OnDeath;
use crate::rank::{Next, Outcome, Phase, Rank};
use crate::values::Operation;
use fastrand::Rng;

pub(crate) const JOB: u16 = 3;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) ranks: u16,
    pub(crate) payload: u16,
    pub(crate) in_flight: u16,
    pub(crate) spread: u16,
    pub(crate) first_psn: u32,
    pub(crate) operations: Vec<Operation>,
    /// When the first allreduce begins, if all ranks have joined by then.
    pub(crate) start: Duration,
    /// How long a rank computes between two allreduces, at the most.
    pub(crate) pause: Duration,
    pub(crate) deadline: Duration,
    pub(crate) linger: Duration,
    pub(crate) conditions: Conditions,
    /// How many contributions complete a PSN, if not all.
    pub(crate) threshold: Option<usize>,
    pub(crate) accept_partial: bool,
    pub(crate) upsets: Vec<(Duration, Upset)>,
}

/// Something that goes wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upset {
    /// The appliance is away for a while, and has then forgotten everything.
    Restart { down: Duration, epoch: u16 },
    /// A rank dies for good.
    Kill { rank: u16 },
    /// A rank dies and begins another life.
    Anew { rank: u16 },
    /// Nothing reaches a rank for a while.
    Deafen { rank: u16, lasts: Duration },
    /// The appliance finds out that a rank has died.
    Lose { rank: u16, on_death: OnDeath },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    ToAggregator(Vec<u8>),
    ToRank { rank: u16, life: u64, bytes: Vec<u8> },
    Wake(u16),
    Begin { rank: u16, life: u64 },
    Upset(usize),
}

struct World<'a> {
    plan: &'a Plan,
    random: Rng,
    now: Duration,
    serial: u64,
    events: BinaryHeap<Reverse<(Duration, u64, Happening)>>,
    ranks: Vec<Rank>,
    aggregator: Aggregator,
    /// Until when the appliance is away.
    away: Duration,
}

/// The outcome of a plan: by rank, and as the appliance saw it.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) ranks: Vec<Outcome>,
    pub(crate) originals: u64,
}

/// Runs a plan to its end. Panics if a combination is wrong, a rank breaks a rule, or nothing ends.
pub(crate) fn run(plan: &Plan, seed: u64) -> End {
    let mut world = World {
        plan,
        random: Rng::with_seed(seed),
        now: Duration::ZERO,
        serial: 0,
        events: BinaryHeap::new(),
        ranks: (0..plan.ranks).map(|rank| Rank::new(rank, plan)).collect(),
        aggregator: Aggregator::new(JOB, plan.ranks, plan.spread),
        away: Duration::ZERO,
    };
    world.aggregator.threshold = plan.threshold;
    world.aggregator.job.base = plan.first_psn;
    for (number, &(at, _)) in plan.upsets.iter().enumerate() {
        world.schedule(at, Happening::Upset(number));
    }
    for rank in 0..plan.ranks {
        world.settle(rank);
    }
    while let Some(Reverse((at, _, happening))) = world.events.pop() {
        assert!(at < Duration::from_secs(1000), "nothing ends");
        world.now = at;
        world.apply(happening);
    }
    let outcome = |rank: Rank| match rank.phase {
        Phase::Gone | Phase::Dead => rank.outcome,
        _ => panic!("a rank hangs without a timeout"),
    };
    End { ranks: world.ranks.into_iter().map(outcome).collect(), originals: world.aggregator.originals }
}

impl World<'_> {
    fn schedule(&mut self, at: Duration, happening: Happening) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, happening)));
    }

    fn apply(&mut self, happening: Happening) {
        match happening {
            Happening::ToAggregator(_) if self.now < self.away => {}
            Happening::ToAggregator(bytes) => {
                for (rank, bytes) in self.aggregator.handle(&bytes, &self.plan.conditions, &mut self.random) {
                    let to = &mut self.ranks[usize::from(rank)];
                    let life = to.life;
                    for at in to.down.arrivals(self.now, &self.plan.conditions, &mut self.random) {
                        self.schedule(at, Happening::ToRank { rank, life, bytes: bytes.clone() });
                    }
                }
            }
            Happening::ToRank { rank, life, bytes } => {
                let to = &mut self.ranks[usize::from(rank)];
                if to.life == life && self.now >= to.deaf_until {
                    let next = to.deliver(self.now, self.plan, bytes);
                    self.follow(rank, next);
                    self.settle(rank);
                }
            }
            Happening::Wake(rank) => {
                self.ranks[usize::from(rank)].wake = None;
                self.settle(rank);
            }
            Happening::Begin { rank, life } => {
                let who = &mut self.ranks[usize::from(rank)];
                if who.life == life && matches!(who.phase, Phase::Pausing) {
                    let next = who.begin(self.now, self.plan);
                    self.follow(rank, next);
                    self.settle(rank);
                }
            }
            Happening::Upset(number) => self.upset(self.plan.upsets[number].1),
        }
    }

    fn upset(&mut self, upset: Upset) {
        match upset {
            Upset::Restart { down, epoch } => {
                self.away = self.now + down;
                self.aggregator.restart(epoch);
            }
            Upset::Kill { rank } => self.ranks[usize::from(rank)].end(Phase::Dead),
            Upset::Anew { rank } => {
                self.ranks[usize::from(rank)].start(self.now, self.plan);
                self.settle(rank);
            }
            Upset::Deafen { rank, lasts } => self.ranks[usize::from(rank)].deaf_until = self.now + lasts,
            Upset::Lose { rank, on_death } => self.aggregator.lose(rank, on_death),
        }
    }

    fn follow(&mut self, rank: u16, next: Next) {
        if next == Next::Pause {
            // What the operation wanted to send at its end.
            self.flush(rank);
            let begin = self.plan.start.max(self.now + up_to(&mut self.random, self.plan.pause));
            let life = self.ranks[usize::from(rank)].life;
            self.schedule(begin, Happening::Begin { rank, life });
        }
    }

    /// Handles due timeouts, sends pending packets, and arranges to be woken.
    fn settle(&mut self, rank: u16) {
        let next = self.ranks[usize::from(rank)].on_timeout(self.now, self.plan);
        self.follow(rank, next);
        self.flush(rank);
        let who = &mut self.ranks[usize::from(rank)];
        if let Some(due) = who.poll_timeout()
            && who.wake.is_none_or(|wake| due < wake)
        {
            who.wake = Some(due);
            self.schedule(due.max(self.now), Happening::Wake(rank));
        }
    }

    fn flush(&mut self, rank: u16) {
        while let Some(bytes) = self.ranks[usize::from(rank)].poll_transmit(self.now, self.plan) {
            let leg = &mut self.ranks[usize::from(rank)].up;
            for at in leg.arrivals(self.now, &self.plan.conditions, &mut self.random) {
                self.schedule(at, Happening::ToAggregator(bytes.clone()));
            }
        }
    }
}
