use super::*;
use pascaline_telemetry::{Format, Telemetry};

fn counters(change: impl FnOnce(&mut Counters)) -> Counters {
    let mut counters = Counters::default();
    change(&mut counters);
    counters
}

#[test]
fn a_scrape_has_every_outcome_reason_and_job() {
    let published = Published::default();
    published.publish(Snapshot {
        counters: counters(|it| (it.received, it.added, it.late, it.finished) = (9, 5, 4, 2)),
        jobs_refused: 1,
        jobs: vec![(
            7,
            Usage { open: 3, cached: 2, bytes: 640, timeout: std::time::Duration::from_millis(20) },
        )],
        driver: vec![Count { name: "ps_no_buffer", help: "h", value: 6 }],
        asynchronous: Some(AsyncSnapshot {
            clusters: vec![ClusterSnapshot {
                job: 8,
                version: 4,
                reward: Some(1.5),
                age: Some(Ages { average: 0.25, mean_peak: 0.5, highest_peak: 0.75, current: 0.125 }),
            }],
            fairness: 0.5,
            checkpoints: Some((3, 0)),
            counters: pascaline_ps::asynchronous::AsyncCounters::default(),
        }),
    });
    let text = Telemetry::new(vec![], vec![], Box::new(published)).scrape(Format::OpenMetrics).unwrap();
    for line in [
        "pascaline_ps_received_packets_total 9.0",
        "pascaline_ps_handled_packets_total{outcome=\"added\"} 5.0",
        "pascaline_ps_handled_packets_total{outcome=\"late\"} 4.0",
        "pascaline_ps_entries_ended_total{how=\"finished\"} 2.0",
        "pascaline_ps_jobs_refused_total 1.0",
        "pascaline_ps_no_buffer_total 6.0",
        "pascaline_ps_open_entries{job_id=\"7\"} 3.0",
        "pascaline_ps_payload_bytes{job_id=\"7\"} 640.0",
        "pascaline_ps_timeout_seconds{job_id=\"7\"} 0.02",
        "pascaline_ps_updates_total{verdict=\"applied\"} 0.0",
        "pascaline_ps_checkpoints_total{how=\"written\"} 3.0",
        "pascaline_ps_model_version{job_id=\"8\"} 4.0",
        "pascaline_ps_reward{job_id=\"8\"} 1.5",
        "pascaline_aom_seconds{job_id=\"8\"} 0.25",
        "pascaline_aom_peak_seconds{job_id=\"8\"} 0.5",
        "pascaline_aom_highest_peak_seconds{job_id=\"8\"} 0.75",
        "pascaline_aom_current_seconds{job_id=\"8\"} 0.125",
        "pascaline_aom_jain 0.5",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    for reason in RejectReason::ALL {
        assert!(text.contains(&format!("refused_packets_total{{reason=\"{}\"}}", reason.name())));
    }
    for reason in Malformed::ALL {
        assert!(text.contains(&format!("malformed_packets_total{{reason=\"{}\"}}", reason.name())));
    }
}

#[test]
fn a_report_has_the_counters_without_their_prefix() {
    let snapshot =
        Snapshot { counters: counters(|it| (it.received, it.fetches_sent) = (9, 3)), ..Snapshot::default() };
    let report = snapshot.report();
    assert_eq!(report["received_packets"], 9);
    assert_eq!(report["sent_packets"]["fetch"], 3);
    assert_eq!(report["refused_packets"]["overlap"], 0);
    assert!(report.get("open_entries").is_none(), "{report}");
}
