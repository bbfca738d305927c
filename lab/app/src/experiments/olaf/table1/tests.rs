//! Olaf's microbenchmark in virtual time: invariants, and the documentation's statements about the paper's
//! figures.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot continue stops")]

use super::super::{Arrivals, Hold, PAPER, Row, SECOND, Table1, Workload};

const SENT: f64 = 13_500.0;

const EVERY: [Arrivals; 7] = [
    Arrivals::Poisson,
    Arrivals::Periodic,
    Arrivals::Locked,
    Arrivals::Bursts(2),
    Arrivals::Bursts(10),
    Arrivals::Bursts(50),
    Arrivals::Trains(128),
];

fn rows(seed: u64, arrivals: Arrivals, hold: Hold) -> Vec<Row> {
    Table1 { seed, runs: 2 }.rows_holding(arrivals, hold).expect("rows")
}

#[test]
fn with_poisson_arrivals_olaf_loses_at_most_a_tenth_of_what_fifo_loses() {
    for seed in 0..5 {
        let rows = rows(seed, Arrivals::Poisson, Hold::UntilBegun);
        assert_eq!(rows.iter().map(|row| row.out_gbps).collect::<Vec<_>>(), [40, 20, 5]);
        for row in rows {
            assert!(row.fifo.lost_pct > 25.0, "at {} Gbit/s nothing is lost", row.out_gbps);
            assert!(row.olaf.lost_pct <= row.fifo.lost_pct / 10.0, "seed {seed}: {row:?}");
        }
    }
}

#[test]
fn every_update_is_received_or_part_of_another_or_lost() {
    for arrivals in EVERY {
        for hold in [Hold::UntilBegun, Hold::UntilSent] {
            for row in rows(1, arrivals, hold) {
                let lost = |percent: f64| percent / 100.0 * SENT;
                let fifo = row.fifo.received + lost(row.fifo.lost_pct);
                let olaf = row.olaf.received + row.olaf.aggregated + lost(row.olaf.lost_pct);
                assert!((fifo - SENT).abs() < 1e-6 && (olaf - SENT).abs() < 1e-6, "{row:?}");
            }
        }
    }
}

/// A line does not carry more than its rate, and in an overload that never pauses not much less.
#[test]
fn a_line_carries_its_rate() {
    for row in rows(1, Arrivals::Poisson, Hold::UntilBegun) {
        let most = SENT * f64::from(row.out_gbps) / 60.0;
        for received in [row.fifo.received, row.olaf.received] {
            assert!(received > 0.98 * most && received < 1.1 * most, "{received} of {most}");
        }
    }
}

#[test]
fn olaf_is_fresher_with_every_kind_of_arrivals() {
    for arrivals in EVERY {
        for row in rows(1, arrivals, Hold::UntilBegun) {
            assert!(row.olaf.aom_ms < row.fifo.aom_ms, "{row:?}");
            assert!(row.olaf.lost_pct < row.fifo.lost_pct / 5.0, "{row:?}");
        }
    }
}

#[test]
fn a_seed_says_everything() {
    let draw = |seed| rows(seed, Arrivals::Poisson, Hold::UntilBegun);
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn figure_6_shifts_to_the_right_as_the_line_becomes_narrower() {
    let rows = rows(1, Arrivals::Poisson, Hold::UntilBegun);
    let alone: Vec<_> = rows.iter().map(|row| row.olaf.aggregations_cdf[0]).collect();
    assert!(alone[0] > alone[1] && alone[1] > alone[2], "those with no aggregation: {alone:?}");
    for row in rows {
        let cdf = &row.olaf.aggregations_cdf;
        assert!(cdf.is_sorted() && cdf.last() == Some(&1.0));
    }
}

/// As docs/olaf.md has it: the FIFO rows of Table 1 are those of trains of 128 updates at the rate of the
/// testbed's ports.
#[test]
fn trains_of_128_give_the_papers_fifo_rows() {
    let rows = rows(1, Arrivals::Trains(128), Hold::UntilSent);
    for (row, paper) in rows.iter().zip(PAPER) {
        assert_eq!(row.paper(), Some(&paper));
        let off = row.fifo.received / f64::from(paper.fifo_received) - 1.0;
        assert!(off.abs() < 0.02, "{row:?} is off by {off}");
    }
}

/// As docs/olaf.md has it: where all send at once, eight of nine clusters get in, always the same, at any
/// rate.
#[test]
fn locked_senders_cost_olaf_one_cluster_of_nine() {
    for row in rows(1, Arrivals::Locked, Hold::UntilBegun) {
        assert!((row.olaf.lost_pct - 100.0 / 9.0).abs() < 0.1, "{row:?}");
    }
}

#[test]
fn workers_send_what_the_workload_says() {
    let load = Workload { workers: 5, updates: 2000, bits: 2048, offered_gbps: 60, line_gbps: 100 };
    for arrivals in EVERY {
        let all = arrivals.draw(&load, 3);
        assert!(all.is_sorted());
        for worker in 0..5 {
            assert_eq!(all.iter().filter(|arrival| arrival.worker == worker).count(), 2000, "{arrivals}");
        }
        let seconds = all.last().unwrap().at as f64 / SECOND as f64;
        let gbps = 10_000.0 * 2048.0 / seconds / 1e9;
        // The slowest worker ends the run; how slow it is depends on how many times it threw its dice.
        let throws: f64 = match arrivals {
            Arrivals::Poisson => 2000.0,
            Arrivals::Bursts(burst) => 2000.0 / f64::from(burst),
            Arrivals::Periodic | Arrivals::Locked | Arrivals::Trains(_) => f64::INFINITY,
        };
        assert!((gbps / 60.0 - 1.0).abs() < 0.02 + 3.0 / throws.sqrt(), "{arrivals}: {gbps}");
    }
}

#[test]
fn bursts_and_trains_keep_to_the_rate_of_their_line() {
    let load = Workload { workers: 3, updates: 500, bits: 2048, offered_gbps: 60, line_gbps: 100 };
    let gaps = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    // 2,048 bits at 100 Gbit/s, in ticks.
    let spacing = 20_480;
    let all = Arrivals::Trains(50).draw(&load, 3);
    let gaps_of_all = gaps(all.iter().map(|arrival| arrival.at).collect());
    let within = |gap: &&u64| gap.abs_diff(spacing) <= 1;
    assert_eq!(gaps_of_all.iter().filter(within).count(), 1500 - 30);
    assert!(gaps_of_all.iter().all(|gap| *gap + 1 >= spacing));
    let all = Arrivals::Bursts(50).draw(&load, 3);
    let one = all.iter().filter(|arrival| arrival.worker == 1).map(|arrival| arrival.at).collect();
    assert!(gaps(one).iter().filter(within).count() >= 500 - 10);
}
