//! `bench pool`: the packet path between reception and transmission, against the bare add.
//!
//! Measured, per turn of a full burst: from packets in memory to result frames handed to a port. That is
//! parse, classify, look up, deduplicate, add, recycle packets, and for each result one header buffer per
//! member, filled in and chained to the payload. Not measured: the clock, and the driver's part, which
//! delivers packets and frees sent ones; `bench pipeline` includes it.

mod bare;
mod bed;
mod least;
mod scale;
mod sweep;

use anyhow::ensure;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use pascaline_aggregator::Order;
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::{Clock, Eal, Mempool};
use pascaline_shared::println;
use pascaline_wire::{DType, Element};
use serde::Serialize;

use super::fixture::{self, Level, Load, PolicyName, Residence, Shape, payload};
pub(super) use bare::BareAdd;
pub(super) use bed::prepare;
use bed::{Figures, bed};

#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    /// Contributions per result
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    fan_in: u16,
    /// Payload bytes per packet
    #[arg(long, default_value_t = 1024, value_parser = payload)]
    payload: u16,
    /// How the job uses the pool: a profile or conflict policy of the configuration [default: first come,
    /// first served in the shared part, no parameter server]
    #[arg(long)]
    policy: Option<PolicyName>,
    /// Type of the elements
    #[arg(long, default_value_t = DType::F32, value_parser = dtypes())]
    dtype: DType,
    /// Order in which contributions are added
    #[arg(long, default_value = "arrival")]
    order: OrderName,
    /// Slots of the pool, with half as many PSNs in flight; replaces the pools in the second-level and the
    /// last-level cache
    #[arg(long, value_parser = slots)]
    slots: Option<u32>,
    /// Jobs; PSNs are dealt out to them in turn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: u16,
    /// Measure each policy and each axis (fan-in, payload, type, order, jobs, workers per job, slots), and
    /// check the requirements; compared cases take turns
    #[arg(long, conflicts_with_all = ["fan_in", "payload", "policy", "dtype", "order", "slots", "jobs"])]
    sweep: bool,
    /// With --sweep: run only these parts of it
    #[arg(long, value_name = "PART", requires = "sweep", value_delimiter = ',')]
    only: Vec<sweep::Part>,
    /// Rounds of 256 packets, or fewer of more; the median round counts
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    rounds: u32,
    /// Also measure the loads, adds and stores that no pool can leave out
    #[arg(long, conflicts_with = "sweep")]
    least: bool,
    /// The core to run on
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Element types by their names.
fn dtypes() -> impl TypedValueParser<Value = DType> {
    let known = |name: String| DType::from_name(&name).ok_or("no such type");
    PossibleValuesParser::new(DType::ALL.map(DType::name)).try_map(known)
}

/// Orders by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OrderName {
    /// In order of arrival
    Arrival,
    /// By rank, once all have arrived
    Rank,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Arrival => Self::Arrival,
            OrderName::Rank => Self::Rank,
        }
    }
}

fn slots(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(slots @ 8..=1_048_576) if slots.is_power_of_two() => Ok(slots),
        _ => Err("a power of two from 8 to 1048576".to_owned()),
    }
}

/// The figures in the second-level cache and in the last-level cache; with a number of slots, those of that
/// pool only.
#[derive(Debug, Clone, Copy, Serialize)]
struct PoolReport {
    #[serde(flatten)]
    first: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_level: Option<Figures>,
    fan_in: u16,
    payload: u16,
    kernels: &'static str,
    #[serde(flatten)]
    more: Option<More>,
}

/// Settings that differ from the defaults.
#[derive(Debug, Clone, Copy, Serialize)]
struct More {
    policy: Option<PolicyName>,
    dtype: &'static str,
    order: OrderName,
    slots: Option<u32>,
    jobs: u16,
}

impl PoolArgs {
    /// Whole elements.
    fn shape(&self) -> Shape {
        let payload = self.dtype.whole(self.payload.into());
        Shape { fan_in: self.fan_in, payload: u16::try_from(payload).unwrap_or(self.payload) }
    }
}

pub(super) fn run(args: &PoolArgs) -> anyhow::Result<ExitCode> {
    if args.sweep {
        return sweep::run(args);
    }
    let early = args.policy.is_some_and(PolicyName::is_early);
    ensure!(
        !early || args.order == OrderName::Arrival,
        "results that may lack ranks are added in the order of arrival: leave --order out, or choose another \
            --policy"
    );
    let shape = args.shape();
    let load = |residence| {
        let load = Load::plain(shape, residence).with_order(args.order.into());
        let load = Load { element: Element::sum(args.dtype), jobs: args.jobs, least: args.least, ..load };
        args.policy.map_or(load, |name| load.with_policy(name))
    };
    let loads = match args.slots {
        None => vec![load(Level::L2.residence(&shape)), load(Level::LastLevel.residence(&shape))],
        Some(slots) => {
            let packets = Level::LastLevel.residence(&shape).packets;
            vec![load(Residence { psns: slots / 2, slots: slots as usize, packets })]
        }
    };
    let memory = fixture::MEMORY_MB.max(megabytes(&loads));
    let eal = fixture::eal_with("bench-pool", args.core, Vec::new(), memory)?;
    let pools = pools(&eal, &loads, "")?;
    let clock = fixture::clock(&eal);
    let mut figures = Vec::new();
    for load in &loads {
        figures.extend(measure(&[*load], args.rounds, &pools, clock)?);
    }
    let (first, last_level) = (figures[0].0, figures.get(1).map(|&(figures, _)| figures));
    let PoolArgs { policy, dtype, order, slots, jobs, .. } = *args;
    let more = More { policy, dtype: dtype.name(), order, slots, jobs };
    let plain = policy.is_none() && dtype == DType::F32 && order == OrderName::Arrival;
    let report = PoolReport {
        first,
        last_level,
        fan_in: shape.fan_in,
        payload: shape.payload,
        kernels: Kernels::detect().isa,
        more: (!plain || slots.is_some() || jobs > 1).then_some(more),
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.print(args.slots);
    }
    Ok(ExitCode::SUCCESS)
}

