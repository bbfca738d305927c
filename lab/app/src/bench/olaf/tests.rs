#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use super::*;

/// Checks what the queue does; times are not judged.
#[test]
fn every_measurement_is_valid() {
    for combine in [Combine::Sum, Combine::Mean] {
        for shape in SHAPES {
            let nanos = measure(shape, combine, 2).unwrap();
            assert_eq!((nanos.clusters, nanos.queue_len), shape);
            assert!(nanos.bare_add_ns > 0.0 && nanos.enqueue_dequeue_ns > 0.0);
        }
    }
}

#[test]
fn rows_say_what_the_paper_has_beside_what_was_seen() {
    let experiment = Table1 { seed: 1, runs: 1 };
    let rows: Vec<_> = experiment.rows(Arrivals::Bursts(5)).unwrap().iter().map(TableRow::from).collect();
    let row = serde_json::to_value(&rows[1]).unwrap();
    assert_eq!(
        (&row["arrivals"], &row["burst"], &row["out_gbps"]),
        (&"bursts".into(), &5.into(), &20.into())
    );
    assert_eq!(row["paper_olaf_aggregated"], 9343);
    assert!(row["olaf"]["lost_pct"].as_f64() < row["fifo"]["lost_pct"].as_f64());
    let narrowest = serde_json::to_value(&rows[2]).unwrap();
    assert!(narrowest["paper_fifo_received"].is_null(), "the paper has no row for 5 Gbit/s");
}
