//! A job of `SwitchML`'s clients beside the others.

use core::time::Duration;

use pascaline_aggregator::Region;
use pascaline_pipelines::membership::{JobKind, JobSpec, Registry};
use pascaline_wire::switchml::{Size, UDP_PORT};

use super::job::narrow;
use super::{LinkPlan, MILLI, Plan, Upset};
use crate::clock::Drift;
use crate::host::OWN_V4;
use crate::link::Conditions;
use crate::random::Random;

/// How many schedules have one, in millionths.
const SHARE: u32 = 120_000;

/// How many have its clients started again.
const AGAIN: u32 = 400_000;

/// How long its clients may take if no part is stopped or away.
const DEADLINE: u64 = 20_000 * MILLI;

/// The job.
#[derive(Debug, Clone)]
pub(crate) struct ClientsPlan {
    pub(crate) id: u16,
    pub(crate) workers: u16,
    pub(crate) window: u16,
    pub(crate) size: Size,
    /// Elements of each operation.
    pub(crate) operations: Vec<usize>,
    /// After which a packet is sent again.
    pub(crate) timeout: Duration,
    pub(crate) deadline: u64,
    place: Region,
}

impl ClientsPlan {
    fn draw(random: &mut Random, deadline: u64) -> Self {
        let size = Size::Bytes256;
        let packets = |random: &mut Random| random.between(1, 8 * size.elements() as u64);
        let operations = random.between(1, 5);
        Self {
            // No other job has it.
            id: 301,
            workers: random.pick(&[1, 2, 3, 5]),
            window: narrow(random.between(1, 5)),
            size,
            operations: (0..operations).map(|_| usize::from(narrow(packets(random)))).collect(),
            timeout: Duration::from_millis(random.pick(&[5, 20, 50])),
            deadline,
            place: Region { first: 0, sets: 0 },
        }
    }

    /// Its configuration in the appliance.
    pub(crate) fn spec(&self) -> JobSpec {
        let address = OWN_V4.as_v4().unwrap_or_default();
        let registry = Registry { udp_port: UDP_PORT, address, slots: self.place.sets };
        JobSpec {
            window: self.window,
            kind: JobKind::Switchml { place: self.place, registry },
            dead_after: None,
            ..JobSpec::new(self.id, self.workers)
        }
    }
}

impl Plan {
    /// Adds such a job, to some schedules or if it is wanted, where slots have room for their two sets.
    pub(super) fn with_clients(mut self, random: &mut Random, wanted: bool) -> Self {
        if !random.chance(SHARE) && !wanted || self.pool.ways < 2 {
            return self;
        }
        let stopped = self.upsets.iter().map(|(at, upset)| match upset {
            Upset::Pause { down, .. } | Upset::RestartAppliance { down, .. } => at + down,
            _ => 0,
        });
        let mut clients = ClientsPlan::draw(random, DEADLINE + stopped.sum::<u64>());
        clients.place = self.make_room(u32::from(clients.window).next_power_of_two());
        // Packets of a client stay in order, but for a moment.
        self.spray = false;
        let conditions = Conditions::in_step(random);
        let at = self.links.len() - usize::from(self.outside);
        for _ in 0..clients.workers {
            self.links.insert(at, LinkPlan { up: conditions, down: conditions, dark: Vec::new() });
            self.clocks.insert(at, Drift::default());
        }
        // Not where a packet of the former life might still wait in the appliance.
        let waits =
            self.turns.stuck > 0 || self.upsets.iter().any(|(_, it)| matches!(it, Upset::Pause { .. }));
        if !waits && random.chance(AGAIN) {
            self.upsets.push((random.below(60 * MILLI), Upset::ClientsAgain));
        }
        self.clients = Some(clients);
        self
    }

    /// Another region of the pool, behind those of the other jobs.
    fn make_room(&mut self, sets: u32) -> Region {
        let ways = self.pool.ways;
        let before = (self.pool.slots - self.pool.reserved) / ways;
        let shared = self.pool.slots - self.pool.reserved;
        self.pool.reserved += sets as usize * ways;
        self.pool.slots = (shared + self.pool.reserved).next_power_of_two();
        let after = (self.pool.slots - self.pool.reserved) / ways;
        let moved = u32::try_from(after - before).unwrap_or(0);
        self.jobs.iter_mut().filter_map(|job| job.policy.region.as_mut()).for_each(|own| own.first += moved);
        let end = u32::try_from(self.pool.slots / ways).unwrap_or(0);
        Region { first: end - sets, sets }
    }
}