impl PoolReport {
    fn print(&self, slots: Option<u32>) {
        println!(
            "{} B payload, fan-in {}, {} kernel; ns per packet",
            self.payload, self.fan_in, self.kernels
        );
        let of_slots = slots.map(|slots| format!("{slots} slots"));
        let first = of_slots.unwrap_or_else(|| "second-level cache".to_owned());
        for (place, figures) in [(first.as_str(), Some(self.first)), ("last-level cache", self.last_level)] {
            if let Some(figures) = figures {
                let least = figures.least_ns.map(|least| format!("   least {least:6.1}"));
                println!(
                    "{place:20} bare add {:6.1}{}   pool {:6.1}   ratio {:.2}   \
                     {:.0} Gbit/s of payload per core",
                    figures.bare_add_ns,
                    least.unwrap_or_default(),
                    figures.pool_ns,
                    figures.ratio,
                    figures.gbps_per_core
                );
            }
        }
    }
}

/// Measures loads in turns. Returns each one's figures, and the share of its packets that the pool took.
///
/// A turn has several rounds; the first ones flush what another load left in the caches.
pub(super) fn measure(
    loads: &[Load],
    rounds: u32,
    pools: &(Mempool, Mempool),
    clock: Clock,
) -> anyhow::Result<Vec<(Figures, f64)>> {
    const TURN: u32 = 16;
    const SETTLE: u32 = 2;
    let mut beds = Vec::new();
    for load in loads {
        let mut bed = bed(load, pools, clock)?;
        for _ in 0..bed.warm_up() {
            bed.round(false)?;
        }
        beds.push((bed, self::rounds(load, rounds)));
    }
    while beds.iter().any(|&(_, left)| left > 0) {
        for (bed, left) in &mut beds {
            let turn = TURN.min(*left);
            *left -= turn;
            for round in 0..if turn > 0 { SETTLE + turn } else { 0 } {
                bed.round(round >= SETTLE)?;
            }
        }
    }
    beds.iter_mut().map(|(bed, _)| Ok((bed.figures()?, bed.absorbed()))).collect()
}

/// Rounds of this load that have as many packets as `rounds` of 256.
fn rounds(load: &Load, rounds: u32) -> u32 {
    (u64::from(rounds) * 256 / u64::from(load.residence.packets)).try_into().unwrap_or(u32::MAX).max(10)
}

/// Packet buffers that all loads need at once.
fn packets(loads: &[Load]) -> u32 {
    let each = |load: &Load| {
        let Residence { psns, slots, .. } = load.residence;
        let (psns, fan_in) = (u64::from(psns), u64::from(load.shape.fan_in));
        // On average, half of the contributions of open PSNs have arrived.
        let inside = if load.whole() { psns * (fan_in / 2 + 2) } else { 2 * psns };
        inside + slots as u64 + u64::from(BareAdd::cold(load))
    };
    let held: u64 = loads.iter().map(each).sum();
    let round = loads.iter().map(|load| load.residence.packets).max().unwrap_or(0);
    u32::try_from(held + u64::from(round)).unwrap_or(u32::MAX).saturating_add(4096)
}

/// Room for the longest frame of the loads.
fn room(loads: &[Load]) -> u16 {
    let longest = loads.iter().map(|load| load.shape.frame_len()).max().unwrap_or(0);
    // 2 KiB as in an appliance; just enough where there are many packets.
    let least = if packets(loads) > fixture::BUFFERS { 0 } else { 2048 };
    let frame = longest.next_multiple_of(64) + 64;
    u16::try_from(frame).unwrap_or(u16::MAX).max(least)
}

/// Memory for the packets of the loads.
pub(super) fn megabytes(loads: &[Load]) -> u32 {
    /// Descriptor, private area, headroom, and DPDK's bookkeeping.
    const OVERHEAD: u64 = 128 + 64 + 128 + 192;
    let bytes = u64::from(packets(loads).max(fixture::BUFFERS)) * (u64::from(room(loads)) + OVERHEAD);
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(64)
}

pub(super) fn pools(eal: &Eal, loads: &[Load], name: &str) -> anyhow::Result<(Mempool, Mempool)> {
    fixture::pools_of(eal, name, packets(loads).max(fixture::BUFFERS), room(loads))
}

#[allow(clippy::cast_precision_loss, reason = "short times")]
pub(super) fn nanos(nanos: u64) -> f64 {
    nanos as f64
}
