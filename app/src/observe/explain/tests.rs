use super::*;
use pascaline_telemetry::{JobCells, Moment};
use pascaline_wire::frame::Address;
use pascaline_wire::trailer::{RankReport, RankState};
use pascaline_wire::{MulticastGroup, RankSet};

/// What one lcore has counted.
pub(super) fn counted(events: &[(JobEvent, u64)], drops: &[DropReason]) -> CellsReading {
    let cells = JobCells::new(1, 4);
    events.iter().for_each(|&(event, count)| cells.count(0, event, count));
    drops.iter().for_each(|&reason| cells.dropped(0, reason));
    cells.read()
}

pub(super) fn judged(status: &JobStatus, counted: &CellsReading, late: &[Late]) -> Diagnosis {
    let terms = Terms { quota: 32, ..Terms::default() };
    diagnose(&Evidence {
        status,
        name: "",
        counted,
        late,
        terms,
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    })
}

pub(super) const RUNNING: JobStatus = JobStatus {
    id: 7,
    fan_in: 4,
    joined: 4,
    epoch: 3,
    payload: 0,
    multicast: None,
    needed: 4,
    lost: 0,
    complete: true,
    halted: false,
    broken: false,
    formed: false,
    server: ServerState::None,
    uplink: None,
};

pub(super) fn kinds(verdict: &Diagnosis) -> Vec<&str> {
    verdict.reasons.iter().map(|reason| &*reason.kind).collect()
}

#[test]
fn all_of_it_is_yes_without_a_reason() {
    let done = counted(&[(JobEvent::AggregatedBytes, 4096)], &[DropReason::Duplicate]);
    let told = judged(&RUNNING, &done, &[]);
    assert_eq!((told.aggregated, told.share, kinds(&told)), ("yes", Some(1.0), vec![]));
    assert_eq!(told.summary, "Job 7 is aggregated here: 4096 bytes, all of it.");
    let told = judged(&JobStatus { payload: 1408, ..RUNNING }, &done, &[]).summary;
    assert!(told.ends_with("all of it. Its packets carry up to 1408 bytes."), "{told}");
}

#[test]
fn who_hears_a_multicast_group_is_said() {
    let group = MulticastGroup::new("239.77.0.1".parse().unwrap()).unwrap();
    let mut hears = RankSet::EMPTY;
    for (rank, says) in [
        (0, "239.77.0.1 is heard by 1 of 4 ranks, not by 1, 2, 3: these get results by unicast."),
        (2, "239.77.0.1 is heard by 2 of 4 ranks, not by 1, 3: these get results by unicast."),
        (1, "239.77.0.1 is heard by 3 of 4 ranks, not by 3: these get results by unicast."),
        (3, "239.77.0.1 is heard by 4 of 4 ranks."),
    ] {
        assert!(hears.insert(rank));
        let told = judged(&JobStatus { multicast: Some((group, hears)), ..RUNNING }, &counted(&[], &[]), &[]);
        assert!(told.summary.contains(says), "{}", told.summary);
    }
}

