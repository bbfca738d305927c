//! How many packet buffers a configuration can need.
//!
//! A slot keeps one packet: the sum so far, or the result. The slots of some partials keep the packet of
//! every contribution until the PSN is complete: those of jobs with `order = "rank"`, and 16-bit floats,
//! which are summed in binary32 and rounded once. Since any job may send 16-bit floats, every job is counted
//! so.

use pascaline_dpdk::mempool::{Demand, HEADROOM, buffers_needed};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_pipelines::updates::INBOX;
use pascaline_pipelines::{AHEAD, BURST, STAGE};

use super::lane::{self, Lane};
use super::{Config, ConfigError, PortConfig};

/// Packets that an lcore keeps for itself, so that it need not go to the shared ring for each.
pub(crate) const CACHE: u16 = 512;
/// Packets that may wait for the parameter server in the appliance itself, and as many from it.
pub(crate) const SERVER_QUEUE: usize = 2048;
/// What a packet buffer takes beside its room and headroom: the pool's and DPDK's own headers and a private
/// line.
const OVERHEAD: usize = 64 + 128 + 64;
/// VLAN tags that may come on top of an Ethernet header.
const ETHERNET: u16 = 14 + 2 * 4;

/// The packet buffers of an appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketBuffers {
    /// Buffers for whole frames: for the ports' rings, for lcores at work, and for what slots keep.
    pub(crate) frames: usize,
    /// Room in each, in bytes.
    pub(crate) frame_room: u16,
    /// Buffers of [`HEADER_ROOM`] bytes, which results are sent with.
    pub(crate) headers: usize,
}

impl PacketBuffers {
    /// Bytes that they take at least.
    pub(crate) fn least_bytes(&self) -> usize {
        let buffer = |room: usize| room + usize::from(HEADROOM) + OVERHEAD;
        let frames = self.frames.saturating_mul(buffer(usize::from(self.frame_room)));
        frames.saturating_add(self.headers.saturating_mul(buffer(HEADER_ROOM)))
    }
}

impl Config {
    /// Packets that the slots of the pool keep at most: one each, and for as many partials as each job may
    /// hold at the same time, one for every further rank. A job holds what its quota allows; without one,
    /// what ranks that keep to their window can open.
    pub(crate) fn kept_packets(&self) -> usize {
        let ways = self.pool.ways;
        // Those of jobs that send updates keep nothing: the queues do.
        let jobs = || self.jobs.iter().filter(|job| !job.updates());
        let regions = jobs().filter_map(|job| {
            let slots = job.spec.kind.place()?.sets as usize * ways;
            Some(partials(job.policy().quota, job.spec.window, slots) * usize::from(job.spec.fan_in - 1))
        });
        let shared_slots = self.shared_sets as usize * ways;
        let shared = jobs().filter(|job| job.spec.kind.place().is_none());
        let mut shared: Vec<(u16, usize)> = shared
            .map(|job| (job.spec.fan_in, partials(job.policy().quota, job.spec.window, shared_slots)))
            .collect();
        if let Some(admission) = &self.admission {
            let JobSpec { kind, window, .. } = admission.like;
            let each = partials(kind.policy(window).quota, window, shared_slots);
            shared.push((admission.max_fan_in, each.saturating_mul(admission.max_jobs)));
        }
        // They share the slots: the worst that can happen is that those with the most ranks have them.
        shared.sort_unstable_by_key(|&(fan_in, _)| core::cmp::Reverse(fan_in));
        let mut left = shared_slots;
        let shared = shared.into_iter().map(|(fan_in, partials)| {
            let held = partials.min(left);
            left -= held;
            held * usize::from(fan_in - 1)
        });
        self.pool.slots + regions.sum::<usize>() + shared.sum::<usize>()
    }

