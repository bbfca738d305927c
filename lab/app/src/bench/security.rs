//! `bench security`: what sealed packets and masked sums cost.
//!
//! The pool with seals, as an appliance has them: each contribution is opened where it lies before it is
//! parsed, each result is sealed once. What changes lengths in IP and UDP, finds a session and counts is not
//! measured. All of a table take turns, and medians count.

mod ciphers;
mod masked;

use std::process::ExitCode;

use clap::Args;
use pascaline_seal::Protection;
use pascaline_shared::println;
use serde::Serialize;

use super::fixture::{self, L2, Load, Shape};
use super::pool;

#[derive(Debug, Args)]
pub(crate) struct SecurityArgs {
    /// Rounds of 256 packets of the pool; the median round counts
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    rounds: u32,
    /// Turns of each cipher and each length; the median turn counts
    #[arg(long, default_value_t = 301, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    turns: u32,
    /// The core to run on
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Nanoseconds per packet of the pool.
#[derive(Debug, Clone, Copy, Serialize)]
struct PoolNanos {
    plain: f64,
    mac: f64,
    encrypt: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The pool's time of a packet with seals over that of a plain one.
    mac_pool: f64,
    encrypt_pool: f64,
    /// The cipher's library alone, over a header and 1 KiB.
    tag_ns_1k: f64,
    masked_ns_per_element: f64,
    /// Sealing and opening with a tag over twice the library's time for a tag.
    seal_and_open_over_tags: f64,
    pool_ns: PoolNanos,
    #[serde(flatten)]
    ciphers: ciphers::Report,
}

/// Measures.
pub(super) fn run(args: &SecurityArgs) -> anyhow::Result<ExitCode> {
    let pool_ns = pools(args)?;
    let ciphers = ciphers::measure(args.turns)?;
    let tag_ns_1k = ciphers.tag_ns(ciphers::KIBIBYTE);
    let report = Report {
        mac_pool: pool_ns.mac / pool_ns.plain,
        encrypt_pool: pool_ns.encrypt / pool_ns.plain,
        tag_ns_1k,
        masked_ns_per_element: masked::measure()?,
        seal_and_open_over_tags: ciphers.seal_and_open_ns(ciphers::KIBIBYTE) / (2.0 * tag_ns_1k),
        pool_ns,
        ciphers,
    };
    super::print_report(&report, args.json, Report::print)
}

/// The pool without seals, with tags, and with encrypted payloads, in turns.
fn pools(args: &SecurityArgs) -> anyhow::Result<PoolNanos> {
    let plain = Load::plain(Shape { fan_in: 8, payload: 1024 }, L2);
    let sealed = |protection| Load { sealed: Some(protection), ..plain };
    let loads = [plain, sealed(Protection::Mac), sealed(Protection::Encrypt)];
    let memory = fixture::MEMORY_MB.max(pool::megabytes(&loads));
    let eal = fixture::eal_with("bench-security", args.core, Vec::new(), memory)?;
    let packets = pool::pools(&eal, &loads, "")?;
    let figures = pool::measure(&loads, args.rounds, &packets, fixture::clock(&eal))?;
    let [plain, mac, encrypt] = [0, 1, 2].map(|at| figures.get(at).map_or(0.0, |(seen, _)| seen.pool_ns));
    Ok(PoolNanos { plain, mac, encrypt })
}

impl Report {
    fn print(&self) {
        let PoolNanos { plain, mac, encrypt } = self.pool_ns;
        println!("pool, 1 KiB, fan-in 8, second-level cache, ns per packet:");
        println!("  plain {plain:.1}   mac {mac:.1} ({:.2} times)", self.mac_pool);
        println!("  encrypt {encrypt:.1} ({:.2} times)", self.encrypt_pool);
        println!("sealing and opening 1 KiB: {:.2} times two tags", self.seal_and_open_over_tags);
        println!("masked sums of f32: {:.2} ns per element", self.masked_ns_per_element);
        self.ciphers.print();
    }
}
