//! The cost of a packet as jobs, workers and slots grow: the axes, and their fixed parameters.
//!
//! Points of an axis differ in one number only. Rounds have the same number of packets and of open PSNs, so
//! accumulators cover the same memory; each burst has 32 different PSNs; the pools are the same, except along
//! slots. All cases take turns and take packets from the same memory.
//!
//! **Jobs** take turns, a window of 32 PSNs each, as workers send them. A second line has them take turns PSN
//! by PSN: 40 MB of other packets lie between two packets of a rank, so nothing of a job is cached.
//! **Workers** contribute to the same 256 open PSNs, and the device keeps the last 1,024 frames, as devices
//! do: otherwise small jobs would find their headers in the first-level cache and large ones would not.
//! **Slots** each hold a result that makes room for a new PSN; every slot is used once before the first is
//! used again, so no cache has its lines.

use std::hint::black_box;

use fastrand::Rng;
use pascaline_dpdk::Clock;
use pascaline_shared::println;
use serde::Serialize;

use super::nanos;
use super::sweep::{Case, Part};
use super::{Level, Load, Residence, Shape};

/// The limit of "flat": the greatest value, divided by the least.
pub(super) const FLAT: f64 = 1.15;

/// Open PSNs, in every case.
const PSNS: u32 = 256;
const PACKETS: u32 = 2048;
/// PSNs of many jobs hash to any set; with this many slots no set fills up.
const SLOTS: usize = 8192;
/// PSNs that a job's workers send in a row: the window that they are granted.
const WINDOW: u32 = 32;
/// Frames that a device keeps.
const RING: usize = 1024;

/// The memory behind a number of slots.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Memory {
    /// Bytes of the slots' own lines: sets, slots, descriptors of results.
    lines_bytes: usize,
    /// Bytes that pass the caches between two uses of a slot, these lines included.
    between_uses_bytes: usize,
    /// Lines per packet that were not touched for that long.
    lines_per_packet: f64,
    /// Nanoseconds per line in a pointer chase through that much memory.
    miss_ns: f64,
    /// False if the chase ran at memory speed.
    cached: bool,
    /// The limit. In a cache: the cost with the fewest slots, times the limit of "flat". In memory: the cost
    /// with the fewest slots, plus a miss for each line touched.
    at_most_ns: f64,
}

fn load(fan_in: u16, slots: usize) -> Load {
    let residence = Residence { psns: PSNS, slots, packets: PACKETS };
    Load::plain(Shape { fan_in, payload: 1024 }, residence)
}

pub(super) fn jobs() -> Vec<Case> {
    let case = |in_a_row| {
        move |jobs| Case::of(Part::Jobs, Level::LastLevel, Load { jobs, in_a_row, ..load(8, SLOTS) })
    };
    let windows = [1, 16, 256, 4096].into_iter().map(case(WINDOW));
    windows.chain([16, 256, 4096].into_iter().map(case(1))).collect()
}

pub(super) fn workers() -> Vec<Case> {
    let case = |fan_in| {
        // Ranks equally far behind do not follow one another, so that each packet of a burst has another PSN.
        #[expect(clippy::cast_possible_truncation, reason = "256")]
        let stride = (fan_in / PSNS as u16) | 1;
        Case::of(Part::Workers, Level::LastLevel, Load { stride, ring: RING, ..load(fan_in, 512) })
    };
    [2, 8, 64, 256, 1024].into_iter().map(case).collect()
}

pub(super) fn slots() -> Vec<Case> {
    let case = |slots| Case::of(Part::Slots, Level::LastLevel, load(8, slots));
    [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20].into_iter().map(case).collect()
}

/// An axis that should be flat: its name, and nanoseconds per packet of each case.
pub(super) fn flat(cases: &[Case]) -> Vec<(&'static str, Vec<f64>)> {
    let of = |part, wanted: &dyn Fn(&Case) -> bool| -> Vec<f64> {
        let cases = cases.iter().filter(|case| case.part == part && wanted(case));
        cases.map(|case| case.figures.pool_ns).collect()
    };
    vec![
        ("1 to 4,096 jobs, a window each in turn", of(Part::Jobs, &|case| case.in_a_row == WINDOW)),
        ("1 to 4,096 jobs, a PSN each in turn", of(Part::Jobs, &|case| case.in_a_row == 1 || case.jobs == 1)),
        ("2 to 1,024 workers per job", of(Part::Workers, &|_| true)),
    ]
}

