//! Two groups of clusters of which one sends more often (Olaf, table 3): the effect of transmission control,
//! as docs/olaf.md states it.
#![allow(clippy::expect_used, reason = "a test that cannot continue stops")]

use std::time::Duration;

use super::super::{Outcome, Scheme, Senders, Table3};
use pascaline_queue::Discipline;
use pascaline_worker::asynchronous::{Policy, Slope};

const EVERY: [Senders; 3] = [Senders::Locked, Senders::TENTH, Senders::Poisson];
const PAPER: [Policy; 2] = [
    Policy::Olaf { slope: Slope::Urgency, threshold: Duration::from_millis(400) },
    Policy::Olaf { slope: Slope::Fairness, threshold: Duration::from_millis(400) },
];

fn run(senders: Senders, discipline: Discipline, policy: Policy) -> Outcome {
    let experiment = Table3 {
        seed: 3,
        runs: 2,
        lasts: Duration::from_secs(60),
        slow: Duration::from_millis(300),
        edge_kbps: [10_000; 2],
        last_kbps: 1000,
    };
    experiment.run(senders, Scheme { discipline, policy }).expect("a queue")
}

fn olaf(senders: Senders, policy: Policy) -> Outcome {
    run(senders, Discipline::Olaf, policy)
}

#[test]
fn olaf_loses_less_and_is_fresher_than_fifo() {
    for senders in EVERY {
        let fifo = run(senders, Discipline::Fifo, Policy::AtWill);
        let olaf = olaf(senders, Policy::AtWill);
        assert!(
            fifo.lost_pct > 80.0 && olaf.lost_pct < fifo.lost_pct / 5.0,
            "{senders:?}: {fifo:?} {olaf:?}"
        );
        assert!(
            (0..2).all(|group| olaf.aom_ms[group] < fifo.aom_ms[group]),
            "{senders:?}: {fifo:?} {olaf:?}"
        );
    }
}

/// P_s thins all clusters alike: those that send rarely stay behind.
#[test]
fn the_papers_control_saves_updates_and_some_loss_and_makes_nothing_fairer() {
    for senders in [Senders::TENTH, Senders::Poisson] {
        let without = olaf(senders, Policy::AtWill);
        for policy in PAPER {
            let with = olaf(senders, policy);
            let share = with.sent / with.updates;
            assert!((0.79..0.82).contains(&share), "Q_max / N is 0.8: {share}");
            assert!(with.lost_pct < without.lost_pct, "{senders:?}: {with:?}");
            assert!(with.jain < without.jain, "{senders:?}: {with:?} against {without:?}");
        }
    }
}

#[test]
fn the_servers_pauses_make_clusters_equally_old_at_no_more_loss() {
    for senders in EVERY {
        let without = olaf(senders, Policy::AtWill);
        let paced = olaf(senders, Policy::Paced);
        assert!(paced.jain >= 0.99, "{senders:?}: {paced:?}");
        assert!(paced.lost_pct <= without.lost_pct, "{senders:?}: {paced:?} against {without:?}");
        assert!(
            paced.aom_ms[1] < without.aom_ms[1],
            "those that were behind gain: {paced:?} against {without:?}"
        );
    }
    // Where the line is always busy it stays so.
    let (without, paced) = (olaf(Senders::Poisson, Policy::AtWill), olaf(Senders::Poisson, Policy::Paced));
    assert!((without.received - paced.received).abs() < 0.001 * without.received);
}

#[test]
fn a_seed_says_everything() {
    let again = olaf(Senders::Poisson, PAPER[0]);
    assert_eq!(again, olaf(Senders::Poisson, PAPER[0]));
}
