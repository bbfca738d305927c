//! `bench scrape`: the cost of a scrape and of a sample of the page on the main core.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use pascaline_app::laboratory::{CountedJobs, PageSampler};
use pascaline_shared::println;
use pascaline_telemetry::{
    Counter, DropReason, Format, JobCells, JobEvent, LcoreCounters, LcoreReaders, Made, Moment, Surveyor,
    Tally, Telemetry, recorder,
};
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct ScrapeArgs {
    /// Lcores
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    lcores: u16,
    /// Jobs
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: u16,
    /// Ranks of each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ranks: u16,
    /// Scrapes that are timed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    lcores: u16,
    jobs: u16,
    ranks: u16,
    scrape_ms: f64,
    scrape_p99_ms: f64,
    scrape_bytes: usize,
    series: usize,
    sample_ms: f64,
    sample_p99_ms: f64,
    sample_bytes: usize,
}

/// Measures.
pub(super) fn run(args: &ScrapeArgs) -> anyhow::Result<ExitCode> {
    let &ScrapeArgs { lcores, jobs, ranks, repeat, json } = args;
    let cells = (0..jobs).map(|job| Arc::new(counted(job, lcores, ranks))).collect();
    let gauges = Arc::new(CountedJobs::new(cells, ranks));
    let (counters, readers) = (0..lcores).map(lcore).collect::<Result<(Vec<_>, Vec<_>), _>>()?;
    let telemetry = Telemetry::new(counters, readers, Box::new(Arc::clone(&gauges)));
    let text = telemetry.scrape(Format::OpenMetrics)?;
    ensure!(text.ends_with("# EOF\n"), "the scrape is incomplete");
    let (scrape_ms, scrape_p99_ms) = timed(repeat, || telemetry.scrape(Format::OpenMetrics).map(drop))?;
    let mut sampler = PageSampler::default();
    let mut sample_bytes = 0;
    let (sample_ms, sample_p99_ms) = timed(repeat, || {
        sample_bytes = sampler.sample(&telemetry, &gauges)?.len();
        Ok::<(), serde_json::Error>(())
    })?;
    let report = Report {
        lcores,
        jobs,
        ranks,
        scrape_ms,
        scrape_p99_ms,
        scrape_bytes: text.len(),
        series: text.lines().filter(|line| !line.starts_with('#')).count(),
        sample_ms,
        sample_p99_ms,
        sample_bytes,
    };
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{lcores} lcores, {jobs} jobs of {ranks} ranks; median, 99 %:");
        println!(
            "  scrape  {scrape_ms:7.2} ms  {scrape_p99_ms:7.2} ms  {} series, {} bytes",
            report.series, report.scrape_bytes
        );
        println!("  sample  {sample_ms:7.2} ms  {sample_p99_ms:7.2} ms  {sample_bytes} bytes");
    }
    Ok(ExitCode::SUCCESS)
}

/// An lcore that has counted everything once, with times over the whole range.
fn lcore(number: u16) -> anyhow::Result<(Arc<LcoreCounters>, LcoreReaders)> {
    let counters = Arc::new(LcoreCounters::default());
    let mut tally = Tally::default();
    for (count, &counter) in (1..).zip(Counter::ALL) {
        tally.add(counter, count);
    }
    DropReason::ALL.iter().for_each(|&reason| tally.drop_one(reason));
    tally.burst(usize::from(number % 32) + 1, 1000);
    counters.publish(&mut tally);
    let reader = || -> anyhow::Result<_> {
        let (mut recorder, mut reader) = recorder()?;
        (0..2_000u64).for_each(|step| recorder.record(step * step * step, 1));
        recorder.publish();
        reader.collect();
        Ok(reader)
    };
    let (mut surveyor, census) = Surveyor::new(1 << 10);
    (0..1 << 10).for_each(|_| surveyor.visited(1, Default::default()));
    Ok((counters, LcoreReaders { spread: reader()?, service: reader()?, census }))
}

/// A job; every lcore has counted each of its events once.
fn counted(job: u16, lcores: u16, ranks: u16) -> JobCells {
    let cells = JobCells::new(usize::from(lcores), ranks);
    for lcore in 0..usize::from(lcores) {
        for rank in 0..ranks {
            cells.ranks_of(lcore).heard(rank, u32::from(job), Moment::at(1));
            cells.completed(lcore, rank, Made { contributions: ranks, bytes: 1024 }, 1000);
        }
        JobEvent::ALL.iter().for_each(|&event| cells.count(lcore, event, 1));
    }
    cells
}

/// Median and 99th percentile of the times, in milliseconds.
fn timed<E>(repeat: u32, mut action: impl FnMut() -> Result<(), E>) -> Result<(f64, f64), E> {
    let mut times = Vec::new();
    for _ in 0..repeat {
        let began = Instant::now();
        action()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(Duration::ZERO);
    Ok((at(50).as_secs_f64() * 1e3, at(99).as_secs_f64() * 1e3))
}
