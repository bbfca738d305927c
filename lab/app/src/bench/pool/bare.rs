//! The limit: adding payloads and nothing else.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder, Kernels};
use pascaline_dpdk::{Clock, Mbuf, Mempool};
use pascaline_wire::{Element, Op};

use super::super::fixture::{HEADERS, Load};
use super::nanos;

/// Reads each payload once and adds it to the sum of its PSN; no aggregator can do less.
pub(in crate::bench) enum BareAdd {
    /// Adds each into the accumulator of its PSN when it arrives.
    Each { accumulators: Vec<Mbuf>, kernel: Combine },
    /// Adds all payloads of a PSN at once, into the first. They are neighbours in order of arrival; or, if
    /// the pool holds them so long that no cache has them, `cold` ones that no cache has either.
    Whole { fan_in: usize, kernel: InOrder, cold: Vec<Mbuf>, at: usize },
}

impl BareAdd {
    pub(in crate::bench) fn new(load: &Load, frames: &Mempool) -> anyhow::Result<Self> {
        let Element { dtype, .. } = load.element;
        let kernels = Kernels::detect();
        let one_by_one = kernels.combine(dtype, Op::Sum).filter(|_| !load.whole());
        let Some(kernel) = one_by_one else {
            let kernel = kernels.in_order(dtype, Op::Sum);
            let cold = zeros(load, Self::cold(load), frames)?;
            return Ok(Self::Whole { fan_in: usize::from(load.shape.fan_in), kernel, cold, at: 0 });
        };
        Ok(Self::Each { accumulators: zeros(load, load.residence.psns, frames)?, kernel })
    }

    /// Number of packets that makes each of them cold, if those of the pool are; otherwise 0.
    pub(super) fn cold(load: &Load) -> u32 {
        /// More than any cache here.
        const OUT_OF_CACHE: u32 = 64 << 20;
        let waiting = u64::from(load.residence.psns) * u64::from(load.shape.fan_in) / 2;
        let bytes = waiting * u64::from(load.shape.payload);
        let cold = load.whole() && bytes > u64::from(OUT_OF_CACHE);
        if cold { (OUT_OF_CACHE / u32::from(load.shape.payload)).next_power_of_two() } else { 0 }
    }

    /// Adds the payloads of one round, the last of `ready` first; returns nanoseconds. The packets' contents
    /// are undefined afterwards.
    pub(in crate::bench) fn round(&mut self, clock: &Clock, ready: &mut [Mbuf], psns: &[u32]) -> f64 {
        match self {
            Self::Each { accumulators, kernel } => {
                let start = clock.now_ns();
                for (packet, psn) in ready.iter().rev().zip(psns) {
                    // A power of two: the bare add should not pay for a division.
                    let into = *psn as usize & (accumulators.len() - 1);
                    let into = &mut accumulators[into];
                    kernel(&mut into.bytes_mut()[HEADERS..], &packet.bytes()[HEADERS..]);
                }
                nanos(clock.now_ns() - start)
            }
            Self::Whole { fan_in, kernel, cold, at } => {
                let mut others = Vec::with_capacity(*fan_in);
                let ready = if cold.is_empty() {
                    ready
                } else {
                    let first = *at % cold.len();
                    let last = (first + ready.len()).min(cold.len());
                    *at = last;
                    &mut cold[first..last]
                };
                let start = clock.now_ns();
                for group in ready.rchunks_mut(*fan_in) {
                    let Some((first, rest)) = group.split_last_mut() else { break };
                    others.clear();
                    others.extend(rest.iter().rev().map(|packet| &packet.bytes()[HEADERS..]));
                    kernel(&mut first.bytes_mut()[HEADERS..], &others);
                }
                nanos(clock.now_ns() - start)
            }
        }
    }
}

pub(super) fn zeros(load: &Load, count: u32, frames: &Mempool) -> anyhow::Result<Vec<Mbuf>> {
    let mut packets = Vec::new();
    for _ in 0..count {
        let mut packet = frames.alloc().ok_or_else(|| anyhow::anyhow!("no packet buffer"))?;
        anyhow::ensure!(packet.set_len(load.shape.frame_len()), "packet buffers are too small");
        packet.bytes_mut().fill(0);
        packets.push(packet);
    }
    Ok(packets)
}
