//! A job's part of a snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pascaline_telemetry::{CellsReading, DropReason, JobEvent, RankReading};

use super::inputs::{Inputs, JobInput};
use super::sample::{Since, float};
use super::{Explained, Job, RANKS, Rank, Reason};
use crate::observe::explain::{Diagnosis, Evidence, Neighbour, PortHealth, STRAGGLES_NS, Stalled, diagnose};

/// What the jobs had counted when the last sample was taken.
#[derive(Debug, Default)]
pub(super) struct Former(BTreeMap<u16, CellsReading>);

impl Former {
    /// The jobs, by number.
    pub(super) fn take(&mut self, inputs: &Inputs, since: Since) -> Vec<Job> {
        let none = CellsReading::default();
        let mut jobs: Vec<Job> = inputs
            .jobs
            .iter()
            .map(|input| {
                // A job of the same number that was formed anew begins with nothing.
                let former = self.0.get(&input.status.id);
                let former = former.filter(|former| former.contributions() <= input.reading.contributions());
                job(input, former.unwrap_or(&none), (inputs.lcore_ns, inputs.unix_seconds), since)
            })
            .collect();
        self.0 = inputs.jobs.iter().map(|input| (input.status.id, input.reading.clone())).collect();
        jobs.sort_by_key(|job| job.id);
        jobs
    }
}

fn job(input: &JobInput, former: &CellsReading, (now_ns, unix_seconds): (u64, f64), since: Since) -> Job {
    let JobInput { status, name, cells, reading, .. } = input;
    let flow = |now: &CellsReading, then: &CellsReading| {
        since.flow(
            (now.contributions(), now.contribution_bytes()),
            (then.contributions(), then.contribution_bytes()),
        )
    };
    let results =
        |reading: &CellsReading| (reading.get(JobEvent::Results), reading.get(JobEvent::ResultBytes));
    let contributions = flow(reading, former);
    let moving = contributions.packets_per_second > 0.0;
    let ranks = ranks(reading, former, now_ns, since);
    let late = cells.late_ranks(now_ns);
    Job {
        id: status.id,
        name: name.clone(),
        state: status.state_with_traffic(reading.get(JobEvent::Results) > 0, moving),
        ranks: status.fan_in,
        joined: status.joined,
        lost: status.lost,
        needed: status.needed,
        epoch: status.epoch,
        contributions,
        results: since.flow(results(reading), results(former)),
        waited_seconds: waited(reading, former),
        front: reading.front(),
        behind: ranks.iter().map(|rank| rank.behind).max().unwrap_or(0),
        straggler: late.first().filter(|late| late.waited() >= STRAGGLES_NS).map(|late| late.rank),
        progress: bounded(ranks),
        events: events(reading),
        drops: DropReason::ALL
            .iter()
            .filter(|&&reason| reading.dropped(reason) > 0)
            .map(|&reason| (reason.name().to_owned(), reading.dropped(reason)))
            .collect(),
        // Of those jobs that are shown, later.
        told: Explained::default(),
        model_age_seconds: reading.model_age(unix_seconds),
    }
}

/// Whether the job is aggregated here, and if not, why.
pub(super) fn tell(
    input: &JobInput,
    neighbours: &[Neighbour],
    (stalled, ports): (&[Stalled], &[PortHealth]),
    now_ns: u64,
) -> Explained {
    let JobInput { status, name, terms, missing, cells, reading } = input;
    let late = cells.late_ranks(now_ns);
    let Diagnosis { aggregated, share, summary, reasons, parent, .. } = diagnose(&Evidence {
        status,
        name,
        counted: reading,
        late: &late,
        terms: *terms,
        neighbours,
        missing,
        stalled,
        ports,
        now_ns,
    });
    let reason = |reason: crate::observe::explain::Reason| Reason {
        kind: reason.kind,
        text: reason.text,
        remedy: reason.remedy,
    };
    Explained {
        aggregated: aggregated.to_owned(),
        share,
        summary,
        reasons: reasons.into_iter().map(reason).collect(),
        parent: parent.map(|parent| parent.to_string()),
    }
}

/// Mean time from the first to the last contribution of the results since; if there are none, of all.
fn waited(reading: &CellsReading, former: &CellsReading) -> f64 {
    let made = |reading: &CellsReading| reading.get(JobEvent::Results);
    let fresh = made(reading).saturating_sub(made(former));
    let (results, waited_ns) = match fresh {
        0 => (made(reading), reading.waited_ns),
        fresh => (fresh, reading.waited_ns.saturating_sub(former.waited_ns)),
    };
    if results > 0 { float(waited_ns) / float(results) / 1e9 } else { 0.0 }
}

fn ranks(reading: &CellsReading, former: &CellsReading, now_ns: u64, since: Since) -> Vec<Rank> {
    let none = RankReading::default();
    let fresh = |index: usize, rank: &RankReading| {
        rank.last.saturating_sub(former.ranks.get(index).unwrap_or(&none).last)
    };
    let recent: u64 = reading.ranks.iter().enumerate().map(|(index, rank)| fresh(index, rank)).sum();
    let all: u64 = reading.ranks.iter().map(|rank| rank.last).sum();
    let mean = reading.mean_payload();
    let of = |(number, rank): (u16, &RankReading)| {
        let index = usize::from(number);
        let heard = rank.heard_ns > 0;
        let (last, of) = if recent > 0 { (fresh(index, rank), recent) } else { (rank.last, all) };
        Rank {
            rank: number,
            contributions: rank.contributions,
            again: rank.again,
            bytes_per_second: mean
                * since.rate(rank.contributions, former.ranks.get(index).unwrap_or(&none).contributions),
            psn: heard.then_some(rank.psn),
            behind: reading.behind(rank),
            silent_seconds: heard.then(|| float(now_ns.saturating_sub(rank.heard_ns)) / 1e9),
            last_share: if of > 0 { float(last) / float(of) } else { 0.0 },
        }
    };
    (0..).zip(&reading.ranks).map(of).collect()
}

/// The ranks that are shown, in order: all, or those that are furthest behind.
fn bounded(mut ranks: Vec<Rank>) -> Vec<Rank> {
    if ranks.len() > RANKS {
        ranks.sort_by_key(|rank| (Reverse(rank.behind), rank.rank));
        ranks.truncate(RANKS);
        ranks.sort_by_key(|rank| rank.rank);
    }
    ranks
}

/// What has happened to the job beside plain results, by the names of the metrics.
fn events(reading: &CellsReading) -> Vec<(String, u64)> {
    JobEvent::ALL
        .iter()
        .filter(|event| !matches!(event, JobEvent::Results | JobEvent::ResultBytes))
        .filter(|&&event| reading.get(event) > 0)
        .map(|&event| (event.name().to_owned(), reading.get(event)))
        .collect()
}
