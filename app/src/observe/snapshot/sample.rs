//! From counters to a snapshot: rates are differences to the sample before.

use std::cmp::Reverse;
use std::time::Duration;

use pascaline_dpdk::port::Stats;
use pascaline_telemetry::{Counter, DropReason, Gauge, Load, Reading, Times as Recorded};

use super::inputs::{Inputs, JobInput};
use super::jobs::{Former, tell};
use crate::observe::explain::{Neighbour, PortHealth};

use super::{Drop, Flow, JOBS, Lcore, Pool, Port, Quantiles, Series, Snapshot, Times, Traffic};

/// The counters of the pool that a snapshot has.
const POOL: [Counter; 11] = [
    Counter::Opened,
    Counter::Hits,
    Counter::Conflicts,
    Counter::Preempted,
    Counter::Evicted,
    Counter::Spilled,
    Counter::Replayed,
    Counter::Installed,
    Counter::Released,
    Counter::DisplacedResults,
    Counter::DisplacedPartials,
];

/// Makes snapshots.
#[derive(Debug)]
pub(crate) struct Sampler {
    name: String,
    before: Option<Inputs>,
    jobs: Former,
}

impl Sampler {
    /// For the appliance of this name.
    pub(crate) fn new(name: String) -> Self {
        Self { name, before: None, jobs: Former::default() }
    }

    /// A snapshot of these counters. The ones before must have been older.
    pub(crate) fn take(&mut self, inputs: Inputs) -> Snapshot {
        let none = Inputs::default();
        let (before, since) = match &self.before {
            Some(before) => (before, Since(inputs.at.saturating_sub(before.at))),
            None => (&none, Since(Duration::ZERO)),
        };
        let (total, former) = (sum(&inputs.readings), sum(&before.readings));
        let mut jobs = self.jobs.take(&inputs, since);
        let jobs_total = jobs.len();
        let traffic = traffic(&total, &former, &jobs, since);
        let busy = |job: &super::Job| job.contributions.packets_per_second;
        jobs.sort_by(|one, other| busy(other).total_cmp(&busy(one)).then(one.id.cmp(&other.id)));
        jobs.truncate(JOBS);
        jobs.sort_by_key(|job| job.id);
        let neighbour =
            |job: &JobInput| Neighbour::new(job.status.id, &job.name, &job.reading, job.terms.asynchronous);
        let neighbours: Vec<Neighbour> = inputs.jobs.iter().map(neighbour).collect();
        let healths: Vec<PortHealth> = inputs.ports.iter().map(|(port, _)| port.clone()).collect();
        for job in &mut jobs {
            let input = inputs.jobs.iter().find(|input| input.status.id == job.id);
            job.told = input
                .map(|input| tell(input, &neighbours, (&inputs.stalled, &healths), inputs.lcore_ns))
                .unwrap_or_default();
        }
        let snapshot = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name.clone(),
            unix_seconds: inputs.unix_seconds,
            uptime_seconds: inputs.at.as_secs_f64(),
            interval_seconds: since.0.as_secs_f64(),
            healthy: inputs.healthy,
            traffic,
            jobs,
            jobs_total,
            pool: pool(&inputs, &total, &former, since),
            drops: drops(&total, &former, since),
            lcores: lcores(&inputs.readings, &before.readings, since),
            times: times(inputs.times.as_ref(), before.times.as_ref()),
            ports: ports(&inputs, before, since),
            buffers: inputs.buffers.clone(),
            server: series(&inputs.server),
            olaf: series(&inputs.olaf),
            config: inputs.config.clone(),
        };
        self.before = Some(inputs);
        snapshot
    }
}

/// The time between two samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since(pub(super) Duration);

impl Since {
    /// How much more per second; none where there is no time between.
    pub(super) fn rate(self, now: u64, before: u64) -> f64 {
        let seconds = self.0.as_secs_f64();
        if seconds > 0.0 { float(now.saturating_sub(before)) / seconds } else { 0.0 }
    }

    /// Packets and bytes.
    pub(super) fn flow(self, now: (u64, u64), before: (u64, u64)) -> Flow {
        Flow {
            packets: now.0,
            bytes: now.1,
            packets_per_second: self.rate(now.0, before.0),
            bytes_per_second: self.rate(now.1, before.1),
        }
    }
}

fn sum(readings: &[Reading]) -> Reading {
    let mut total = Reading::default();
    readings.iter().for_each(|reading| total.merge(reading));
    total
}

fn traffic(total: &Reading, former: &Reading, jobs: &[super::Job], since: Since) -> Traffic {
    let of = |packets: Counter, bytes: Counter| {
        since.flow((total.get(packets), total.get(bytes)), (former.get(packets), former.get(bytes)))
    };
    let add = |pick: fn(&super::Job) -> Flow| {
        jobs.iter().map(pick).fold(Flow::default(), |sum, flow| Flow {
            packets: sum.packets + flow.packets,
            bytes: sum.bytes + flow.bytes,
            packets_per_second: sum.packets_per_second + flow.packets_per_second,
            bytes_per_second: sum.bytes_per_second + flow.bytes_per_second,
        })
    };
    let (contributions, results) = (add(|job| job.contributions), add(|job| job.results));
    let reduction = if results.bytes_per_second > 0.0 {
        Some(contributions.bytes_per_second / results.bytes_per_second)
    } else {
        (results.bytes > 0).then(|| float(contributions.bytes) / float(results.bytes))
    };
    Traffic {
        received: of(Counter::Received, Counter::ReceivedBytes),
        sent: of(Counter::Sent, Counter::SentBytes),
        contributions,
        results,
        reduction,
        forwarded_packets: total.get(Counter::Forwarded),
        absorbed_packets: total.get(Counter::Absorbed),
        answered_packets: total.get(Counter::Answered),
        dropped_packets: total.dropped_total(),
        unaccounted_packets: i64::try_from(total.unaccounted()).unwrap_or(i64::MAX),
    }
}

