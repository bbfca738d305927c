//! The appliance's viewers, and the observer that reads the service time of its packets.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use pascaline_dpdk::Clock;
use serde::Deserialize;

use super::super::pool::nanos;
use super::{hot, median};

/// Wait after viewers come or go: a sample then lies wholly within one kind of window.
const SETTLE: Duration = Duration::from_millis(1100);
/// Between two requests for the latest sample; there are two samples a second.
const LOOK: Duration = Duration::from_millis(200);
/// An answer takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The API calls, in turns.
const CALLS: [&str; 5] = ["status", "jobs", "jobs/1", "jobs/1/explain", "config"];

/// The appliance's addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) page: SocketAddr,
    pub(super) api: SocketAddr,
}

/// Per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) calls: u32,
    pub(super) scrapes: u32,
}

/// A window's measurements: medians of its samples. Times in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// By the lcore's own time, without the receive hook.
    pub(super) packets_per_second: f64,
}

/// The source of the packets, which runs on the lcore's own time.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) clock: Clock,
    /// Its time so far, in ticks of the processor.
    pub(super) ticks: Arc<AtomicU64>,
}

impl Source {
    /// Now, in nanoseconds, and the source's ticks so far.
    fn read(&self) -> (u64, u64) {
        (self.clock.now_ns(), self.ticks.load(Ordering::Relaxed))
    }

    /// The time from `before` to `after`, divided by the lcore's own share of it.
    fn share(&self, before: (u64, u64), after: (u64, u64)) -> anyhow::Result<f64> {
        let elapsed = after.0 - before.0;
        let own = hot::without_hook(&self.clock, elapsed, after.1 - before.1)?;
        Ok(nanos(elapsed) / nanos(own))
    }
}

/// All measurements.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Left alone, looked at.
    pub(super) pairs: Vec<(Seen, Seen)>,
    /// How long each took, in milliseconds.
    pub(super) calls: Vec<f64>,
    pub(super) scrapes: Vec<f64>,
    pub(super) streamed: usize,
}

/// Turns the viewers on and off.
#[derive(Debug, Default)]
struct Switch {
    on: AtomicBool,
    over: AtomicBool,
}

