use std::time::Duration;

use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{HopStatus, JobStatus, Parent, UplinkState, UplinkStatus};
use pascaline_telemetry::JobEvent;
use pascaline_wire::control::Status;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::trailer::RankReports;

use crate::observe::explain::tests::{RUNNING, counted, judged, kinds};
use crate::observe::explain::{Evidence, Terms, diagnose};

/// A parent that has let a job join.
fn joined() -> UplinkStatus {
    let endpoint = Endpoint {
        port: 0,
        mac: Mac::default(),
        vlan: VlanTags::NONE,
        address: Address::from_v4([10, 0, 1, 254]),
        udp_port: 16420,
        local: Address::from_v4([10, 0, 1, 1]),
        local_udp_port: 16420,
        dscp: 0,
    };
    UplinkStatus {
        parent: Parent { endpoint, rank: 1, ranks: 3, next_hop: None },
        place: 0,
        state: UplinkState::Joined,
        joined: 2,
        workers: 9,
        silent: Duration::from_secs(3),
        hop: None,
        questions: 0,
        demand: None,
    }
}

/// Where a job's sums go, how that stands, and what to do if it does not.
#[test]
fn the_parent_is_named_with_its_state() {
    let joined = joined();
    let at = |state| JobStatus { uplink: Some(UplinkStatus { state, ..joined }), ..RUNNING };
    let events = [
        (JobEvent::AggregatedBytes, 8),
        (JobEvent::SentUp, 5),
        (JobEvent::SentUpAgain, 2),
        (JobEvent::FromAbove, 4),
    ];
    let counts = counted(&events, &[]);
    let updates = diagnose(&Evidence {
        status: &at(UplinkState::Joined),
        name: "",
        counted: &counts,
        late: &[],
        terms: Terms { asynchronous: true, ..Terms::default() },
        neighbours: &[],
        missing: &RankReports::EMPTY,
        stalled: &[],
        ports: &[],
        now_ns: 0,
    });
    let onward = "What leaves goes to 10.0.1.254 port 16420 (rank 1 of 3, joined): 7 packets up, 4 down.";
    assert!(updates.summary.ends_with(onward) && updates.reasons.is_empty(), "{updates:?}");
    let whole = judged(&at(UplinkState::Joined), &counts, &[]);
    let sums =
        "Its sums go to 10.0.1.254 port 16420 (rank 1 of 3, joined): 7 packets up, 2 of them again, 4 down.";
    assert_eq!(whole.summary, format!("Job 7 is aggregated here: 8 bytes, all of it. {sums}"));
    assert_eq!(kinds(&whole), [""; 0]);
    let elsewhere = JobStatus { uplink: Some(UplinkStatus { place: 1, ..joined }), ..RUNNING };
    let told = judged(&elsewhere, &counts, &[]).summary;
    assert!(told.contains("16420 (a backup, rank 1 of 3, joined)"), "{told}");
    for (state, kind, says) in [
        (UplinkState::NoAnswer, "parent-silent", "has not answered for 3.0 s"),
        (UplinkState::Refused(Status::SourceRefused), "parent-refuses", "as rank 1 of 3: "),
        (UplinkState::Pending, "parent-pending", "2 of 3 ranks have joined"),
    ] {
        let told = judged(&at(state), &counts, &[]);
        assert_eq!(kinds(&told), [kind]);
        assert!(told.reasons[0].text.contains(says) && told.summary.contains("10.0.1.254"), "{told:?}");
    }
}

/// Where nobody says its MAC, that is the reason, and it is said whose.
#[test]
fn who_does_not_say_the_mac_is_named() {
    let counts = counted(&[], &[]);
    for (last, silent, kind, says) in [
        (254, 3, "parent-unreachable", "port 16420: parent 10.0.1.254 does not answer ARP. The ranks wait."),
        (1, 3, "parent-unreachable", "router 10.0.1.1 does not answer ARP"),
        (254, 0, "parent-silent", "has not answered for 3.0 s"),
    ] {
        let hop =
            HopStatus { address: Address::from_v4([10, 0, 1, last]), silent: Duration::from_secs(silent) };
        let uplink = UplinkStatus { state: UplinkState::NoAnswer, hop: Some(hop), ..joined() };
        let told = judged(&JobStatus { uplink: Some(uplink), ..RUNNING }, &counts, &[]);
        assert_eq!(kinds(&told), [kind]);
        assert!(told.reasons[0].text.contains(says), "{told:?}");
    }
}

/// A parent whose job has another key, or another security.
#[test]
fn a_parent_that_cannot_open_packets_is_named_with_what_it_demands() {
    for (demand, says) in
        [(Some(1), r#"security = "mac", or another key"#), (Some(0), r#"security = "none""#)]
    {
        let uplink = UplinkStatus { state: UplinkState::NoAnswer, demand, ..joined() };
        let told = judged(&JobStatus { uplink: Some(uplink), ..RUNNING }, &counted(&[], &[]), &[]);
        assert_eq!(kinds(&told), ["parent-unproven"]);
        assert!(told.reasons[0].text.contains(says), "{told:?}");
    }
}
