//! What the queue costs in nanoseconds.
//!
//! In each step two updates come, of which one is combined with another and one goes to the tail, and one
//! leaves. Steps are taken in bursts, and for each burst the queue is asked to look ahead, as a packet path
//! does. Not measured: reception, which leaves packets in the cache, and sending. The limit, in turns with
//! it: the bare add of the same payloads into the same packets.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_queue::{Combine, Config, Update, UpdateQueue};
use pascaline_wire::Element;
use serde::Serialize;

use crate::bench::fixture::{HEADERS, median};

/// What one measurement gave.
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
/// When everything happens.
const NOW: u64 = 1;
/// Steps of a round.
const STEPS: usize = 8192;
/// Steps of a burst, for each of which two packets come.
const BURST: usize = pascaline_pipelines::BURST / 2;
/// Steps between two readings of the clock; a whole number of times in a round. The median is taken over
/// these, not over rounds: they are short enough for most to be over before anything else gets the processor.
const TIMED: usize = 4 * BURST;

/// A step: what comes.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// The cluster of an update that waits.
    waits: u32,
    /// How many have been appended before that one, of all that waited or were appended in this round.
    place: usize,
    /// A cluster of which nothing waits.
    absent: u32,
}

/// Which clusters wait, so that steps can be drawn beforehand.
struct Script {
    waiting: VecDeque<u32>,
    absent: Vec<u32>,
    /// xorshift64.
    state: u64,
}

impl Script {
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or(0) % bound.max(1)
    }

    /// A cluster of which nothing waits goes to the tail.
    fn append(&mut self) -> Option<u32> {
        let at = self.below(self.absent.len());
        let cluster = (!self.absent.is_empty()).then(|| self.absent.swap_remove(at))?;
        self.waiting.push_back(cluster);
        Some(cluster)
    }

    fn step(&mut self, number: usize) -> Option<Step> {
        let place = self.below(self.waiting.len());
        let waits = *self.waiting.get(place)?;
        self.absent.push(self.waiting.pop_front()?);
        Some(Step { waits, place: number + place, absent: self.append()? })
    }
}

fn update(cluster: u32, worker: u16) -> Update {
    Update {
        cluster,
        worker,
        psn: 0,
        epoch: 0,
        count: 1,
        reward: 0.0,
        generated_ns: 0,
        element: Element::F32_SUM,
        offset: u16::try_from(HEADERS).unwrap_or(0),
        len: PAYLOAD,
        overflow: false,
    }
}

/// Measures a queue of so many clusters and segments.
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
            state: 0x2545_f491_4f6c_dd1d,
        },
        received: Vec::with_capacity(2 * TIMED),
        done: Vec::with_capacity(2 * TIMED),
        reading: time_of_reading(),
    };
    let pool = HeapPool::new();
    let packet = || pool.alloc(&vec![0; HEADERS + usize::from(PAYLOAD)], ROOM);
    // As many as may wait; and those that change places with them.
    for _ in 0..u32::from(segments).min(clusters) {
        let cluster = bench.script.append().context("no cluster is left")?;
        ensure!(bench.queue.enqueue(0, update(cluster, 0), packet()).spent.is_none(), "nothing waits");
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
    /// Packets that come next.
    received: Vec<HeapBuf>,
    /// Packets that came last: spent, or sent.
    done: Vec<HeapBuf>,
    /// What a measurement of nothing shows, in nanoseconds.
    reading: u64,
}

impl Bench {
    /// Takes the steps, and notes nanoseconds per step for each reading of the clock.
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

    /// What was left over comes again: written anew, as if a device had just received it.
    fn receive(&mut self) {
        for mut packet in self.done.drain(..) {
            packet.bytes_mut().fill(0);
            self.received.push(packet);
        }
    }

    /// What is measured. `None` if something did not happen as it should have.
    #[inline]
    fn take(&mut self, burst: &[Step]) -> Option<()> {
        let queue = &mut self.queue;
        let mut ahead = [[queue.foresee(0); 2]; BURST];
        for (ahead, step) in ahead.iter_mut().zip(burst) {
            *ahead = [queue.foresee(step.waits), queue.foresee(step.absent)];
        }
        for foreseen in ahead.as_flattened() {
            queue.touch(*foreseen);
        }
        for step in burst {
            self.done.push(queue.enqueue(NOW, update(step.waits, 1), self.received.pop()?).spent?);
            self.done.push(queue.dequeue()?.packet);
            if queue.enqueue(NOW, update(step.absent, 0), self.received.pop()?).spent.is_some() {
                return None;
            }
        }
        Some(())
    }

    /// Takes out all that waits, adds payloads where the steps would add them, and puts everything back.
    /// Notes nanoseconds per step for each reading of the clock.
    ///
    /// With each step the next packet becomes one that waits, as in the queue: where payloads are in the
    /// cache is the same.
    fn bare_add(&mut self, steps: &[Step], times: &mut Vec<f64>) -> anyhow::Result<()> {
        let kernel = Kernels::detect().f32_sum;
        let mut waiting = Vec::with_capacity(self.queue.len() + TIMED);
        let mut clusters = Vec::with_capacity(self.queue.len());
        while let Some(departure) = self.queue.dequeue() {
            clusters.push(departure.update.cluster);
            waiting.push(departure.packet);
        }
        waiting.extend(self.done.drain(TIMED..));
        // Divisions are done beforehand.
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
            ensure!(self.queue.enqueue(NOW, update(cluster, 0), packet).spent.is_none(), "nothing waits");
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