#[test]
fn a_parameter_server_that_is_not_here_comes_first() {
    let nothing = counted(&[(JobEvent::AggregatedBytes, 8)], &[]);
    for (server, says) in [
        (ServerState::Gone, "has gone: it does not register any more; the job goes on without it."),
        (ServerState::Missing, "has not come; the job goes on without one."),
    ] {
        let told = judged(&JobStatus { server, halted: true, ..RUNNING }, &nothing, &[]);
        assert_eq!(kinds(&told), ["server-gone", "halted"]);
        assert!(told.summary.ends_with(&format!("The parameter server {says}")), "{}", told.summary);
    }
    for server in [ServerState::None, ServerState::Awaited, ServerState::Here] {
        assert_eq!(kinds(&judged(&JobStatus { server, ..RUNNING }, &nothing, &[])), [""; 0]);
    }
    let terms = Terms { asynchronous: true, ..Terms::default() };
    let status = JobStatus { server: ServerState::Missing, ..RUNNING };
    let told = diagnose(&Evidence {
        status: &status,
        name: "",
        counted: &nothing,
        late: &[],
        terms,
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    assert!(told.summary.ends_with("has not come; no update is applied."), "{}", told.summary);
}

#[test]
fn what_went_elsewhere_is_a_share_with_its_reasons_by_weight() {
    let counts = [
        (JobEvent::AggregatedBytes, 750),
        (JobEvent::SpilledBytes, 100),
        (JobEvent::EvictedBytes, 50),
        (JobEvent::BypassedBytes, 100),
        (JobEvent::OverQuota, 2),
        (JobEvent::Collisions, 9),
        (JobEvent::Bypassed, 5),
    ];
    let (counted, terms) = (counted(&counts, &[]), Terms { server: true, quota: 32, ..Terms::default() });
    let told = diagnose(&Evidence {
        status: &RUNNING,
        name: "a",
        counted: &counted,
        late: &[],
        terms,
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    assert_eq!((told.aggregated, told.share), ("partly", Some(0.75)));
    assert_eq!(kinds(&told), ["collision", "bypass", "quota"]);
    assert!(told.summary.contains("75.0 % of its bytes. Collisions: 9 contributions"), "{}", told.summary);
    assert!(told.reasons[2].text.contains("the 32 slots that it may, and went to the parameter server"));
    assert_eq!(told.bytes, ExplainedBytes { aggregated: 750, server: 150, bypassed: 100 });
}

#[test]
fn who_is_missing_or_late_comes_first() {
    let status = JobStatus { joined: 2, complete: false, ..RUNNING };
    let told = judged(&status, &counted(&[(JobEvent::Collisions, 1)], &[]), &[]);
    assert_eq!((kinds(&told), told.reasons[0].count), (vec!["not-member", "collision"], Some(2)));
    assert!(told.summary.contains("nothing to aggregate here yet. 2 of 4 ranks are not here"));
    let late = [(3, 10_000_000_000), (1, 7_599_999_999)].map(|(rank, seen)| Late {
        rank,
        since: 7_500_000_000,
        seen,
    });
    let told = judged(&RUNNING, &counted(&[(JobEvent::AggregatedBytes, 8)], &[]), &late);
    assert_eq!((told.reasons[0].rank, told.reasons[0].seconds), (Some(3), Some(2.5)));
    assert_eq!(told.reasons.len(), 1, "a tenth of a second is not worth a word");
    assert!(told.summary.ends_with("Rank 3 is a straggler: the others have waited for it for 2.5 s."));
}

#[test]
fn every_state_of_a_job_has_its_reason() {
    let nothing = counted(&[], &[]);
    let broken = JobStatus { broken: true, complete: false, lost: 1, joined: 3, ..RUNNING };
    assert_eq!(kinds(&judged(&broken, &nothing, &[])), ["rank-lost"]);
    let halted = JobStatus { halted: true, ..RUNNING };
    let dropped = counted(&[], &[DropReason::Halted]);
    assert_eq!(kinds(&judged(&halted, &dropped, &[])), ["halted", "halted"]);
    let idle = JobStatus { joined: 0, complete: false, ..RUNNING };
    assert_eq!(kinds(&judged(&idle, &nothing, &[])), ["not-member"]);
}

#[test]
fn drops_of_several_reasons_are_one_cause() {
    let drops = [
        DropReason::RankSpoofed,
        DropReason::RankOutOfRange,
        DropReason::LengthChanged,
        DropReason::WrongEpoch,
        DropReason::DType,
        DropReason::FanInMismatch,
    ];
    let told = judged(&RUNNING, &counted(&[], &drops), &[]);
    let counts: Vec<_> = told.reasons.iter().map(|reason| (&*reason.kind, reason.count)).collect();
    assert_eq!(counts, [("mismatch", Some(3)), ("rank-spoofed", Some(2)), ("wrong-epoch", Some(1))]);
}

#[test]
fn of_an_asynchronous_job_the_pool_knows_nothing() {
    let cells = JobCells::new(1, 4);
    (0..3).for_each(|psn| assert!(cells.ranks_of(0).heard(1, psn, Moment::at(1))));
    cells.answered(0, 5);
    cells.count(0, JobEvent::BypassedBytes, 200);
    cells.dropped(0, DropReason::NotMember);
    let terms = Terms { asynchronous: true, server: true, ..Terms::default() };
    let counted = cells.read();
    let told = diagnose(&Evidence {
        status: &RUNNING,
        name: "a",
        counted: &counted,
        late: &[],
        terms,
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    assert_eq!((told.aggregated, told.share, kinds(&told)), ("updates", None, vec!["not-member"]));
    assert!(told.summary.contains("3 have come, and its server has answered 1 of those"), "{}", told.summary);
    assert_eq!(told.parent, None);
}

/// A limited tenant learns which limit, what its share is, and what to change.
#[test]
fn a_job_that_is_limited_is_told_by_what_and_what_to_change() {
    let counts = [(JobEvent::OverShare, 90), (JobEvent::GivenBack, 7)];
    let counted = counted(&counts, &[DropReason::PacketShare, DropReason::ServerShare]);
    let terms = Terms { server: true, share: 2, part: 0.25, ..Terms::default() };
    let (status, late, neighbours) = (&RUNNING, &[], &[]);
    let told = diagnose(&Evidence {
        status,
        name: "",
        counted: &counted,
        late,
        terms,
        neighbours,
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    assert_eq!(kinds(&told), ["slot-share", "given-back", "packet-share", "server-share"]);
    assert_eq!(
        told.reasons[0].text,
        "Slot share: 90 contributions came while the job held its share of the slots, 2 (25 %), and other \
            jobs theirs; they went to the parameter server."
    );
    assert_eq!(told.reasons[0].count, Some(90));
    assert!(
        told.reasons
            .iter()
            .all(|reason| reason.text.contains("share, 2 (25 %)") || reason.text.contains("slots, 2 (25 %)"))
    );
    assert!(told.reasons.iter().all(|reason| reason.remedy.contains("share")), "{:?}", told.reasons);
    assert!(told.summary.contains("Slot share: 90"), "{}", told.summary);
}

/// Who is slowed learns by whom.
#[test]
fn a_job_that_is_slowed_is_told_by_whom() {
    const NOW: u64 = 9_000_000_000;
    let of = |packets: u32, heard: u64, aggregated: u64, limited: u64| {
        let cells = JobCells::new(1, 2);
        (0..packets).for_each(|psn| assert!(cells.ranks_of(0).heard(0, psn, Moment::at(heard))));
        cells.count(0, JobEvent::Aggregated, aggregated);
        cells.count(0, JobEvent::OverShare, limited);
        cells.read()
    };
    let neighbours = [
        Neighbour::new(RUNNING.id, "self", &of(60_000, NOW, 0, 0), false),
        Neighbour::new(9, "greedy", &of(50_000, NOW, 10, 777), false),
        Neighbour::new(10, "fine", &of(50_000, NOW, 49_990, 0), false),
        Neighbour::new(11, "gone", &of(55_000, 1, 0, 0), false),
        Neighbour::new(12, "small", &of(500, NOW, 0, 0), false),
        Neighbour::new(13, "updates", &of(70_000, NOW, 0, 0), true),
    ];
    let counted = counted(&[(JobEvent::AggregatedBytes, 8)], &[]);
    let (status, late, terms) = (&RUNNING, &[], Terms::default());
    let evidence = Evidence {
        status,
        name: "",
        counted: &counted,
        late,
        terms,
        neighbours: &neighbours,
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: NOW,
    };
    let told = diagnose(&evidence);
    assert_eq!(kinds(&told), ["neighbour"]);
    assert_eq!(
        told.reasons[0].text,
        "Slowed by job 9 \"greedy\": of its 50000 packets 49990 never led to a result, but took time of \
         the lcore; 777 were refused beyond its share."
    );
    assert!(told.reasons[0].remedy.starts_with("`pascaline explain 9` says why"));
    let told = diagnose(&Evidence { neighbours: &neighbours[2..], ..evidence });
    assert!(
        told.reasons.is_empty(),
        "who completes its PSNs, sends updates, is small or gone, is no matter: {:?}",
        told.reasons
    );
}

/// What is known of rank 3.
fn third(state: RankState) -> RankReports {
    let mut reports = RankReports::EMPTY;
    let (silent_ms, address) = (2_100, Address::from_v4([10, 77, 0, 4]));
    let report = RankReport { silent_ms, behind: 12, port: 4000, address, ..RankReport::new(3, state) };
    assert!(reports.push(report));
    reports
}

#[test]
fn what_is_known_of_a_rank_is_told_in_the_words_of_its_error() {
    let counted = counted(&[(JobEvent::AggregatedBytes, 8)], &[]);
    let late = [Late { rank: 3, since: 1, seen: 2_000_000_001 }];
    let waited = "the others have waited";
    for (state, kind, text) in [
        (
            RankState::Silent,
            "rank-silent",
            "is silent for 2.1s, behind by 12 packets; the others have waited 2.0 s",
        ),
        (RankState::Blocked, "rank-blocked", "its data packets do not get through to the appliance"),
        (RankState::Overtaken, "rank-overtaken", "waits for results that are kept no longer"),
        (RankState::Left, "rank-left", "has left, behind by 12 packets"),
        (RankState::Lost, "rank-lost", "counts as dead: it was silent for 2.1s"),
        (
            RankState::Behind,
            "straggler",
            "for 2.0 s: rank 3 (10.77.0.4 port 4000) is alive, behind by 12 packets.",
        ),
    ] {
        let missing = third(state);
        let known = Evidence {
            status: &RUNNING,
            name: "",
            counted: &counted,
            late: &late,
            terms: Terms::default(),
            neighbours: &[],
            missing: &missing,
            stalled: &[],
            ports: &[],
            now_ns: 0,
        };
        let told = diagnose(&known);
        assert_eq!((kinds(&told), told.reasons[0].rank), (vec![kind], Some(3)));
        let said = &told.reasons[0].text;
        assert!(said.contains(text) && said.contains(waited) && said.contains("10.77.0.4"), "{said}");
        assert!(told.summary.ends_with(said), "{}", told.summary);
    }
}

#[test]
fn ranks_that_are_not_here_are_named_where_they_are_counted() {
    let missing = third(RankState::NeverJoined);
    let status = JobStatus { joined: 3, complete: false, ..RUNNING };
    let told = diagnose(&Evidence {
        status: &status,
        name: "",
        counted: &counted(&[], &[]),
        late: &[],
        terms: Terms::default(),
        neighbours: &[],
        missing: &missing,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    assert_eq!(kinds(&told), ["not-member"]);
    assert!(
        told.summary.ends_with(
            "1 of 4 ranks are not here: the others wait: rank 3 (10.77.0.4 port \
         4000) has never joined."
        ),
        "{}",
        told.summary
    );
}

#[test]
fn an_lcore_that_stalls_comes_before_all_else() {
    let stalled = [Stalled { lcore: 1, time: Duration::from_millis(3210) }];
    let missing = third(RankState::Silent);
    let told = diagnose(&Evidence {
        status: &JobStatus { server: ServerState::Gone, ..RUNNING },
        name: "",
        counted: &counted(&[], &[]),
        late: &[],
        terms: Terms::default(),
        neighbours: &[],
        missing: &missing,
        stalled: &stalled,
        ports: &[],
        now_ns: 0,
    });
    assert_eq!(kinds(&told), ["lcore-stalled", "server-gone", "rank-silent"]);
    assert_eq!(
        told.reasons[0].text,
        "Lcore 1 has not turned for 3.2s: the packets that it is to handle wait."
    );
}
