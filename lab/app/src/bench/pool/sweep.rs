//! `bench pool --sweep`: the pool along each axis, and the requirements there.

use std::process::ExitCode;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_buffer::combine::Kernels;
use pascaline_shared::println;
use pascaline_wire::{DType, Element};
use serde::Serialize;

use super::scale::{self, Memory};
use super::{Figures, Level, Load, OrderName, PolicyName, PoolArgs, Shape};
use crate::bench::fixture;

/// The varied parameter; the rest stays at f32, payloads of 1 KiB, 8 ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// The policy, without conflicts
    Policies,
    /// The policy, with half as many slots as PSNs in flight
    Contention,
    /// Contributions per result
    FanIn,
    /// Bytes per packet
    Payload,
    /// The type of the elements, and the order in which they are added
    Types,
    /// Jobs
    Jobs,
    /// Workers per job
    Workers,
    /// Slots
    Slots,
}

/// One case with its figures.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    pub(super) part: Part,
    pub(super) pool_in: Level,
    policy: Option<PolicyName>,
    dtype: &'static str,
    order: OrderName,
    pub(super) fan_in: u16,
    pub(super) payload: u16,
    pub(super) jobs: u16,
    /// PSNs that a job sends in a row.
    pub(super) in_a_row: u32,
    pub(super) slots: usize,
    /// The memory behind the pool, where slots are varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Millions of elements per second at that speed.
    melements_per_s: f64,
    /// Share of the packets that the pool took; the others went to the parameter server.
    absorbed: f64,
    #[serde(skip)]
    pub(super) load: Load,
}

/// A requirement, and whether it holds.
#[derive(Debug, Serialize)]
struct Check {
    what: String,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    kernels: &'static str,
    rounds: u32,
    cases: Vec<Case>,
    checks: Vec<Check>,
}

