//! Figures are sound before they are read.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::collections::HashSet;

use indicatif::ProgressBar;

use super::figure::{Curves, Figure, Row, Scope, distribution, quantile};
use super::{PaperArgs, draw, entries, report, report_failures, run};

fn scope() -> Scope {
    Scope { seeds: Some(2), quick: true, bar: ProgressBar::hidden() }
}

#[test]
fn names_are_different() {
    let names: HashSet<_> = entries().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entries().count());
}

/// The independent check's losses, with Poisson senders: within two points.
#[test]
fn table_1_loses_what_it_must() {
    let entry = entries().find(|entry| entry.name == "olaf-table-1").unwrap();
    let figure = (entry.make)(&scope()).unwrap();
    for (point, fifo, olaf) in [(40, 32.0, 0.0), (20, 65.2, 0.9), (5, 91.0, 6.6)] {
        for (name, known) in [("FIFO lost", fifo), ("Olaf lost", olaf)] {
            let at = format!("{point} Gbit/s out");
            let row = figure.rows.iter().find(|row| row.point == at && row.name == name).unwrap();
            assert!((row.mean - known).abs() < 2.0, "{at}, {name}: {}", row.mean);
        }
    }
}

/// The same seeds give the same rows, on any threads.
#[test]
fn what_is_made_again_is_the_same() {
    for name in ["olaf-fig-6", "olaf-table-3"] {
        let entry = entries().find(|entry| entry.name == name).unwrap();
        let [once, again] = [0, 1].map(|_| (entry.make)(&scope()).unwrap().json(name));
        assert_eq!(once, again, "{name}");
    }
}

#[test]
fn deviations_are_of_the_papers_number() {
    let row = |unit, mean: f64| Row::of("", "", &[mean], unit).paper(50.0);
    assert_eq!(row("ms", 60.0).deviates(), "+20.0 %");
    assert_eq!(row("%", 60.0).deviates(), "+10.0 points");
    assert!(row("ms", 60.0).unexplained() && !row("ms", 60.0).because("so").unexplained());
    assert!(!row("ms", 54.0).unexplained());
    // 70 ± 10 may be 50 by chance, 75 ± 10 may not.
    let seeds = |mean: f64| Row::of("", "", &[mean - 10.0, mean + 10.0], "ms").paper(50.0);
    assert!(!seeds(70.0).unexplained() && seeds(75.0).unexplained());
    let spread = Row::of("", "", &[1.0, 2.0, 3.0], "");
    assert!((spread.mean - 2.0).abs() < 1e-12 && (spread.error - 1.0 / 3f64.sqrt()).abs() < 1e-12);
}

/// One figure that cannot be made, or with invalid numbers, does not affect the report of the others.
#[test]
fn what_is_broken_is_counted_and_reported() {
    let entry = entries().next().unwrap();
    let rows = [f64::NAN, f64::INFINITY, 1.0].map(|mean| Row::of("", "", &[mean], "ms")).into();
    let lines = vec![("line".to_owned(), vec![(f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, 1.0)])];
    let curves = Some(Curves { x: "", y: "", lines });
    let made = |figure| Ok(report::Made { entry, figure, took: Default::default() });
    let sound = Figure { rows: vec![Row::of("", "", &[1.0], "")], ..Figure::default() };
    let each = vec![made(Figure { seeds: 1, rows, curves }), made(sound), Err(anyhow::anyhow!("no"))];
    let (made, failed) = report_failures(each);
    let json = report::json(&made, failed, true, Default::default());
    assert_eq!((json["broken"].as_u64(), json["names"].as_array().unwrap().len()), (Some(2), 2), "{json}");
    let into = std::env::temp_dir().join(format!("pascaline-broken-{}", std::process::id()));
    report::write(&into, &made, true, &json).unwrap();
    assert!(std::fs::read_to_string(into.join("report.md")).unwrap().contains("NaN"));
    std::fs::remove_dir_all(&into).unwrap();
}

/// --seeds is refused where there are none, instead of passing one run off as many.
#[test]
fn seeds_of_one_run_are_refused() {
    let args = |what: &str| PaperArgs {
        what: what.to_owned(),
        seeds: Some(5),
        quick: true,
        json: false,
        picture: None,
        out: Default::default(),
    };
    let unseeded: Vec<&str> = entries().filter(|entry| !entry.seeded).map(|entry| entry.name).collect();
    assert_eq!(unseeded.len(), 6, "{unseeded:?}");
    for name in unseeded {
        let error = run(&args(name)).unwrap_err().to_string();
        assert!(error.contains("--seeds: ") && error.contains("remedy"), "{error}");
    }
}

/// A row that has fewer seeds than its figure says so.
#[test]
fn knobs_tell_how_many_seeds_they_have() {
    let entry = entries().find(|entry| entry.name == "olaf-table-3").unwrap();
    let figure = (entry.make)(&Scope { seeds: Some(4), ..scope() }).unwrap().json("olaf-table-3");
    let rows = figure["rows"].as_array().unwrap();
    let of = |begins: &str| {
        let row = rows.iter().find(|row| row["point"].as_str().unwrap().starts_with(begins));
        row.unwrap()["seeds"].as_u64()
    };
    assert_eq!((figure["seeds"].as_u64(), of("FIFO"), of("knob: SW3")), (Some(4), Some(4), Some(3)));
}

#[test]
fn a_number_that_is_none_is_found() {
    let figure = |mean| Figure { rows: vec![Row::of("", "", &[mean], "")], ..Figure::default() };
    assert!(figure(f64::NAN).broken() && !figure(1.0).broken() && Figure::default().broken());
}

#[test]
fn distributions_end_with_all() {
    let points = distribution((0u32..1000).map(f64::from).collect());
    assert_eq!(points.last(), Some(&(999.0, 1.0)));
    assert!(points.len() <= 100 && points.windows(2).all(|pair| pair[0].1 < pair[1].1));
    assert!((quantile(&[3.0, 1.0, 2.0], 0.5) - 2.0).abs() < 1e-12);
}

/// A picture has a bar's number and a tick for the paper's.
#[test]
fn pictures_and_reports_have_what_was_made() {
    let row = Row::of("here & <there>", "it", &[1.5], "ms").paper(2.0).because("why");
    let figure = Figure { seeds: 5, rows: vec![row.seeded(3)], curves: None };
    let picture = draw::svg(&figure).unwrap();
    assert!(picture.contains("1.500") && picture.contains("the paper") && !picture.contains("<there>"));
    let made = vec![report::Made { entry: entries().next().unwrap(), figure, took: Default::default() }];
    let into = std::env::temp_dir().join(format!("pascaline-papers-{}", std::process::id()));
    report::write(&into, &made, true, &report::json(&made, 0, true, Default::default())).unwrap();
    let markdown = std::fs::read_to_string(into.join("report.md")).unwrap();
    let html = std::fs::read_to_string(into.join("report.html")).unwrap();
    std::fs::remove_dir_all(&into).unwrap();
    assert!(markdown.contains("; 5 seeds.") && markdown.contains("| it (3 seeds) |"), "{markdown}");
    assert!(markdown.contains("| 1.500 | 0.000 | ms | 2 | -25.0 % | [1] |\n\n1. why"), "{markdown}");
    assert!(html.contains("<svg") && html.contains("here &amp; &lt;there&gt;"));
}
