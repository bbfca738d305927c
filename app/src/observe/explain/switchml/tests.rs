use pascaline_telemetry::{DropReason, JobEvent, Late};
use pascaline_wire::trailer::{RankReport, RankReports, RankState};

use crate::observe::explain::tests::{RUNNING, counted, kinds};
use crate::observe::explain::{Evidence, Terms, diagnose};

/// What such workers cannot do.
const NOT_FOR_THEM: [&str; 10] = [
    "threshold",
    "partial_after",
    "profile",
    "dead_after",
    "on_death",
    "the appliance's address",
    "this job's number",
    "join",
    "twice their",
    "smaller payload",
];

#[test]
fn such_workers_can_follow_each_remedy() {
    let events: Vec<(JobEvent, u64)> = JobEvent::ALL.iter().map(|&event| (event, 8)).collect();
    let counted = counted(&events, DropReason::ALL);
    let late = [Late { rank: 3, since: 1, seen: 2_000_000_001 }];
    let terms = Terms { switchml: true, ..Terms::default() };
    for status in [
        RUNNING,
        pascaline_pipelines::membership::JobStatus { joined: 0, complete: false, ..RUNNING },
        pascaline_pipelines::membership::JobStatus { joined: 2, complete: false, ..RUNNING },
        pascaline_pipelines::membership::JobStatus { halted: true, ..RUNNING },
    ] {
        for state in [RankState::Silent, RankState::Blocked, RankState::Behind, RankState::NeverJoined] {
            let mut missing = RankReports::EMPTY;
            assert!(missing.push(RankReport::new(3, state)));
            let told = diagnose(&Evidence {
                ports: &[],
                status: &status,
                name: "",
                counted: &counted,
                late: &late,
                terms,
                neighbours: &[],
                missing: &missing,
                stalled: &[],
                now_ns: 0,
            });
            assert!(kinds(&told).contains(&"outside-window"));
            for reason in &told.reasons {
                let wrong = NOT_FOR_THEM.iter().find(|wrong| reason.remedy.contains(**wrong));
                assert_eq!(wrong, None, "{}: {}", reason.kind, reason.remedy);
            }
        }
    }
}