impl Switch {
    /// Waits until viewers are on. False if they stay off.
    fn wait(&self) -> bool {
        while !self.on.load(Ordering::Relaxed) {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// The part of a sample that is read here.
#[derive(Debug, Deserialize)]
struct Snapshot {
    uptime_seconds: f64,
    times: Times,
    traffic: Traffic,
}

#[derive(Debug, Deserialize)]
struct Times {
    service: Quantiles,
}

#[derive(Debug, Deserialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Traffic {
    received: Flow,
}

#[derive(Debug, Deserialize)]
struct Flow {
    packets_per_second: f64,
}

/// Lets viewers come and go in turns, then ends the appliance.
pub(super) fn watch(
    at: Addresses,
    source: &Source,
    rates: Rates,
    pairs: u16,
    seconds: u64,
) -> anyhow::Result<Watched> {
    let agent = agent();
    let (switch, streamed) = (Switch::default(), AtomicUsize::new(0));
    let scrape = |_| get(&agent, &format!("http://{}/metrics", at.page));
    let call = |turn: usize| {
        let what = CALLS[turn % CALLS.len()];
        get(&agent, &format!("http://{}/api/v1/{what}", at.api))
    };
    let watched = std::thread::scope(|scope| {
        let scrapes = scope.spawn(|| repeat(&switch, rates.scrapes, scrape));
        let calls = scope.spawn(|| repeat(&switch, rates.calls, call));
        let stream = scope.spawn(|| stream(&switch, &at, &streamed));
        let windows = windows(&agent, &at, source, &switch, pairs, Duration::from_secs(seconds));
        switch.over.store(true, Ordering::Relaxed);
        switch.on.store(false, Ordering::Relaxed);
        let gone = |_| anyhow::anyhow!("a viewer has panicked");
        stream.join().map_err(gone)??;
        Ok(Watched {
            pairs: windows?,
            calls: calls.join().map_err(gone)??,
            scrapes: scrapes.join().map_err(gone)??,
            streamed: streamed.load(Ordering::Relaxed),
        })
    });
    // In any case: otherwise the appliance would never end.
    let ended = agent.post(&format!("http://{}/api/v1/drain", at.api)).send_empty();
    let watched: anyhow::Result<Watched> = watched;
    ended.context("asking the appliance to end")?;
    watched
}

/// Does not reuse connections: each request is like one of `curl`.
fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
    config.max_idle_connections(0).build().into()
}

fn get(agent: &ureq::Agent, url: &str) -> anyhow::Result<String> {
    let mut answer = agent.get(url).call().with_context(|| url.to_owned())?;
    Ok(answer.body_mut().with_config().limit(64 << 20).read_to_string()?)
}

/// Asks at a rate while viewers are on; returns the answers' times in milliseconds.
fn repeat(
    switch: &Switch,
    per_second: u32,
    ask: impl Fn(usize) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    let between = Duration::from_secs(1) / per_second;
    while switch.wait() {
        let began = Instant::now();
        ask(times.len())?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(between.saturating_sub(began.elapsed()));
    }
    Ok(times)
}

/// Keeps the page open while viewers are on.
fn stream(switch: &Switch, at: &Addresses, streamed: &AtomicUsize) -> anyhow::Result<()> {
    let config = ureq::Agent::config_builder().timeout_connect(Some(PATIENCE));
    let agent: ureq::Agent = config.max_idle_connections(0).build().into();
    while switch.wait() {
        let answer = agent.get(&format!("http://{}/live", at.page)).call().context("/live")?;
        let mut lines = BufReader::new(answer.into_body().into_reader()).lines();
        while switch.on.load(Ordering::Relaxed) {
            let line = lines.next().context("the stream has ended")??;
            streamed.fetch_add(usize::from(line.starts_with("data:")), Ordering::Relaxed);
        }
    }
    Ok(())
}

fn windows(
    agent: &ureq::Agent,
    at: &Addresses,
    source: &Source,
    switch: &Switch,
    pairs: u16,
    length: Duration,
) -> anyhow::Result<Vec<(Seen, Seen)>> {
    let mut seen = Vec::new();
    for pair in 0..pairs {
        let window = |on: bool| {
            switch.on.store(on, Ordering::Relaxed);
            std::thread::sleep(SETTLE);
            look(agent, at, source, length)
        };
        // Each kind comes first equally often, so that a steady drift weighs on both.
        seen.push(if pair % 2 == 0 {
            let alone = window(false)?;
            (alone, window(true)?)
        } else {
            let observed = window(true)?;
            (window(false)?, observed)
        });
    }
    Ok(seen)
}

/// Medians of the appliance's own samples over `length`.
fn look(agent: &ureq::Agent, at: &Addresses, source: &Source, length: Duration) -> anyhow::Result<Seen> {
    let (began, before, mut latest) = (Instant::now(), source.read(), 0.0);
    let (mut p50, mut p99, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    while began.elapsed() < length {
        std::thread::sleep(LOOK);
        let snapshot: Snapshot =
            serde_json::from_str(&get(agent, &format!("http://{}/api/v1/snapshot", at.page))?)?;
        if snapshot.uptime_seconds > latest {
            latest = snapshot.uptime_seconds;
            p50.push(snapshot.times.service.p50);
            p99.push(snapshot.times.service.p99);
            rate.push(snapshot.traffic.received.packets_per_second);
        }
    }
    ensure!(rate.iter().any(|rate| *rate > 0.0), "the lcore has received nothing: the measurement is void");
    let share = source.share(before, source.read())?;
    Ok(Seen { p50: median(p50), p99: median(p99), packets_per_second: median(rate) * share })
}
