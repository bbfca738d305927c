//! The cost of OlafQueue in nanoseconds.
//!
//! In each step two updates arrive and one leaves. One of the two is combined with a waiting update, the
//! other goes to the tail. Steps come in bursts, and the queue prefetches for each burst, as on the packet
//! path. Not measured: reception, which leaves packets in the cache, and sending. The limit, measured in
//! turns with it: the bare add of the same payloads into the same packets.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use fastrand::Rng;
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_queue::{Combine, Config, Update, UpdateQueue};
use serde::Serialize;

use crate::bench::fixture::{HEADERS, median};

/// Figures of one measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Nanos {
    pub(super) clusters: u32,
    pub(super) queue_len: u16,
    /// Two updates in, one out, one payload added.
    pub(super) enqueue_dequeue_ns: f64,
    pub(super) bare_add_ns: f64,
    pub(super) on_top_ns: f64,
    pub(super) ratio: f64,
}

/// Clusters and segments.
pub(super) const SHAPES: [(u32, u16); 4] = [(8, 8), (8, 4096), (65_536, 8), (65_536, 4096)];
/// Bytes per update.
pub(super) const PAYLOAD: u16 = 1024;
const ROOM: usize = 2048;
/// The time of all updates.
const NOW: u64 = 1;
/// Steps of a round.
const STEPS: usize = 8192;
/// Steps of a burst; two packets arrive in each.
const BURST: usize = pascaline_pipelines::BURST / 2;
/// Steps between two readings of the clock; divides the steps of a round. The median is over these parts:
/// most are short enough to end before anything else gets the processor.
const TIMED: usize = 4 * BURST;

/// The two updates of a step.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// A cluster with a waiting update.
    waits: u32,
    /// Number of updates that were appended before that one in this round, or waited at its start.
    place: usize,
    /// A cluster without one.
    absent: u32,
}

/// Tracks which clusters wait, so that steps can be drawn ahead of time.
struct Script {
    waiting: VecDeque<u32>,
    absent: Vec<u32>,
    random: Rng,
}

impl Script {
    /// Appends a cluster that has no waiting update.
    fn append(&mut self) -> Option<u32> {
        let at = self.random.usize(..self.absent.len().max(1));
        let cluster = (!self.absent.is_empty()).then(|| self.absent.swap_remove(at))?;
        self.waiting.push_back(cluster);
        Some(cluster)
    }

    fn step(&mut self, number: usize) -> Option<Step> {
        let place = self.random.usize(..self.waiting.len().max(1));
        let waits = *self.waiting.get(place)?;
        self.absent.push(self.waiting.pop_front()?);
        Some(Step { waits, place: number + place, absent: self.append()? })
    }
}

fn update(cluster: u32, worker: u16) -> Update {
    Update { offset: u16::try_from(HEADERS).unwrap_or(0), ..Update::new(cluster, worker, 0, PAYLOAD) }
}

/// Measures a queue of this many clusters and segments.
pub(super) fn measure(
    (clusters, segments): (u32, u16),
    combine: Combine,
    rounds: u32,
) -> anyhow::Result<Nanos> {
    let config = Config { segments, clusters, combine, ..Config::default() };
    let mut bench = Bench {
        queue: UpdateQueue::new(&config, &Kernels::detect())?,
        script: Script {
            waiting: VecDeque::new(),
            absent: (0..clusters).collect(),
            random: Rng::with_seed(1),
        },
        received: Vec::with_capacity(2 * TIMED),
        done: Vec::with_capacity(2 * TIMED),
        reading: time_of_reading(),
    };
    let pool = HeapPool::new();
    let packet = || pool.alloc(&vec![0; HEADERS + usize::from(PAYLOAD)], ROOM);
    // Packets for all waiting updates, and those that take their places.
    for _ in 0..u32::from(segments).min(clusters) {
        let cluster = bench.script.append().context("no cluster is left")?;
        ensure!(bench.queue.enqueue(0, update(cluster, 0), packet()).recycled.is_none(), "nothing waits");
    }
    bench.done.extend((0..2 * TIMED).map(|_| packet()));
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let steps: Option<Vec<_>> = (0..STEPS).map(|number| bench.script.step(number)).collect();
        let steps = steps.context("no cluster is left")?;
        bench.bare_add(&steps, &mut bare)?;
        bench.round(&steps, &mut whole)?;
    }
    let counters = bench.queue.counters();
    let waiting = bench.queue.len() as u64;
    ensure!(
        counters.aggregated.updates == u64::from(rounds) * STEPS as u64
            && counters.accepted.updates == counters.departed.updates + counters.aggregated.updates + waiting,
        "the queue did something else: the measurement is void: {counters:?}"
    );
    let (bare_add_ns, enqueue_dequeue_ns) = (median(bare), median(whole));
    Ok(Nanos {
        clusters,
        queue_len: segments,
        enqueue_dequeue_ns,
        bare_add_ns,
        on_top_ns: enqueue_dequeue_ns - bare_add_ns,
        ratio: enqueue_dequeue_ns / bare_add_ns,
    })
}

