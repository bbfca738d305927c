//! The work that no pool can leave out: the loads, adds and stores of a packet without the bookkeeping
//! between them.

use std::hint::black_box;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, Kernels};
use pascaline_dpdk::{Clock, Mbuf, Mempool};
use pascaline_wire::{Op, fast_path};

use super::super::fixture::{HEADERS, Load};
use super::{bare, nanos};

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

const ZEROS: Line = Line([0; 8]);

/// For each packet: its headers are compared with those expected of its rank, the slot of its PSN is read and
/// written, the payload is added, and headers for one rank are written into a buffer that is in the cache,
/// whose descriptor gets another length. Nothing is decided, counted or looked up.
pub(super) struct Least {
    kernel: Combine,
    accumulators: Vec<Mbuf>,
    slots: Vec<Line>,
    /// Two lines for each rank.
    flows: Vec<[Line; 2]>,
    heads: Vec<Line>,
}

impl Least {
    /// `None` for loads whose contributions are kept: they are added at the end, all at once.
    pub(super) fn new(load: &Load, frames: &Mempool) -> anyhow::Result<Option<Self>> {
        let combine = Kernels::detect().combine(load.element.dtype, Op::Sum);
        let Some(kernel) = combine.filter(|_| !load.whole()) else { return Ok(None) };
        let (psns, ranks) = (load.residence.psns as usize, usize::from(load.shape.fan_in));
        Ok(Some(Self {
            kernel,
            accumulators: bare::zeros(load, load.residence.psns, frames)?,
            slots: vec![ZEROS; psns],
            flows: vec![[ZEROS; 2]; ranks],
            heads: vec![ZEROS; ranks],
        }))
    }

    /// Goes through the packets of one round, the last of `ready` first; returns nanoseconds. Their headers
    /// are as before.
    pub(super) fn round(&mut self, clock: &Clock, ready: &mut [Mbuf], psns: &[u32]) -> f64 {
        let start = clock.now_ns();
        for (packet, psn) in ready.iter_mut().rev().zip(psns) {
            let at = *psn as usize & (self.accumulators.len() - 1);
            self.packet(packet, at);
        }
        nanos(clock.now_ns() - start)
    }

    #[inline(always)]
    fn packet(&mut self, packet: &mut Mbuf, at: usize) {
        let (_, rank) = fast_path::job_and_rank(packet.bytes()).unwrap_or_default();
        let rank = usize::from(rank) % self.flows.len();
        let head = words(packet.bytes());
        let [first, second] = &self.flows[rank];
        let mut different = 0;
        for (word, (first, second)) in head.0.iter().zip(first.0.iter().zip(&second.0)) {
            different |= (word ^ first) & second;
        }
        let slot = &mut self.slots[at].0;
        slot[0] |= different;
        slot[1] += 1;
        let (into, from) = (&mut self.accumulators[at], &packet.bytes()[HEADERS..]);
        black_box((self.kernel)(&mut into.bytes_mut()[HEADERS..], from));
        // A result's headers, in the buffer of a packet that has been added.
        let whole = packet.bytes().len();
        let (out, _) = packet.bytes_mut().as_chunks_mut::<8>();
        for ((out, word), known) in out.iter_mut().zip(head.0).zip(&self.heads[rank].0) {
            *out = (word | known).to_le_bytes();
        }
        black_box(packet.set_len(HEADERS));
        black_box(packet.set_len(whole));
    }
}

/// The first line of a frame.
#[inline(always)]
fn words(bytes: &[u8]) -> Line {
    let (chunks, _) = bytes.as_chunks::<8>();
    Line(core::array::from_fn(|at| chunks.get(at).map_or(0, |chunk| u64::from_le_bytes(*chunk))))
}
