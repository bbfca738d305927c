//! What a packet costs as jobs, workers and slots become more: what is varied, and what is kept as it is.
//!
//! Between the points of an axis only that one number differs. Rounds have as many packets, as many PSNs are
//! under way, so that accumulators take as much memory, a burst has 32 different PSNs everywhere, and pools
//! are the same (but for the axis of slots); all take turns, and have their packets from the same memory.
//!
//! **Jobs** take turns, a window of 32 PSNs each, as workers send them. A second line has them take turns PSN
//! by PSN, so that nothing of a job is at hand when its next packet comes: between two packets of a rank lie
//! 40 MB of other packets. **Workers** send the same 256 PSNs under way, and the device keeps the last 1,024
//! frames that it was given, as devices do: else the fan-out of small jobs would find its headers in the
//! first-level cache, and that of large ones would not. **Slots** hold a result each, which has to make room
//! for a new PSN after as many others as there are slots: what is touched then has been in no cache since.

use std::hint::black_box;

use pascaline_dpdk::Clock;
use serde::Serialize;

use super::nanos;
use super::sweep::{Case, Part};
use super::{Load, Place, Residence, Shape};

/// What "flat" allows: most by least.
pub(super) const FLAT: f64 = 1.15;

/// Of every case.
const PSNS: u32 = 256;
const PACKETS: u32 = 2048;
/// PSNs of many jobs lie where they happen to; so many slots that no set is ever full of partials.
const SLOTS: usize = 8192;
/// PSNs that a job's workers send in a row: the window that they are granted.
const WINDOW: u32 = 32;
/// Frames that a device has.
const RING: usize = 1024;

/// The memory behind a number of slots.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Memory {
    /// Bytes of the lines that belong to the slots: sets, slots, descriptors of results.
    lines_bytes: usize,
    /// Bytes that go through the caches between two uses of a slot, these lines included.
    between_uses_bytes: usize,
    /// Lines per packet that nobody has touched for so long.
    lines_per_packet: f64,
    /// Nanoseconds that a line takes after so many bytes, by a chase of pointers through as much memory.
    miss_ns: f64,
    /// False if that is what memory takes.
    cached: bool,
    /// What a packet may cost: in a cache, as much as with the fewest slots and what flat allows; in memory,
    /// as much as with the fewest slots and a miss for each line touched.
    at_most_ns: f64,
}

fn load(fan_in: u16, slots: usize) -> Load {
    let residence = Residence { psns: PSNS, slots, packets: PACKETS };
    Load::plain(Shape { fan_in, payload: 1024 }, residence)
}

pub(super) fn jobs() -> Vec<Case> {
    let case = |in_a_row| {
        move |jobs| Case::of(Part::Jobs, Place::LastLevel, Load { jobs, in_a_row, ..load(8, SLOTS) })
    };
    let windows = [1, 16, 256, 4096].into_iter().map(case(WINDOW));
    windows.chain([16, 256, 4096].into_iter().map(case(1))).collect()
}

pub(super) fn workers() -> Vec<Case> {
    let case = |fan_in| {
        // Ranks that are as far behind do not follow one another, so that each packet of a burst is of
        // another PSN.
        #[expect(clippy::cast_possible_truncation, reason = "256")]
        let stride = (fan_in / PSNS as u16) | 1;
        Case::of(Part::Workers, Place::LastLevel, Load { stride, ring: RING, ..load(fan_in, 512) })
    };
    [2, 8, 64, 256, 1024].into_iter().map(case).collect()
}

pub(super) fn slots() -> Vec<Case> {
    let case = |slots| Case::of(Part::Slots, Place::LastLevel, load(8, slots));
    [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20].into_iter().map(case).collect()
}

/// What should be flat: what it is, and nanoseconds per packet.
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

/// What each number of slots but the first costs, by what it may cost.
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

/// Says of each number of slots what memory is behind it, and measures that memory.
pub(super) fn measure_memory(cases: &mut [Case], clock: Clock) {
    /// A set's head, a slot, and the two lines of the descriptor of the result that makes room.
    const LINES: usize = 4;
    /// Payload, headers, descriptor.
    const PACKET: usize = 1024 + 64 + 128;
    /// More than any cache: what comes after so much takes no longer after more.
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

/// Nanoseconds from one line to the next, in a chain that visits all lines of so much memory in no order:
/// what one costs that nobody asked for ahead of time.
fn chase(bytes: usize, clock: Clock) -> f64 {
    const STEPS: u64 = 1 << 18;
    const TIMES: u32 = 5;
    let count = u32::try_from(bytes / size_of::<Link>()).unwrap_or(u32::MAX);
    let mut links: Vec<Link> = (0..count).map(Link).collect();
    // One cycle through all of them (Sattolo).
    let mut state = 1u64;
    for at in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = ((u64::from(at) * (state >> 32)) >> 32) as u32;
        links.swap(at as usize, other as usize);
    }
    let mut at = 0;
    let mut walk = |steps: u64| {
        for _ in 0..steps {
            at = links[at as usize].0;
        }
        black_box(at);
    };
    walk(u64::from(count).min(STEPS));
    // The least: what others do on the machine makes a miss dearer, and more would be allowed for it.
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