pub(super) fn run(args: &PoolArgs) -> anyhow::Result<ExitCode> {
    let wanted = |part: &&Part| args.only.is_empty() || args.only.contains(part);
    let groups: Vec<Vec<Case>> = Part::value_variants().iter().filter(wanted).flat_map(groups).collect();
    let loads = |group: &[Case]| group.iter().map(|case| case.load).collect::<Vec<_>>();
    // Each pool follows another, and free memory may be in pieces.
    let memory = groups.iter().map(|group| super::megabytes(&loads(group))).max().unwrap_or(0);
    let eal = fixture::eal_with("bench-pool", args.core, Vec::new(), memory * 5 / 4)?;
    let clock = fixture::clock(&eal);
    let bar = ProgressBar::new(groups.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    let mut cases = Vec::new();
    for (number, mut group) in groups.into_iter().enumerate() {
        bar.set_message(format!("{:?}", group[0].part));
        bar.tick();
        let loads = loads(&group);
        let pools = super::pools(&eal, &loads, &number.to_string())?;
        let outcome = super::measure(&loads, args.rounds, &pools, clock)?;
        for (case, (figures, absorbed)) in group.iter_mut().zip(outcome) {
            let size = f64::from(u32::try_from(case.load.element.dtype.size())?);
            case.figures = figures;
            case.melements_per_s = f64::from(case.payload) / size / figures.pool_ns * 1e3;
            case.absorbed = absorbed;
        }
        if group.iter().any(|case| case.part == Part::Slots) {
            scale::measure_memory(&mut group, clock);
        }
        cases.extend(group);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let checks = checks(&cases);
    let report = Report { kernels: Kernels::detect().isa, rounds: args.rounds, cases, checks };
    crate::bench::print_report(&report, args.json, print)
}

fn print(report: &Report) {
    println!(
        "part        pool in     policy    dtype order    fan-in payload  jobs in a row   slots  \
         bare add  pool ns  ratio  Gbit/s  Melem/s  absorbed"
    );
    for case in &report.cases {
        let Figures { bare_add_ns, pool_ns, ratio, gbps_per_core, .. } = case.figures;
        println!(
            "{:11} {:11} {:9} {:5} {:8} {:6} {:7} {:5} {:8} {:7}  \
             {bare_add_ns:8.1} {pool_ns:8.1} {ratio:6.2} {gbps_per_core:7.0} {:8.0}  {:.2}",
            word(case.part),
            word(case.pool_in),
            case.policy.map_or("-".to_owned(), word),
            case.dtype,
            word(case.order),
            case.fan_in,
            case.payload,
            case.jobs,
            case.in_a_row,
            case.slots,
            case.melements_per_s,
            case.absorbed,
        );
    }
    scale::print(&report.cases);
    println!();
    for Check { what, value, at_most, at_least, holds } in &report.checks {
        let limit = match (at_most, at_least) {
            (Some(limit), _) => format!("at most {limit:.2}"),
            (_, Some(limit)) => format!("at least {limit:.2}"),
            _ => String::new(),
        };
        println!("{} {what}: {value:.2}, {limit}", if *holds { "holds" } else { "FAILS" });
    }
}

/// The value's name on the command line.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The cases of a part, in groups that are compared and take turns.
fn groups(part: &Part) -> Vec<Vec<Case>> {
    let places = |cases: &dyn Fn(Level) -> Vec<Case>| Level::ALL.iter().map(|&place| cases(place)).collect();
    let base = |place| Case::new(*part, place, 8, 1024);
    match part {
        Part::Policies => places(&|place| {
            let named = PolicyName::value_variants().iter().map(|&name| base(place).with_policy(name));
            std::iter::once(base(place)).chain(named).collect()
        }),
        Part::Contention => {
            let shared = PolicyName::value_variants().iter().filter(|name| name.is_shared());
            let contended = |&name| {
                let case = base(Level::L2).with_policy(name);
                let load = case.load.contended();
                Case { slots: load.residence.slots, load, ..case }
            };
            vec![shared.map(contended).collect()]
        }
        Part::FanIn => places(&|place| {
            [2, 8, 64, 512].into_iter().map(|fan_in| Case::new(*part, place, fan_in, 1024)).collect()
        }),
        Part::Payload => places(&|place| {
            [256, 1024, 8192].into_iter().map(|payload| Case::new(*part, place, 8, payload)).collect()
        }),
        Part::Types => places(&|place| {
            let types = [DType::F32, DType::I32, DType::F16, DType::Bf16];
            let orders = [OrderName::Arrival, OrderName::Rank];
            let case = |dtype| orders.map(|order| base(place).with_elements(dtype, order));
            types.into_iter().flat_map(case).collect()
        }),
        Part::Jobs => vec![scale::jobs()],
        Part::Workers => vec![scale::workers()],
        Part::Slots => vec![scale::slots()],
    }
}

impl Case {
    fn new(part: Part, pool_in: Level, fan_in: u16, payload: u16) -> Self {
        let shape = Shape { fan_in, payload };
        Self::of(part, pool_in, Load::plain(shape, pool_in.residence(&shape)))
    }

    pub(super) fn of(part: Part, pool_in: Level, load: Load) -> Self {
        Self {
            part,
            pool_in,
            policy: None,
            dtype: DType::F32.name(),
            order: OrderName::Arrival,
            fan_in: load.shape.fan_in,
            payload: load.shape.payload,
            jobs: load.jobs,
            in_a_row: load.in_a_row,
            slots: load.residence.slots,
            memory: None,
            figures: Figures {
                bare_add_ns: 0.0,
                least_ns: None,
                pool_ns: 0.0,
                ratio: 0.0,
                gbps_per_core: 0.0,
            },
            melements_per_s: 0.0,
            absorbed: 0.0,
            load,
        }
    }

    fn with_policy(self, name: PolicyName) -> Self {
        Self { policy: Some(name), load: self.load.with_policy(name), ..self }
    }

    fn with_elements(self, dtype: DType, order: OrderName) -> Self {
        let load = Load { element: Element::sum(dtype), ..self.load.with_order(order.into()) };
        Self { dtype: dtype.name(), order, load, ..self }
    }
}

/// The requirements whose cases were measured.
fn checks(cases: &[Case]) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut at_most = |what: String, value: Option<f64>, limit: f64| {
        if let Some(value) = value {
            checks.push(Check { what, value, at_most: Some(limit), at_least: None, holds: value <= limit });
        }
    };
    let of =
        |part, place| cases.iter().filter(move |case: &&Case| (case.part, case.pool_in) == (part, place));
    for (part, place) in [
        (Part::Policies, Level::L2),
        (Part::Policies, Level::LastLevel),
        (Part::Policies, Level::Dram),
        (Part::Contention, Level::L2),
    ] {
        // The bare add is the same for all, so only the pool's time matters.
        let spread = spread(of(part, place).map(|case| case.figures.pool_ns));
        at_most(format!("{}, {}: most ns per packet / least", word(part), word(place)), spread, 1.15);
    }
    for place in [Level::L2, Level::LastLevel] {
        for (payload, limit) in [(1024, 2.0), (8192, 1.2)] {
            let case = of(Part::Payload, place).find(|case| case.payload == payload);
            let ratio = case.map(|case| case.figures.ratio);
            at_most(format!("payload {payload}, {}: pool / bare add", word(place)), ratio, limit);
        }
    }
    for place in Level::ALL {
        let found = |dtype: DType, order| {
            of(Part::Types, place).find(move |case| (case.dtype, case.order) == (dtype.name(), order))
        };
        let f32 = found(DType::F32, OrderName::Arrival);
        let rank = found(DType::F32, OrderName::Rank);
        let costs = f32.zip(rank).map(|(arrival, rank)| rank.figures.pool_ns / arrival.figures.pool_ns);
        at_most(format!("order rank / arrival, f32, {}", word(place)), costs, 1.5);
    }
    for (what, values) in scale::flat(cases) {
        at_most(format!("{what}: most ns per packet / least"), spread(values.into_iter()), scale::FLAT);
    }
    for (what, value) in scale::of_slots(cases) {
        at_most(what, Some(value), 1.0);
    }
    for place in Level::ALL {
        let rate = |dtype: DType| {
            of(Part::Types, place)
                .find(|case| (case.dtype, case.order) == (dtype.name(), OrderName::Arrival))
                .map(|case| case.melements_per_s)
        };
        for sixteen in DType::ALL.into_iter().filter(|dtype| dtype.size() == 2) {
            if let Some((f32, rate)) = rate(DType::F32).zip(rate(sixteen)) {
                let (what, value) = (format!("elements/s {sixteen} / f32, {}", word(place)), rate / f32);
                checks.push(Check { what, value, at_most: None, at_least: Some(1.6), holds: value >= 1.6 });
            }
        }
    }
    checks
}

/// The greatest of the values, divided by the least.
fn spread(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let least = values.clone().min_by(f64::total_cmp)?;
    Some(values.max_by(f64::total_cmp)? / least)
}
