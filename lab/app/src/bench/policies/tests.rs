#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use crate::experiments::policies::Part;
use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: PoliciesArgs,
}

fn experiment(line: &str) -> Experiment {
    let words = core::iter::once("policies").chain(line.split_whitespace());
    Command::try_parse_from(words).unwrap().args.experiment()
}

#[test]
fn quick_gives_way_to_explicit_options() {
    let of = |line| {
        let Experiment { seed, runs, scale, poll_us, loss } = experiment(line);
        (seed, runs, scale, poll_us, loss)
    };
    assert_eq!(of(""), (1, 3, 1, 1, 0));
    assert_eq!(of("--quick"), (1, 1, 32, 1, 0));
    assert_eq!(of("--quick --runs 5 --seed 9"), (9, 5, 32, 1, 0));
    assert_eq!(of("--scale 4 --host-jitter 10 --loss 100"), (1, 3, 4, 10, 100));
}

/// Everything that is needed to repeat a cell, and what it showed.
#[test]
fn the_report_has_every_cell_with_its_setting() {
    let experiment = experiment("--scale 1000 --runs 1");
    let comparison = experiment.compare(&|_, _| {}).unwrap();
    let report = json::report(&experiment, &comparison);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), comparison.rows.len());
    let main = cells.iter().filter(|cell| cell["part"] == Part::Main.name());
    assert_eq!(main.count(), 2 * 3 * 20);
    for cell in cells {
        assert_eq!(cell["verified"], cell["expected"], "{cell}");
        assert!(cell["completion_ms"].as_f64() > Some(0.0), "{cell}");
    }
    assert_eq!(report["verified"], report["expected"]);
    assert_eq!((&report["violations"], &report["scale"]), (&0.into(), &1000.into()));
    assert_eq!(report["paper"].as_array().unwrap().len(), 14);
    assert_eq!(report["ranking"][0]["times_best"].as_f64().map(|times| times < 1.5), Some(true));
}