fn pool(inputs: &Inputs, total: &Reading, former: &Reading, since: Since) -> Pool {
    let (cells, oldest_ns) = &inputs.census;
    let counter = |&counter: &Counter| {
        let (now, before) = (total.get(counter), former.get(counter));
        (counter.name().to_owned(), now, since.rate(now, before))
    };
    Pool {
        slots: inputs.pool_slots,
        open: total.open_slots(),
        done: total.done_slots(),
        bytes: inputs.pool_bytes,
        counters: POOL.iter().map(counter).collect(),
        oldest_seconds: float(*oldest_ns) / 1e9,
        slots_per_cell: inputs.pool_slots.checked_div(cells.len()).unwrap_or(0),
        cells: cells.clone(),
    }
}

fn drops(total: &Reading, former: &Reading, since: Since) -> Vec<Drop> {
    let mut drops: Vec<Drop> = DropReason::ALL
        .iter()
        .filter(|&&reason| total.dropped(reason) > 0)
        .map(|&reason| Drop {
            reason: reason.name().to_owned(),
            meaning: reason.help().to_owned(),
            packets: total.dropped(reason),
            packets_per_second: since.rate(total.dropped(reason), former.dropped(reason)),
        })
        .collect();
    drops.sort_by_key(|drop| Reverse(drop.packets));
    drops
}

fn lcores(now: &[Reading], before: &[Reading], since: Since) -> Vec<Lcore> {
    let none = Reading::default();
    let of = |(lcore, reading): (usize, &Reading)| {
        let former = before.get(lcore).unwrap_or(&none);
        let (load, past): (Load, Load) = (reading.load(), former.load());
        let polls = load.polls().saturating_sub(past.polls());
        let packets = load.packets.saturating_sub(past.packets);
        Lcore {
            lcore,
            // A burst that began before the last sample may count as a whole in this one.
            busy: (since.rate(load.busy_ns, past.busy_ns) / 1e9).min(1.0),
            packets_per_second: since.rate(reading.get(Counter::Received), former.get(Counter::Received)),
            empty_polls_per_second: since
                .rate(reading.get(Counter::EmptyPolls), former.get(Counter::EmptyPolls)),
            burst_packets: if polls > 0 { float(packets) / float(polls) } else { 0.0 },
        }
    };
    now.iter().enumerate().map(of).collect()
}

fn times(now: Option<&Recorded>, before: Option<&Recorded>) -> Times {
    let Some(now) = now else { return Times::default() };
    Times {
        service: quantiles(&now.service, before.map(|before| &before.service)),
        spread: quantiles(&now.spread, before.map(|before| &before.spread)),
    }
}

/// Of what has been recorded since; if that is nothing, of all.
fn quantiles(now: &hdrhistogram::Histogram<u64>, before: Option<&hdrhistogram::Histogram<u64>>) -> Quantiles {
    let mut recent = now.clone();
    let changed = before.is_some_and(|before| before.len() < now.len() && recent.subtract(before).is_ok());
    let times = if changed { &recent } else { now };
    let at = |quantile| float(times.value_at_quantile(quantile)) / 1e9;
    if times.is_empty() {
        return Quantiles::default();
    }
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999) }
}

fn ports(inputs: &Inputs, before: &Inputs, since: Since) -> Vec<Port> {
    let of = |(port, stats): &(PortHealth, Stats)| {
        let former = before.ports.iter().find(|(former, _)| former.name == port.name);
        let former = former.map_or_else(Default::default, |(_, stats)| *stats);
        Port {
            name: port.name.clone(),
            up: port.is_up() != Some(false),
            state: port.state().to_owned(),
            trouble: port.is_in_trouble().then(|| port.to_string()),
            received: since.flow((stats.rx_packets, stats.rx_bytes), (former.rx_packets, former.rx_bytes)),
            sent: since.flow((stats.tx_packets, stats.tx_bytes), (former.tx_packets, former.tx_bytes)),
            missed_packets: stats.rx_missed,
            receive_errors: stats.rx_errors,
            send_errors: stats.tx_errors,
        }
    };
    inputs.ports.iter().map(of).collect()
}

fn series(gauges: &[Gauge]) -> Vec<Series> {
    let of = |gauge: &Gauge| {
        let name = gauge.name;
        let series = move |(labels, value): &(Vec<(&'static str, String)>, f64)| Series {
            name: name.to_owned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            value: *value,
        };
        gauge.samples.iter().map(series).collect::<Vec<_>>()
    };
    gauges.iter().flat_map(of).collect()
}

#[expect(clippy::cast_precision_loss, reason = "for people; 52 bits are plenty")]
pub(super) const fn float(value: u64) -> f64 {
    value as f64
}
