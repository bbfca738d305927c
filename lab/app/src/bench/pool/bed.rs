//! A load on the pool and on the bare add, in turns.

use std::sync::Arc;

use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::{Clock, Mbuf, Mempool};
use pascaline_pipelines::{BURST, Io, Lcore, STAGE};
use pascaline_telemetry::{Counter, LcoreCounters};
use pascaline_wire::Mac;
use serde::Serialize;

use super::super::fixture::{self, Arrival, Common, EPOCH, Frames, HEADERS, Load, median};
use super::bare::BareAdd;
use super::least::Least;
use super::nanos;
use seals::Seals;

mod seals;
#[cfg(test)]
mod tests;

/// Figures of one measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(in crate::bench) struct Figures {
    /// Nanoseconds to add one payload into an accumulator, nothing else.
    pub(super) bare_add_ns: f64,
    /// Nanoseconds of the loads, adds and stores that no pool can leave out, with `--least`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) least_ns: Option<f64>,
    /// Nanoseconds per packet of the work that `bench pool` lists.
    pub(in crate::bench) pool_ns: f64,
    /// The median of the rounds' ratios: in a slow moment of the machine both of a round are slow.
    pub(super) ratio: f64,
    /// Payload per second at that speed.
    pub(super) gbps_per_core: f64,
}

/// Most frames at a time: a burst whose every packet completes a PSN of 1,024 ranks, and the frames that a
/// device keeps.
const SENT: usize = (BURST + 1) * 1024;

/// Packet I/O that hands out prepared packets and drops sent ones.
struct Prepared {
    /// Bursts, the last one first.
    ready: Vec<ArrayVec<Mbuf, BURST>>,
    frames: Mempool,
    headers: Mempool,
    clock: Clock,
    /// Sent frames. A driver frees a frame when the device is done with it; here that is after each turn's
    /// measurement, except for the frames that the device keeps.
    sent: Box<ArrayVec<Mbuf, SENT>>,
    count: u64,
    /// Virtual time that packets advance.
    virtual_ns: Option<u64>,
    /// Opens what arrives and seals results, where the load is sealed.
    seals: Option<Seals>,
}

impl Io for Prepared {
    type Buf = Mbuf;

    fn receive(&mut self, _: usize, into: &mut ArrayVec<Mbuf, BURST>) {
        if let Some(burst) = self.ready.pop() {
            *into = burst;
            if let Some(seals) = &self.seals {
                into.iter_mut().for_each(|packet| seals.open(packet));
            }
            if let Some(now) = &mut self.virtual_ns {
                *now += into.len() as u64 * Load::INTERVAL;
            }
        }
    }

    fn transmit(&mut self, _: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        self.count += frames.len() as u64;
        if let Some(seals) = &mut self.seals {
            seals.seal_results(frames);
        }
        self.sent.extend(frames.drain(..));
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<Mbuf, BURST>) {
        let room = into.remaining_capacity();
        // A shortage shows in the number of results, which is checked at the end.
        let _ = self.headers.alloc_bulk(into, room);
    }

    fn frame_buffer(&mut self) -> Option<Mbuf> {
        self.frames.alloc()
    }

    fn multi_segment(&self, _: usize) -> bool {
        true
    }

    fn recycle(&mut self, spent: &mut ArrayVec<Mbuf, BURST>) {
        Mbuf::free_bulk(spent);
    }

    fn now(&self) -> u64 {
        // Always read: it is part of what a turn costs.
        let now = self.clock.now_ns();
        self.virtual_ns.unwrap_or(now)
    }
}

/// A load under measurement, for any width of the rank sets.
pub(super) trait Measured {
    /// Measures one round, first the bare add and then the packet path; `note` keeps the times.
    fn round(&mut self, note: bool) -> anyhow::Result<()>;

    /// Rounds before the steady state.
    fn warm_up(&self) -> u32;

    /// The medians. An error if a packet did not have its proper outcome.
    fn figures(&mut self) -> anyhow::Result<Figures>;

    /// Share of the packets that the pool took.
    fn absorbed(&self) -> f64;
}

