//! Ranks that hold the others up, and what is known of them.

use std::time::Duration;

use pascaline_telemetry::Late;
use pascaline_wire::trailer::{RankReport, RankState};

use super::{Evidence, Reason, STRAGGLES_NS, sentence};

/// Who holds the others up: first who does not come by himself, then who is late.
pub(super) fn reasons(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    let whole = known.status.complete && !known.status.broken;
    let reports = known.missing.as_slice().iter().filter(|_| whole);
    let waited = |rank| known.late.iter().find(|late| late.rank == rank && late.waited() >= STRAGGLES_NS);
    let stuck = reports.clone().filter_map(|report| stuck(report, waited(report.rank)));
    all.extend(stuck);
    for late in known.late.iter().filter(|late| late.waited() >= STRAGGLES_NS) {
        if all.iter().any(|reason| reason.rank == Some(late.rank)) {
            continue;
        }
        let report = reports.clone().find(|report| report.rank == late.rank);
        let known = report.map_or(String::new(), |report| format!(": {report}"));
        let (rank, time) = (late.rank, time(late));
        let text = format!("Rank {rank} is a straggler: the others have waited for it for {time}{known}.");
        let remedy = "look at that worker and its link; threshold or partial_after lets the others go on";
        all.push(Reason {
            rank: Some(late.rank),
            seconds: Some(Duration::from_nanos(late.waited()).as_secs_f64()),
            text,
            ..Reason::plain("straggler", remedy)
        });
    }
}

fn time(late: &Late) -> String {
    format!("{:.1} s", Duration::from_nanos(late.waited()).as_secs_f64())
}

/// A rank of which something is known that waiting does not mend.
fn stuck(report: &RankReport, waited: Option<&Late>) -> Option<Reason> {
    let (kind, remedy) = match report.state {
        RankState::Lost => ("rank-lost", "the others go on without it; start it again, and it joins"),
        RankState::Left => ("rank-left", "look at what that worker has said; start all ranks again"),
        RankState::Silent => (
            "rank-silent",
            "look at that process and its host: stopped, busy, cut off? After dead_after it counts as dead",
        ),
        RankState::Blocked => (
            "rank-blocked",
            "let its long packets pass (firewall), raise the MTU on its way, or start every rank with a \
             smaller payload",
        ),
        RankState::Overtaken => (
            "rank-overtaken",
            "start its worker again; a larger window keeps results longer, a higher threshold or a longer \
             partial_after keeps ranks together",
        ),
        RankState::NeverJoined | RankState::Behind | RankState::Here => return None,
    };
    let waited_for =
        waited.map_or(String::new(), |late| format!("; the others have waited {} for it", time(late)));
    Some(Reason {
        rank: Some(report.rank),
        seconds: waited.map(|late| Duration::from_nanos(late.waited()).as_secs_f64()),
        text: sentence(&format!("{report}{waited_for}")),
        ..Reason::plain(kind, remedy)
    })
}
