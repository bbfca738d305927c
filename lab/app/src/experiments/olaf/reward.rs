//! The time until the server has 200 updates of each worker (Olaf, section 8.2, Figure 7).
//!
//! 100 clusters of 3 workers before a queue of 8, which all send until the server has 200 updates of each. A
//! combined update counts for each worker inside, a replaced one for none. The paper's traces are not
//! published: workers send at random times, with rates that differ by up to `spread`.

use std::collections::VecDeque;

use pascaline_buffer::HeapPool;
use pascaline_queue::{Config, ConfigError, Departure, Discipline, EnqueueOutcome, Update};
use pascaline_sim::random::Random;
use pascaline_sim::wheel::Wheel;

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
    /// Milliseconds until the server has enough updates of every worker.
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
        let mut wheel = Wheel::default();
        let gap =
            |worker: u16, random: &mut Random| ticks(exponential(random) * intervals[usize::from(worker)]);
        (0..WORKERS).for_each(|worker| wheel.push(gap(worker, &mut random), worker));
        let mut tally = Tally::new(self.updates);
        while let Some((now, worker)) = wheel.pop() {
            while let Some(at) = line.next().filter(|at| *at <= now) {
                if let Some(Departure { update, .. }) = line.finish(at) {
                    tally.arrive(&update);
                }
                if tally.lacking == 0 {
                    return Ok(at as f64 / (SECOND as f64 / 1000.0));
                }
            }
            tally
                .offer(worker, line.offer(now, update(worker, now), pool.alloc(&bytes, bytes.len())).outcome);
            wheel.push(now + gap(worker, &mut random), worker);
        }
        Ok(0.0)
    }
}

/// The workers whose updates the server has.
struct Tally {
    /// By cluster, in the order of departure: the workers of updates in the queue or on the line.
    inside: Vec<VecDeque<u16>>,
    /// By worker: how many the server lacks.
    wanted: Vec<u32>,
    /// Workers of which it lacks any.
    lacking: usize,
}

impl Tally {
    fn new(updates: u32) -> Self {
        let inside = vec![VecDeque::new(); usize::from(WORKERS / PER_CLUSTER)];
        Self { inside, wanted: vec![updates; usize::from(WORKERS)], lacking: usize::from(WORKERS) }
    }

    /// A worker has offered one. One that replaces an older one of the same worker adds none.
    fn offer(&mut self, worker: u16, outcome: EnqueueOutcome) {
        if matches!(outcome, EnqueueOutcome::Appended | EnqueueOutcome::Aggregated) {
            self.inside[usize::from(worker / PER_CLUSTER)].push_back(worker);
        }
    }

    /// The server gets one, with all contributions inside.
    fn arrive(&mut self, update: &Update) {
        let inside = &mut self.inside[usize::from(update.worker / PER_CLUSTER)];
        for worker in inside.drain(..usize::from(update.count)) {
            let wanted = &mut self.wanted[usize::from(worker)];
            self.lacking -= usize::from(*wanted == 1);
            *wanted = wanted.saturating_sub(1);
        }
    }
}

fn update(worker: u16, now: u64) -> Update {
    let len = u16::try_from(BITS / 8).unwrap_or(0) - HEADERS;
    Update { offset: HEADERS, ..Update::new(u32::from(worker / PER_CLUSTER), worker, now, len) }
}

#[cfg(test)]
mod tests;