/// A load with its fixture. Rank sets have 64 × `WORDS` bits.
pub(super) struct Bed<const WORDS: usize> {
    load: Load,
    writer: Frames,
    frames: Mempool,
    clock: Clock,
    lcore: Lcore<Prepared, WORDS>,
    counters: Arc<LcoreCounters>,
    common: Common,
    add: BareAdd,
    least: Option<Least>,
    arrival: Arrival,
    reading: u64,
    bare: Vec<f64>,
    floor: Vec<f64>,
    pool: Vec<f64>,
    ready: Vec<Mbuf>,
    psns: Vec<u32>,
}

/// The bed for a load, as narrow as its fan-in allows.
pub(super) fn bed(
    load: &Load,
    pools: &(Mempool, Mempool),
    clock: Clock,
) -> anyhow::Result<Box<dyn Measured>> {
    Ok(if load.shape.fan_in <= 64 {
        Box::new(Bed::<1>::new(load, pools, clock)?)
    } else {
        Box::new(Bed::<16>::new(load, pools, clock)?)
    })
}

impl<const WORDS: usize> Bed<WORDS> {
    fn new(load: &Load, (frames, headers): &(Mempool, Mempool), clock: Clock) -> anyhow::Result<Self> {
        let mac = Mac([2, 0, 0, 0, 0xff, 0xfe]);
        let io = Prepared {
            ready: Vec::new(),
            frames: frames.clone(),
            headers: headers.clone(),
            clock,
            sent: Box::new(ArrayVec::new()),
            count: 0,
            virtual_ns: load.contended.then_some(0),
            seals: load.sealed.map(|protection| Seals::new(protection, load)).transpose()?,
        };
        let (bench, common) = fixture::lcore(load, io, mac)?;
        Ok(Self {
            load: *load,
            writer: Frames::new(load, mac, EPOCH),
            frames: frames.clone(),
            clock,
            lcore: bench.lcore,
            counters: bench.counters,
            common,
            add: BareAdd::new(load, frames)?,
            least: if load.least { Least::new(load, frames)? } else { None },
            arrival: Arrival::new(load),
            reading: time_of_reading(&clock),
            bare: Vec::new(),
            floor: Vec::new(),
            pool: Vec::new(),
            ready: Vec::new(),
            psns: Vec::new(),
        })
    }
}

impl<const WORDS: usize> Measured for Bed<WORDS> {
    fn round(&mut self, note: bool) -> anyhow::Result<()> {
        let packets = f64::from(self.load.residence.packets);
        // Both see the same packets, freshly written, in the same order.
        self.psns.clear();
        prepare(
            &self.writer,
            self.load.residence.packets,
            &self.frames,
            &mut self.arrival,
            &mut self.ready,
            &mut self.psns,
        )?;
        let floor = self.least.as_mut().map(|least| {
            let floor = least.round(&self.clock, &mut self.ready, &self.psns);
            prepare_again(&self.writer, &mut self.ready);
            floor
        });
        let bare = self.add.round(&self.clock, &mut self.ready, &self.psns);
        prepare_again(&self.writer, &mut self.ready);
        if let Some(seals) = &mut self.lcore.io().seals {
            seals.seal(&mut self.ready)?;
        }
        self.lcore.io().ready = bursts(&mut self.ready);
        let mut taken = 0;
        loop {
            let start = self.clock.now_ns();
            let received = self.lcore.turn();
            let time = self.clock.now_ns() - start;
            let sent = &mut self.lcore.io().sent;
            sent.drain(..sent.len().saturating_sub(self.load.ring));
            drain(&self.common.to_server);
            if received == 0 {
                break;
            }
            taken += time.saturating_sub(self.reading);
        }
        if note {
            self.bare.push(bare / packets);
            self.floor.extend(floor.map(|floor| floor / packets));
            self.pool.push(nanos(taken) / packets);
        }
        Ok(())
    }