struct Bench {
    queue: UpdateQueue<HeapBuf>,
    script: Script,
    /// Packets for the next updates.
    received: Vec<HeapBuf>,
    /// Packets that were recycled or sent.
    done: Vec<HeapBuf>,
    /// Nanoseconds that an empty measurement shows.
    reading: u64,
}

impl Bench {
    /// Takes the steps, and notes nanoseconds per step for each part.
    fn round(&mut self, steps: &[Step], times: &mut Vec<f64>) -> anyhow::Result<()> {
        for bursts in steps.chunks(TIMED) {
            self.receive();
            let start = Instant::now();
            let complete: Option<()> = bursts.chunks(BURST).try_for_each(|burst| self.take(burst));
            times.push(self.per_step(start));
            complete.context("a packet is lost")?;
        }
        Ok(())
    }

    /// Recycles packets: written anew, as if a device had just received them.
    fn receive(&mut self) {
        for mut packet in self.done.drain(..) {
            packet.bytes_mut().fill(0);
            self.received.push(packet);
        }
    }

    /// The measured work. `None` if a step did not go as planned.
    #[inline]
    fn take(&mut self, burst: &[Step]) -> Option<()> {
        let queue = &mut self.queue;
        let mut ahead = [[queue.predict(0); 2]; BURST];
        for (ahead, step) in ahead.iter_mut().zip(burst) {
            *ahead = [queue.predict(step.waits), queue.predict(step.absent)];
        }
        for prediction in ahead.as_flattened() {
            queue.prefetch(*prediction);
        }
        for step in burst {
            self.done.push(queue.enqueue(NOW, update(step.waits, 1), self.received.pop()?).recycled?);
            self.done.push(queue.dequeue()?.packet);
            if queue.enqueue(NOW, update(step.absent, 0), self.received.pop()?).recycled.is_some() {
                return None;
            }
        }
        Some(())
    }

    /// Takes out all waiting updates, adds the payloads that the steps would add, and puts everything back.
    /// Notes nanoseconds per step for each part.
    ///
    /// Each step's packet replaces a waiting one, as in the queue, so that payloads lie in the same caches.
    fn bare_add(&mut self, steps: &[Step], times: &mut Vec<f64>) -> anyhow::Result<()> {
        let kernel = Kernels::detect().f32_sum;
        let mut waiting = Vec::with_capacity(self.queue.len() + TIMED);
        let mut clusters = Vec::with_capacity(self.queue.len());
        while let Some(departure) = self.queue.dequeue() {
            clusters.push(departure.update.cluster);
            waiting.push(departure.packet);
        }
        waiting.extend(self.done.drain(TIMED..));
        // No divisions inside the measured loop.
        let places: Vec<_> = steps.iter().map(|step| step.place % waiting.len()).collect();
        for places in places.chunks(TIMED) {
            self.done.iter_mut().for_each(|packet| packet.bytes_mut().fill(0));
            let start = Instant::now();
            for (place, from) in places.iter().zip(&self.done) {
                (kernel)(&mut waiting[*place].bytes_mut()[HEADERS..], &from.bytes()[HEADERS..]);
            }
            times.push(self.per_step(start));
        }
        self.done.extend(waiting.drain(clusters.len()..));
        for (cluster, packet) in clusters.into_iter().zip(waiting) {
            ensure!(self.queue.enqueue(NOW, update(cluster, 0), packet).recycled.is_none(), "nothing waits");
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "short times")]
    fn per_step(&self, start: Instant) -> f64 {
        elapsed(start).saturating_sub(self.reading) as f64 / TIMED as f64
    }
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn time_of_reading() -> u64 {
    let mut nothing: Vec<_> = (0..1001).map(|_| elapsed(Instant::now())).collect();
    nothing.sort_unstable();
    nothing[nothing.len() / 2]
}
