//! Every kind of job that a configuration can express, as the harness can run it: one *cell* each.

use core::fmt;

use pascaline_aggregator::{ConflictPolicy, Order, Policy, Region};
use pascaline_pipelines::membership::OnDeath;

use super::Plan;
use super::job::JobPlan;
use crate::random::{Random, mix};

/// What a job is (docs/policies.md, "Kinds").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Region { order: Order },
    Shared { conflict: ConflictPolicy, order: Order, server: Server },
    Early { threshold: bool, timed: bool },
    Updates,
    Switchml,
}

impl Kind {
    /// Whether its ranks join, and have results: not those of updates and of `SwitchML`'s clients.
    fn has_ranks(self) -> bool {
        !matches!(self, Self::Updates | Self::Switchml)
    }
}

/// Where a job's sums that found no slot are completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Nowhere,
    Embedded,
    External,
}

/// The appliances between a job's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    One,
    Levels(usize),
    Backup,
}

/// A kind of job with what it does when a rank dies and how its results travel, at appliances of one lcore or
/// two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub(crate) kind: Kind,
    pub(crate) on_death: OnDeath,
    pub(crate) by_multicast: bool,
    pub(crate) lcores: usize,
    pub(crate) between: Between,
}

/// Plans that are drawn for one that is of a cell: on average it is one of sixteen.
const TRIES: u64 = 2_000;

impl Cell {
    /// All of them. A job with a parent has neither a server nor partial results, and fails with its ranks.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for between in [Between::One, Between::Levels(2), Between::Levels(3), Between::Backup] {
            let alone = between == Between::One;
            for on_death in [OnDeath::Fail, OnDeath::Continue]
                .into_iter()
                .filter(|&on_death| alone || on_death == OnDeath::Fail)
            {
                for kind in kinds(alone).filter(|kind| kind.has_ranks() || on_death == OnDeath::Fail) {
                    let ways = [false, true].into_iter().filter(|by| !by || kind.has_ranks());
                    all.extend(ways.flat_map(|by_multicast| {
                        [1, 2].map(|lcores| Self { kind, on_death, by_multicast, lcores, between })
                    }));
                }
            }
        }
        all
    }

    /// Makes a job's policy this cell's; the pool gives it its slots.
    pub(super) fn force(&self, job: &mut JobPlan) {
        let rank = |order: Order| if order == Order::Rank { u32::from(job.window) } else { 0 };
        let own = Policy { region: Some(Region { first: 0, sets: 1 }), ..Policy::default() };
        job.policy = match self.kind {
            Kind::Region { order } => Policy { order, quota: rank(order), ..own },
            Kind::Early { .. } => own,
            Kind::Shared { conflict, order, server } => {
                let quota = rank(order).min(job.policy.quota.max(1));
                Policy { conflict, order, quota, server: server != Server::Nowhere, ..Policy::default() }
            }
            Kind::Updates | Kind::Switchml => return,
        };
        job.on_death = self.on_death;
        job.formed &= !self.by_multicast;
    }

    /// Whether a plan is of this cell, whatever was asked for when it was drawn.
    fn is_of(&self, plan: &Plan) -> bool {
        let Some(job) = plan.jobs.first() else { return false };
        let Policy { conflict, order, region, partial_after, server, .. } = job.policy;
        let (whole, own) = (job.threshold.is_none() && partial_after == 0, region.is_some());
        let same = match self.kind {
            Kind::Region { order: wanted } => whole && own && !server && order == wanted,
            Kind::Shared { conflict: wanted, order: other, server: place } => {
                let found = match (server, plan.outside) {
                    (false, _) => Server::Nowhere,
                    (true, false) => Server::Embedded,
                    (true, true) => Server::External,
                };
                whole && !own && (conflict, order, found) == (wanted, other, place)
            }
            Kind::Early { threshold, timed } => {
                let fewer = job.threshold.is_some_and(|needed| needed < job.ranks);
                own && job.threshold.is_some() && (fewer, partial_after > 0) == (threshold, timed)
            }
            Kind::Updates => plan.cluster.is_some(),
            Kind::Switchml => plan.clients.is_some(),
        };
        same && plan.lcores == self.lcores
            && job.multicast.is_some() == self.by_multicast
            && (!self.kind.has_ranks() || job.on_death == self.on_death)
    }
}

/// The kinds of jobs whose ranks all send to one appliance, or of those that have a parent or a backup.
fn kinds(alone: bool) -> impl Iterator<Item = Kind> {
    let servers: &[Server] =
        if alone { &[Server::Nowhere, Server::Embedded, Server::External] } else { &[Server::Nowhere] };
    let regions = Order::ALL.map(|order| Kind::Region { order });
    let shared = ConflictPolicy::ALL.into_iter().flat_map(move |conflict| {
        let orders = Order::ALL.into_iter();
        orders.flat_map(move |order| {
            servers.iter().map(move |&server| Kind::Shared { conflict, order, server })
        })
    });
    let early = [(true, false), (false, true), (true, true)]
        .map(|(threshold, timed)| Kind::Early { threshold, timed })
        .into_iter();
    let rest = early.chain([Kind::Updates, Kind::Switchml]).filter(move |_| alone);
    regions.into_iter().chain(shared).chain(rest)
}

impl Plan {
    /// A seed's schedule of the cell with a number. `found` becomes that number if it is of it.
    pub(crate) fn of_cell(
        number: usize,
        seed: u64,
        (random, found): (&mut Random, &mut Option<usize>),
    ) -> Self {
        let cells = Cell::all();
        let cell = &cells[number];
        let mut attempt = 0;
        loop {
            *random = Random::new(mix(seed ^ mix(attempt)));
            let plan = match cell.between {
                Between::One => {
                    let mut clients = Random::new(random.clone().next() ^ super::CLIENTS);
                    let plan = Self::draw_of(random, super::ROUGH, Some(cell));
                    if cell.kind == Kind::Switchml { plan.with_clients(&mut clients, true) } else { plan }
                }
                Between::Levels(levels) => Self::of_tree(random, levels, Some(cell)),
                Between::Backup => Self::of_backup(random, Some(cell)),
            };
            attempt += 1;
            *found = cell.is_of(&plan).then_some(number);
            if found.is_some() || attempt == TRIES {
                return plan;
            }
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Region { order } => write!(f, "region, order {}", order.name())?,
            Kind::Shared { conflict, order, server } => {
                write!(f, "shared, {}, order {}, ", conflict.name(), order.name())?;
                f.write_str(match server {
                    Server::Nowhere => "no server",
                    Server::Embedded => "server embedded",
                    Server::External => "server external",
                })?;
            }
            Kind::Early { threshold, timed } => f.write_str(match (threshold, timed) {
                (true, true) => "early, threshold and partial_after",
                (true, false) => "early, threshold",
                (false, _) => "early, partial_after",
            })?,
            Kind::Updates => f.write_str("updates")?,
            Kind::Switchml => f.write_str("switchml")?,
        }
        if self.kind.has_ranks() {
            f.write_str(if self.on_death == OnDeath::Fail {
                ", deaths fail it"
            } else {
                ", deaths shrink it"
            })?;
        }
        if self.by_multicast {
            f.write_str(", by multicast")?;
        }
        write!(f, ", {} lcore(s), ", self.lcores)?;
        match self.between {
            Between::One => f.write_str("one appliance"),
            Between::Levels(levels) => write!(f, "{levels} levels"),
            Between::Backup => f.write_str("an appliance and its backup"),
        }
    }
}