    fn warm_up(&self) -> u32 {
        // Until every slot was used and the last rank has begun.
        let steps = self.load.residence.slots as u64 + u64::from(self.load.residence.psns);
        let packets = steps * u64::from(self.load.shape.fan_in);
        u32::try_from(packets / u64::from(self.load.residence.packets)).unwrap_or(u32::MAX)
    }

    fn figures(&mut self) -> anyhow::Result<Figures> {
        self.common.plane.stop();
        let account = self.counters.read();
        let sent = self.lcore.io().count;
        let (completed, dropped) = (account.get(Counter::Completed), account.dropped_total());
        let (expected, fan_in) = (u64::from(self.arrival.completed()), u64::from(self.load.shape.fan_in));
        let sealed = self.lcore.io().seals.as_ref().is_none_or(|seals| seals.results() == completed);
        let complete = completed == expected && sent == completed * fan_in && sealed;
        anyhow::ensure!(
            dropped == 0 && account.unaccounted() == 0 && (complete || self.load.contended),
            "the pool completed {completed} of {expected} PSNs and dropped {dropped} packets: \
             the measurement of {:?} is void",
            self.load
        );
        let (bare_add_ns, pool_ns) = (median(self.bare.clone()), median(self.pool.clone()));
        Ok(Figures {
            bare_add_ns,
            least_ns: (!self.floor.is_empty()).then(|| median(self.floor.clone())),
            pool_ns,
            ratio: ratio(&self.bare, &self.pool),
            gbps_per_core: f64::from(self.load.shape.payload) * 8.0 / pool_ns,
        })
    }

    fn absorbed(&self) -> f64 {
        let account = self.counters.read();
        1.0 - nanos(account.get(Counter::Forwarded)) / nanos(account.get(Counter::Received))
    }
}

/// The median of the pool's time on top of the bare add of the same round.
fn ratio(bare: &[f64], pool: &[f64]) -> f64 {
    median(bare.iter().zip(pool).map(|(bare, pool)| pool / bare).collect())
}

/// Frees packets for the parameter server.
fn drain(queue: &ArrayQueue<Mbuf>) {
    while queue.pop().is_some() {}
}

/// Nanoseconds that an empty measurement shows; turns are short enough for this to matter.
fn time_of_reading(clock: &Clock) -> u64 {
    let mut nothing: Vec<u64> = (0..1001)
        .map(|_| {
            let start = clock.now_ns();
            clock.now_ns() - start
        })
        .collect();
    nothing.sort_unstable();
    nothing[nothing.len() / 2]
}

/// Allocates and writes the packets of one round into `ready`, last first, since they are taken from the end;
/// their PSNs go into `psns`, first first.
pub(in crate::bench) fn prepare(
    writer: &Frames,
    count: u32,
    frames: &Mempool,
    arrival: &mut Arrival,
    ready: &mut Vec<Mbuf>,
    psns: &mut Vec<u32>,
) -> anyhow::Result<()> {
    for _ in 0..count {
        let (rank, psn) = arrival.next();
        let mut packet = frames.alloc().ok_or_else(|| anyhow::anyhow!("no packet buffer is left"))?;
        anyhow::ensure!(packet.set_len(HEADERS + writer.payload().len()), "packet buffers are too small");
        anyhow::ensure!(writer.write_headers(packet.bytes_mut(), rank, psn), "a header could not be written");
        ready.push(packet);
        psns.push(psn);
    }
    ready.reverse();
    prepare_again(writer, ready);
    Ok(())
}

/// Splits packets into bursts; both are taken from the end.
fn bursts(ready: &mut Vec<Mbuf>) -> Vec<ArrayVec<Mbuf, BURST>> {
    let mut bursts = Vec::with_capacity(ready.len().div_ceil(BURST));
    while !ready.is_empty() {
        let first = ready.len().saturating_sub(BURST);
        bursts.push(ready.drain(first..).rev().collect());
    }
    bursts.reverse();
    bursts
}

/// Writes the payloads again, so that both measurements find them equally fresh.
fn prepare_again(writer: &Frames, ready: &mut [Mbuf]) {
    for packet in ready {
        packet.bytes_mut()[HEADERS..].copy_from_slice(writer.payload());
    }
}
