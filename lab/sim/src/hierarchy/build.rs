//! A tree of appliances, and the workers below.

use core::time::Duration;

use pascaline_aggregator::PoolConfig;
use pascaline_pipelines::membership::{JobSpec, Parent};
use pascaline_worker::{CongestionControl, Identity};

use super::{Level, Node, Setting};
use crate::bottleneck::Sharer;
use crate::centre::Centre;
use crate::host::{Host, parent_of};
use crate::rank::{Doing, Rank};
use crate::wheel::Timer;

const JOB: u16 = 1;

/// All appliances, level by level, and that of each worker.
pub(super) fn nodes(setting: &Setting) -> Option<(Vec<Node>, Vec<usize>)> {
    let (mut nodes, mut leaf_of) = (Vec::new(), Vec::new());
    // Those of a level: the parent of each, and its rank there.
    let mut level: Vec<Option<(usize, u16)>> = vec![None];
    for (depth, &ranks) in setting.levels.iter().enumerate() {
        let mut below = Vec::new();
        for parent in level {
            let at = nodes.len();
            let above = parent.map(|(parent, rank)| {
                let siblings = setting.levels.get(depth.wrapping_sub(1)).copied().unwrap_or(0);
                parent_of((at, parent), rank, siblings)
            });
            let first = leaf_of.len();
            if depth + 1 == setting.levels.len() {
                leaf_of.extend((0..ranks).map(|_| at));
            } else {
                below.extend((0..ranks).map(|rank| Some((at, rank))));
            }
            let load = Level { ranks, ..Level::default() };
            let centre = centre(setting, at, ranks, above)?;
            nodes.push(Node { centre, level: depth, first, control: Timer::default(), load, recent: (0, 0) });
        }
        level = below;
    }
    Some((nodes, leaf_of))
}

fn centre(setting: &Setting, node: usize, ranks: u16, parent: Option<Parent>) -> Option<Centre> {
    let spec = JobSpec {
        window: setting.window,
        max_payload: setting.payload,
        dead_after: None,
        parent,
        ..JobSpec::new(JOB, ranks)
    };
    let slots = (4 * usize::from(setting.window)).next_power_of_two();
    Centre::new(vec![spec], &PoolConfig { slots, ways: 4, ..PoolConfig::default() }, node)
}

/// Each worker's elements are 1 to 7, so that the sum of very many has room.
pub(super) fn rank(setting: &Setting, worker: usize, leaf: usize, begins: u64) -> Rank {
    let ranks = setting.levels.last().copied().unwrap_or(0);
    let value = |worker: usize| i32::try_from(worker % 7 + 1).unwrap_or(0);
    let workers = setting.workers().unwrap_or(0);
    // Sevens that are whole, and the rest.
    let sum = i32::try_from(workers / 7).unwrap_or(0) * 28 + (0..workers % 7).map(value).sum::<i32>();
    let number = worker % usize::from(ranks).max(1);
    let doing = Doing {
        identity: Identity {
            job: JOB,
            rank: u16::try_from(number).unwrap_or(0),
            ranks,
            payload: setting.payload,
        },
        session: worker as u64 + 1,
        sharer: Sharer {
            control: CongestionControl::Delay,
            in_flight: 0,
            begins: Duration::from_nanos(begins),
        },
        window: setting.window,
        elements: setting.bytes / 4,
        values: (value(worker), sum),
        pause: Duration::ZERO,
        most: setting.operations,
    };
    Rank::new(Host::new(number, 1, false).towards(leaf), doing)
}