/// The cost with each number of slots but the first, divided by its limit.
pub(super) fn of_slots(cases: &[Case]) -> Vec<(String, f64)> {
    let measured = cases.iter().filter_map(|case| Some((case, case.memory?))).skip(1);
    measured
        .map(|(case, memory)| {
            let what =
                if memory.cached { "in a cache, as few slots" } else { "few slots and a miss per line" };
            (
                format!("{} slots: ns per packet / {what}", case.slots),
                case.figures.pool_ns / memory.at_most_ns,
            )
        })
        .collect()
}

/// Measures the memory behind each number of slots.
pub(super) fn measure_memory(cases: &mut [Case], clock: Clock) {
    /// A set's head, a slot, and the two lines of the descriptor of the result that makes room.
    const LINES: usize = 4;
    /// Payload, headers, descriptor.
    const PACKET: usize = 1024 + 64 + 128;
    /// More than any cache: beyond it a chase gets no slower.
    const MOST: usize = 256 << 20;
    let longest = chase(MOST, clock);
    let base = cases.first().map_or(0.0, |case| case.figures.pool_ns);
    for case in cases {
        let (slots, fan_in) = (case.slots, usize::from(case.fan_in));
        // Four ways share a head.
        let lines_bytes = slots * (16 + 64 + 128);
        let between_uses_bytes = lines_bytes + slots * fan_in * PACKET;
        let miss_ns = if between_uses_bytes < MOST { chase(between_uses_bytes, clock) } else { longest };
        let lines_per_packet = nanos(LINES as u64) / nanos(fan_in as u64);
        let cached = miss_ns < longest / 2.0;
        case.memory = Some(Memory {
            lines_bytes,
            between_uses_bytes,
            lines_per_packet,
            miss_ns,
            cached,
            at_most_ns: if cached { FLAT * base } else { base + lines_per_packet * miss_ns },
        });
    }
}

/// A cache line that names the next one.
#[derive(Clone)]
#[repr(align(64))]
struct Link(u32);

/// Nanoseconds per step of a chain that visits all lines of this memory in random order: the cost of a miss
/// without prefetch.
fn chase(bytes: usize, clock: Clock) -> f64 {
    const STEPS: u64 = 1 << 18;
    const TIMES: u32 = 5;
    let count = u32::try_from(bytes / size_of::<Link>()).unwrap_or(u32::MAX);
    let mut links: Vec<Link> = (0..count).map(Link).collect();
    // One cycle through all of them (Sattolo).
    let mut random = Rng::with_seed(1);
    for at in (1..links.len()).rev() {
        links.swap(at, random.usize(..at));
    }
    let mut at = 0;
    let mut walk = |steps: u64| {
        for _ in 0..steps {
            at = links[at as usize].0;
        }
        black_box(at);
    };
    walk(u64::from(count).min(STEPS));
    // The least: disturbance would raise the miss time, and with it the limit.
    let times = (0..TIMES).map(|_| {
        let start = clock.now_ns();
        walk(STEPS);
        clock.now_ns() - start
    });
    nanos(times.min().unwrap_or(0)) / nanos(STEPS)
}

pub(super) fn print(cases: &[Case]) {
    let mut measured = cases.iter().filter_map(|case| Some((case, case.memory?))).peekable();
    if measured.peek().is_some() {
        println!("\n  slots  lines, MB  between uses, MB  lines per packet  ns per line  pool ns  at most");
    }
    for (case, memory) in measured {
        let megabytes = |bytes: usize| nanos(bytes as u64) / f64::from(1 << 20);
        println!(
            "{:7} {:10.1} {:17.0} {:17.2} {:12.1} {:8.1} {:8.1}  {}",
            case.slots,
            megabytes(memory.lines_bytes),
            megabytes(memory.between_uses_bytes),
            memory.lines_per_packet,
            memory.miss_ns,
            case.figures.pool_ns,
            memory.at_most_ns,
            if memory.cached { "in a cache" } else { "in memory" },
        );
    }
}
