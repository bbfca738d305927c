//! Multicast groups that jobs' results go to, and the hosts that they reach.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::net::IpAddr;

use pascaline_wire::MulticastGroup;

use super::{Cell, MILLI, Plan};
use crate::random::Random;

/// How many jobs have a group, in millionths.
const SHARE: u32 = 150_000;

/// What a rank's host and the network do with frames to its job's group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// The worker can listen.
    pub(crate) listens: bool,
    /// When a switch lets no such frame through.
    filtered: (u64, u64),
}

impl Way {
    /// Filtered never, always, from some time on, or until some time, as by a switch that learns of members.
    fn draw(random: &mut Random) -> Self {
        let at = random.below(100 * MILLI);
        let filtered = random.pick(&[(0, 0), (0, 0), (0, u64::MAX), (at, u64::MAX), (0, at)]);
        Self { listens: random.chance(900_000), filtered }
    }

    pub(crate) fn is_filtered(&self, now: u64) -> bool {
        (self.filtered.0..self.filtered.1).contains(&now)
    }
}

/// A job's group, and the way to each rank.
#[derive(Debug, Clone)]
pub(crate) struct GroupPlan {
    pub(crate) group: MulticastGroup,
    pub(crate) ways: Vec<Way>,
}

impl GroupPlan {
    fn draw(random: &mut Random, (job, v6): (u16, bool), ranks: u16) -> Option<Self> {
        let address = if v6 {
            IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x4d00, 1 + job))
        } else {
            let [high, low] = job.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(239, 77, high, low))
        };
        let (same, first) = (random.chance(600_000), Way::draw(random));
        let ways = (0..ranks).map(|_| if same { first } else { Way::draw(random) }).collect();
        Some(Self { group: MulticastGroup::new(address)?, ways })
    }
}

impl Plan {
    /// Gives some jobs a group; in a cell the first one has it if the cell has results by multicast.
    pub(super) fn with_groups(mut self, random: &mut Random, cell: Option<&Cell>) -> Self {
        let v6 = self.v6;
        for (at, job) in self.jobs.iter_mut().enumerate() {
            let drawn = random.chance(SHARE);
            let wanted = cell.map_or(drawn, |cell| cell.by_multicast && (at == 0 || drawn));
            // A job that is formed by Joins has none.
            if wanted && !job.formed {
                job.multicast = GroupPlan::draw(random, (job.id, v6), job.ranks);
            }
        }
        self
    }
}
