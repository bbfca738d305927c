//! `bench sim`: how fast fabrics are simulated, and the memory that this takes.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use nix::time::{ClockId, clock_gettime};
use pascaline_shared::println;
use pascaline_sim::fabric::{Clos, Fabric, Frame, Link};
use pascaline_wire::CongestionControl::Panama;
use serde_json::json;

use crate::experiments::cluster::{Load, Scheme, Setting, draw, run as simulate};

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Milliseconds of virtual time
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    milliseconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The paper's servers.
const CLOS: Clos = Clos::square(32);

/// The cost of a run.
struct Took {
    name: &'static str,
    events: u64,
    processor: Duration,
    most: usize,
    memory: usize,
}

impl Took {
    fn millions(&self) -> f64 {
        self.events as f64 / self.processor.as_secs_f64().max(1e-9) / 1e6
    }
}

/// This thread's processor time, without that of other programs.
fn processor() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// A frame between two servers.
struct Hop {
    from: usize,
    to: usize,
    hop: u8,
}

impl Frame for Hop {
    fn mark(&mut self) {}
}

/// Frames that cross the fabric, 16 of each server: each that arrives is sent again.
fn bare(lasts: u64) -> anyhow::Result<Took> {
    let began = processor()?;
    let mut fabric = Fabric::new(CLOS.links(Link::new(10, 500, u64::MAX / 1000)));
    for number in 0..16 * CLOS.hosts() {
        let from = number % CLOS.hosts();
        fabric.after(number as u64, Hop { from, to: (from + 33 * (number / 64 + 1)) % CLOS.hosts(), hop: 0 });
    }
    while let Some(frame) = fabric.next().filter(|_| fabric.now() < lasts) {
        let Hop { from, to, hop } = frame;
        match CLOS.hop(from, to, (from + to) % CLOS.spines, hop) {
            Some(link) => fabric.send(link, 1524, Hop { hop: hop + 1, ..frame }),
            None => fabric.after(0, Hop { from: to, to: from, hop: 0 }),
        }
    }
    let (most, memory) = (fabric.most(), fabric.memory());
    Ok(Took { name: "fabric", events: fabric.counts().0, processor: processor()? - began, most, memory })
}

/// Jobs and flows of others.
fn shared(name: &'static str, scheme: Scheme, lasts: u64) -> anyhow::Result<Took> {
    let load = Load {
        clos: CLOS,
        flows: 0.2,
        jobs: 0.6,
        scale: 100.0,
        computes: 1.0,
        websearch: 0.5,
        lasts,
        seed: 1,
    };
    let (jobs, flows) = draw(&load);
    let setting = Setting { jobs, flows, jitter: 10_000, ..Setting::idle(CLOS, scheme, lasts) };
    let began = processor()?;
    let outcome = simulate(&setting)?;
    ensure!(outcome.wrong == 0, "{} sums lacked a worker or counted one twice", outcome.wrong);
    let processor = processor()? - began;
    Ok(Took { name, events: outcome.events, processor, most: outcome.most, memory: outcome.memory })
}

pub(super) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let lasts = args.milliseconds * 1_000_000;
    let trees = Scheme::Trees(4, Panama, 256);
    let all = [bare(lasts)?, shared("ring", Scheme::Ring, lasts)?, shared("trees", trees, lasts)?];
    if args.json {
        let each = all.iter().map(|took| {
            json!({ "name": took.name, "events": took.events, "seconds": took.processor.as_secs_f64(),
                    "million_events_per_second": took.millions(), "most_under_way": took.most,
                    "memory_bytes": took.memory })
        });
        println!(
            "{}",
            json!({ "servers": CLOS.hosts(), "milliseconds": args.milliseconds,
                               "runs": each.collect::<Vec<_>>() })
        );
    } else {
        println!("{} servers, {} ms of virtual time, one core", CLOS.hosts(), args.milliseconds);
        for took in &all {
            let Took { name, events, most, memory, .. } = took;
            let (millions, seconds) = (took.millions(), took.processor.as_secs_f64());
            println!(
                "{name:<8} {events:>10} events in {seconds:.2} s: {millions:.2} million/s; at most {most} \
                 pending, {memory} bytes for them at the end"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