    /// The packet buffers that this configuration needs.
    pub(crate) fn packet_buffers(&self) -> PacketBuffers {
        let most = |descriptors: fn(&PortConfig) -> u16| {
            usize::from(self.ports.iter().map(descriptors).max().unwrap_or(0))
        };
        let lcores = self.cores.value.len();
        let stages = STAGE * lcores * self.ports.len();
        let in_line = || self.ports.iter().filter(|port| port.in_line());
        let passing = lcores * in_line().map(|port| STAGE + self.lane_packets(port)).sum::<usize>();
        // With one port in line, an lcore looks ahead at all.
        let ahead = in_line().next().map_or(0, |_| AHEAD * lcores * self.ports.len());
        // What a bridge sends to several ports has a header for each.
        let bridged = in_line().filter(|port| port.peer.is_none());
        let flooded = lcores * bridged.map(|port| STAGE + self.lane_packets(port)).sum::<usize>();
        // What an lcore has at hand to send results with, of either kind: packets that have been added, or
        // header buffers.
        let spare = BURST * lcores;
        let demand = Demand {
            ports: self.ports.len(),
            queues: lcores,
            rx_desc: most(|port| port.rx_descriptors),
            tx_desc: most(|port| port.tx_descriptors),
            lcores: lcores + 1,
            burst: BURST,
            cache: usize::from(CACHE),
            slots: self.kept_packets()
                + self.spare_packets
                + stages
                + passing
                + ahead
                + spare
                + self.server_queues()
                + self.update_queues(),
        };
        PacketBuffers {
            frames: buffers_needed(&demand),
            frame_room: room(self.ports.iter().map(|port| port.mtu).max().unwrap_or(0)),
            headers: buffers_needed(&Demand { rx_desc: 0, slots: stages + flooded + spare, ..demand }),
        }
    }

    /// Packets in the rings of one lcore's queues for what passes through a port, beyond the others.
    fn lane_packets(&self, port: &PortConfig) -> usize {
        let (receive, transmit) = (usize::from(port.rx_descriptors), usize::from(port.tx_descriptors));
        match lane::expected(self, port) {
            Lane::Shared => 0,
            Lane::Transmit => transmit,
            Lane::Pair => receive + transmit,
        }
    }

    /// True if there is a parameter server in the appliance itself.
    pub(crate) fn embeds_server(&self) -> bool {
        let admitted = self.admission.as_ref().map(|admission| &admission.like);
        let mut specs = self.jobs.iter().map(|job| &job.spec).chain(admitted);
        specs.any(|spec| spec.kind.server() == ServerMode::Embedded)
    }

    /// Packets that wait for the parameter server, and from it, at most.
    fn server_queues(&self) -> usize {
        if self.embeds_server() { 2 * SERVER_QUEUE } else { 0 }
    }

    /// Updates that wait in front of ports, and for the lcores that own their queues, at most.
    fn update_queues(&self) -> usize {
        let queues = self.port_queues().unwrap_or_default();
        queues.iter().map(|port| usize::from(port.queue.segments) + INBOX).sum()
    }

    /// Refuses what cannot fit into `memory_mb`, whatever else DPDK needs.
    pub(super) fn check_memory(&self) -> Result<(), ConfigError> {
        let needed = self.packet_buffers();
        let least_mb = needed.least_bytes().div_ceil(1 << 20);
        if least_mb <= self.memory_mb.value as usize {
            return Ok(());
        }
        let message = format!(
            "the configuration needs {} packet buffers of {} bytes for rings, slots and lcores, at least \
                {least_mb} MB: slots may keep {} packets",
            needed.frames,
            needed.frame_room,
            self.kept_packets()
        );
        Err(self.error(
            &self.memory_mb,
            message,
            "raise memory_mb, or use fewer slots, descriptors or ports, or jobs of smaller window, quota \
                or fan_in",
        ))
    }
}

/// Partials that a job holds at the same time.
fn partials(quota: u32, window: u16, slots: usize) -> usize {
    let bound = if quota == 0 { usize::from(window) } else { quota as usize };
    bound.min(slots)
}

/// Room for a whole frame. At least DPDK's usual 2 KiB, and mostly a power of two, since drivers that copy
/// from a ring of the kernel's demand room for a whole slot of that ring, whatever the MTU, less its header.
/// 16 bytes less than 16 KiB: vmxnet3 says in 14 bits how long a buffer is, and receives nothing into one of
/// 16,384 bytes.
fn room(mtu: u16) -> u16 {
    const FOURTEEN_BITS: u16 = (1 << 14) - 16;
    let least = mtu.saturating_add(ETHERNET);
    match least.checked_next_power_of_two() {
        Some(power) if power == 1 << 14 && least <= FOURTEEN_BITS => FOURTEEN_BITS,
        Some(power) => power.max(2048),
        None => u16::MAX / 64 * 64,
    }
}
