//! `pascaline-lab bench`: the cost of the packet path, each figure next to its limit from the same run.

mod distance;
mod fixture;
mod hot;
mod lcores;
mod memif;
mod observed;
mod olaf;
mod policies;
mod pool;
mod report;
mod ring;
mod scrape;
mod security;
mod simulator;
mod source;
mod testpmd;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pascaline_shared::println;
use serde::Serialize;

pub(crate) use source::SourceArgs;

/// Measure the packet path
///
/// Absolute times vary on shared machines, so every figure is printed with its limit from the same run, as a
/// ratio.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The pool: parse, look up, deduplicate, add, emit results; against the bare add of the same payloads
    #[command(after_help = "Examples:
  pascaline-lab bench pool --json
  pascaline-lab bench pool --policy dsa --fan-in 64 --dtype bf16 --order rank
  pascaline-lab bench pool --sweep --only policies,types

A sweep takes minutes and up to 3 GB of memory. --only runs parts of it.")]
    Pool(pool::PoolArgs),
    /// The whole pipeline over net_null (packets hot in cache), net_ring (source on another core) and
    /// net_memif (source in another process), against dpdk-testpmd macswap on the same ports plus the bare
    /// add
    #[command(after_help = "Example:\n  pascaline-lab bench pipeline --json --seconds 3

The ratio is the median over the turns of
  (1000 / testpmd_mpps + bare_add_ns) / (1000 / mpps)
the time that no implementation can save, divided by the time taken. Over net_ring, dpdk-testpmd
can only forward to itself; there the ratio is to macswap_mpps, a loop that sends each packet back to
the same source. testpmd_io_mpps is dpdk-testpmd without reading packets.

--lcores 1,2 compares two lcores with one, with PSNs spread over all slots and with every packet for
one slot, and measures how fast two cores add at once.")]
    Pipeline(PipelineArgs),
    /// OlafQueue: Olaf's Table 1 and Figure 6 in virtual time, next to the paper's figures; and its cost in
    /// nanoseconds, against the bare add of the same payloads
    #[command(after_help = "Examples:
  pascaline-lab bench olaf
  pascaline-lab bench olaf --json --seed 7

Needs no DPDK. Losses and ages are determined by the seed; nanoseconds are not.")]
    Olaf(olaf::OlafArgs),
    /// The pool's policies where 8 jobs of 8 workers contend: completion times, use of the pool, and load of
    /// the parameter server; in virtual time, next to DSA's Figures 8 to 11
    #[command(after_help = "Examples:
  pascaline-lab bench policies
  pascaline-lab bench policies --quick --json
  pascaline-lab bench policies --runs 9 --host-jitter 10

Takes minutes on all cores, --quick seconds. The seed determines everything. The command fails if a
result lacks a contribution or contains one twice, or if the pool does not account for a packet.
docs/policies.md has the results.")]
    Policies(policies::PoliciesArgs),
    /// A scrape of `/metrics` and a sample of the page, with many lcores and jobs that have all counted
    /// something
    #[command(after_help = "Examples:
  pascaline-lab bench scrape
  pascaline-lab bench scrape --lcores 16 --jobs 1024 --json

Needs no DPDK, and nothing else runs meanwhile: measures reading counters, adding up and writing the text.")]
    Scrape(scrape::ScrapeArgs),
    /// A whole appliance at full load, alternately left alone and observed (scrapes, the page, 50 API calls
    /// per second): the effect on packets' service time and on packets/s
    #[command(after_help = "Examples:
  pascaline-lab bench observed
  pascaline-lab bench observed --pairs 20 --json

One lcore takes packets as fast as it can from a net_null port whose receive hook writes them. The
main core runs the control loop, the metrics, the page, the admin API, and the clients. Windows of both
kinds alternate; medians count.")]
    Observed(observed::ObservedArgs),
    /// What security costs: the pool with sealed packets beside plain ones, the ciphers alone, and masks
    #[command(after_help = "Examples:
  pascaline-lab bench security
  pascaline-lab bench security --json

mac_pool and encrypt_pool are the time of a packet of `bench pool` (1 KiB, fan-in 8, second-level cache) with
each contribution opened before and each result sealed once, over that of a plain one, in turns. tag_ns_1k is
the cipher's library alone. masked_ns_per_element is masking and unmasking of f32, at rank 0.")]
    Security(security::SecurityArgs),
    /// The simulator of fabrics: packet events per second of processor time, and memory for pending events,
    /// with 1,024 servers
    #[command(after_help = "Examples:
  pascaline-lab bench sim
  pascaline-lab bench sim --json

Needs no DPDK. An event is a frame that leaves a link, or a timer. `fabric` only has frames that cross links;
`ring` and `trees` are PANAMA's Figure 8, with jobs and other flows.")]
    Sim(simulator::SimArgs),
    /// The traffic source that `bench pipeline` starts as another process
    #[command(hide = true)]
    Source(SourceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    shape: fixture::Shape,
    /// Seconds per measurement
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Measurements of each kind, taken in turns; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=15))]
    repeat: u32,
    /// The core of the lcore that is measured
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// The core of the traffic source and of everything else
    #[arg(long, default_value_t = 0)]
    main_core: usize,
    /// Lcores: 1 compares one with its limit, 1,2 compares two with one; the second runs on the main core
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    lcores: Vec<u8>,
    /// The dpdk-testpmd to compare with
    #[arg(long, default_value = "dpdk-testpmd")]
    testpmd: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Pool(args) => pool::run(args),
        BenchCommand::Pipeline(args) if args.lcores.contains(&2) => lcores::run(args),
        BenchCommand::Pipeline(args) => report::pipeline(args),
        BenchCommand::Olaf(args) => olaf::run(args),
        BenchCommand::Policies(args) => policies::run(args),
        BenchCommand::Scrape(args) => scrape::run(args),
        BenchCommand::Observed(args) => observed::run(args),
        BenchCommand::Security(args) => security::run(args),
        BenchCommand::Sim(args) => simulator::run(args),
        BenchCommand::Source(args) => source::run(args),
    }
}

/// Prints a report: as JSON, or for people.
fn print_report<R: Serialize>(report: &R, json: bool, print: impl FnOnce(&R)) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print(report);
    }
    Ok(ExitCode::SUCCESS)
}
