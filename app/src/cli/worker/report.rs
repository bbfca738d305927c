//! What the command says in the end.

use std::hash::Hasher as _;
use std::io::Write as _;

use pascaline_shared::output::Stdout;
use pascaline_wire::trailer::RankReport;
use pascaline_worker::masked::Fault;
use pascaline_worker::{
    AllreduceError, CongestionControl, Counters, Failure, Ignored, Missing, StartError, TreeReport,
};
use serde_json::{Value, json};

use super::failed::Failed;
use super::{AllreduceArgs, Outcome};

/// What the worker and its appliances have agreed on, and what went where.
pub(super) struct Told {
    pub(super) payload: u16,
    pub(super) control: CongestionControl,
    pub(super) trees: Vec<TreeReport>,
}

/// Tells standard output what came of it, and standard error what failed.
pub(super) fn print(
    args: &AllreduceArgs,
    elements: usize,
    outcome: &Outcome,
    (told, counters): (&Told, &Counters),
    failure: Option<&Failed>,
) -> anyhow::Result<()> {
    failure.into_iter().for_each(Failed::say);
    let Told { payload, control, .. } = told;
    let bytes = elements * args.dtype.size();
    let goodput = median(&outcome.seconds).map(|seconds| gigabits(bytes, seconds));
    let mut out = Stdout;
    if args.json {
        let mut line = as_json(args, bytes, goodput, outcome, (told, counters));
        failure.into_iter().for_each(|failed| failed.add_to(&mut line));
        writeln!(out, "{line}")?;
    } else {
        write!(
            out,
            "rank {} of {}: {} {}s of {bytes} bytes",
            args.who.rank,
            args.who.ranks,
            outcome.seconds.len(),
            args.collective.name()
        )?;
        if let Some(label) = args.security.security.label() {
            write!(out, ", {label}")?;
        }
        if let Some(goodput) = goodput {
            write!(out, ", median {goodput:.3} Gbit/s")?;
        }
        if !args.no_verify {
            write!(out, ", {} right, {} wrong", outcome.verified, outcome.mismatches)?;
        }
        if outcome.partial > 0 {
            let (count, missing) = (outcome.least_count, outcome.missing);
            write!(out, ", {} of them with as few as {count} ranks, without {missing}", outcome.partial)?;
        }
        writeln!(
            out,
            "; {} packets of {payload} bytes sent, {} of them again; {} reminders sent, {} answered; \
             congestion control {}, {} results marked",
            counters.packets_sent,
            counters.retransmissions,
            counters.reminders_sent,
            counters.reminders_answered,
            control.name(),
            counters.marked
        )?;
    }
    Ok(())
}

fn as_json(
    args: &AllreduceArgs,
    bytes: usize,
    goodput: Option<f64>,
    outcome: &Outcome,
    (told, counters): (&Told, &Counters),
) -> Value {
    let Told { payload, control, trees } = told;
    let ignored: serde_json::Map<_, _> = Ignored::ALL
        .into_iter()
        .filter(|&reason| counters.ignored(reason) > 0)
        .map(|reason| (reason.name().to_owned(), counters.ignored(reason).into()))
        .collect();
    json!({
        "rank": args.who.rank,
        "ranks": args.who.ranks,
        "collective": args.collective.name(),
        "security": args.security.security.name(),
        "iterations": outcome.seconds.len(),
        "verified": outcome.verified,
        "mismatches": outcome.mismatches,
        "bytes": bytes,
        "payload": payload,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "goodput_gbps": goodput,
        "congestion": control.name(),
        "marked": counters.marked,
        "packets_sent": counters.packets_sent,
        "retransmissions": counters.retransmissions,
        "duplicate_results": counters.duplicate_results,
        "reminders_sent": counters.reminders_sent,
        "reminders_answered": counters.reminders_answered,
        "originals_sent": counters.originals_sent,
        "heartbeats_sent": counters.heartbeats_sent,
        "resumed": counters.resumed,
        "partial": outcome.partial,
        "partial_results": counters.partial_results,
        "least_count": outcome.least_count,
        "missing_ranks": outcome.missing.iter().collect::<Vec<_>>(),
        "overflows": counters.overflows,
        "trees": trees.iter().map(tree).collect::<Vec<_>>(),
        "ignored": ignored,
        "unreachable": counters.unreachable,
        "checksum": format!("{:016x}", outcome.checksum.finish()),
        "checksums": outcome.checksums.iter().map(|sum| format!("{sum:016x}")).collect::<Vec<_>>(),
    })
}

/// One tree of a worker's.
pub(super) fn tree(tree: &TreeReport) -> Value {
    let TreeReport { appliance, job, counters } = tree;
    json!({
        "appliance": appliance.map(|appliance| appliance.to_string()),
        "job": job,
        "results": counters.results,
        "packets_sent": counters.packets_sent,
        "retransmissions": counters.retransmissions,
        "turned": counters.turned,
    })
}

/// What the appliance knew of those that a failed allreduce waited for.
pub(super) fn waiting_for(error: &AllreduceError) -> Value {
    let AllreduceError::Failed(failure) = error else { return json!([]) };
    missing(failure.progress().missing.as_deref())
}

/// What is known of ranks that are missing.
pub(super) fn missing(missing: Option<&Missing>) -> Value {
    let reports = missing.map_or(&[][..], |missing| missing.ranks.as_slice());
    let told = |report: &RankReport| {
        let address = (report.port != 0).then(|| report.address.to_string());
        json!({
            "rank": report.rank,
            "state": report.state.name(),
            "silent_ms": report.silent_ms,
            "behind": report.behind,
            "address": address,
        })
    };
    reports.iter().map(told).collect()
}

pub(super) fn median(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[expect(clippy::cast_precision_loss, reason = "a rate for humans")]
pub(super) fn gigabits(bytes: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { 8.0 * bytes as f64 / seconds / 1e9 } else { 0.0 }
}

/// The exit status after a failure.
pub(super) const fn status(error: &AllreduceError) -> u8 {
    use StartError::{Blocks, Feedback, NoBlock, NoMean, Root, ShortPayload, Subtree, TooLong};
    match error {
        AllreduceError::Masked(Fault::Unmaskable { .. }) => super::REFUSED,
        AllreduceError::Failed(Failure::Rejected { .. }) => super::REFUSED,
        AllreduceError::Start(TooLong { .. } | Root { .. } | ShortPayload { .. } | Subtree { .. }) => {
            super::REFUSED
        }
        AllreduceError::Start(Blocks { .. } | NoBlock { .. } | NoMean { .. } | Feedback) => super::REFUSED,
        _ => super::FAILED,
    }
}
