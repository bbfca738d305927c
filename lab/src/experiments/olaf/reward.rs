//! The time until the server has 200 updates of each worker (Olaf, section 8.2, Figure 7).
//!
//! 100 clusters of 3 workers before a queue of 8. A worker sends on until 200 of its updates have not been
//! dropped; what was combined counts for each worker inside. The paper's traces are not published: workers
//! send at random times, with rates that differ by up to `spread`.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use pascaline_buffer::HeapPool;
use pascaline_queue::{Config, ConfigError, Discipline, EnqueueOutcome, Update};
use pascaline_sim::random::Random;

use super::SECOND;
use super::arrivals::{exponential, ticks, uniform};
use super::bottleneck::{Bottleneck, Hold};

const WORKERS: u16 = 300;
const PER_CLUSTER: u16 = 3;
const SEGMENTS: u16 = 8;
const BITS: u32 = 2048;
const HEADERS: u16 = 64;

/// The experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reward {
    pub(crate) seed: u64,
    /// Updates wanted of each worker; the paper has 200.
    pub(crate) updates: u32,
    /// Gbit/s of all workers together.
    pub(crate) offered_gbps: f64,
    /// Gbit/s of the line.
    pub(crate) out_gbps: u32,
    /// The fastest worker sends this part faster than the mean, the slowest this part slower.
    pub(crate) spread: f64,
}

impl Reward {
    /// Milliseconds until the server has what it needs of every worker.
    ///
    /// # Errors
    /// [`ConfigError`]: not to be expected.
    pub(crate) fn milliseconds(&self, discipline: Discipline) -> Result<f64, ConfigError> {
        let config = Config {
            discipline,
            segments: SEGMENTS,
            clusters: u32::from(WORKERS / PER_CLUSTER),
            ..Config::default()
        };
        let mut line = Bottleneck::new(&config, self.out_gbps, Hold::UntilBegun)?;
        let (pool, bytes) = (HeapPool::new(), vec![0; BITS as usize / 8]);
        let mut random = Random::new(self.seed);
        let mean = f64::from(BITS) * f64::from(WORKERS) / self.offered_gbps * (SECOND as f64 / 1e9);
        let intervals: Vec<f64> =
            (0..WORKERS).map(|_| mean / (1.0 + self.spread * (2.0 * uniform(&mut random) - 1.0))).collect();
        let mut agenda: BinaryHeap<Reverse<(u64, u16)>> = BinaryHeap::new();
        let gap =
            |worker: u16, random: &mut Random| ticks(exponential(random) * intervals[usize::from(worker)]);
        (0..WORKERS).for_each(|worker| agenda.push(Reverse((gap(worker, &mut random), worker))));
        let mut wanted = vec![self.updates; usize::from(WORKERS)];
        let mut lacking = wanted.len();
        while lacking > 0 {
            let Some(Reverse((now, worker))) = agenda.pop() else { break };
            while let Some(at) = line.next().filter(|at| *at <= now) {
                let _ = line.finish(at);
            }
            let taken = line.offer(now, update(worker, now), pool.alloc(&bytes, bytes.len())).outcome;
            let wanted = &mut wanted[usize::from(worker)];
            if *wanted > 0 && taken != EnqueueOutcome::Full {
                *wanted -= 1;
                lacking -= usize::from(*wanted == 0);
            }
            if lacking == 0 {
                return Ok(now as f64 / (SECOND as f64 / 1000.0));
            }
            agenda.push(Reverse((now + gap(worker, &mut random), worker)));
        }
        Ok(0.0)
    }
}

fn update(worker: u16, now: u64) -> Update {
    let len = u16::try_from(BITS / 8).unwrap_or(0) - HEADERS;
    Update { offset: HEADERS, ..Update::new(u32::from(worker / PER_CLUSTER), worker, now, len) }
}
