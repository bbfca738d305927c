#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use super::*;

const MS: u64 = 1_000_000;

fn arrival(at: u64, job: u16, generated: u64) -> Arrival {
    Arrival { at_ns: (1000 + at) * MS, job, generated_ns: (1000 + generated) * MS }
}

#[test]
fn corners_are_where_updates_arrive() {
    let arrivals =
        [arrival(0, 1, 0), arrival(10, 1, 6), arrival(10, 2, 10), arrival(30, 1, 5), arrival(40, 2, 40)];
    let panel = Panel::new("x", &arrivals);
    let rounded = |corners: &Sawtooth| -> Vec<(f64, f64)> {
        corners.iter().map(|(at, age)| ((at * 1e3).round(), age.round())).collect()
    };
    assert_eq!(
        rounded(&panel.clusters[0]),
        // The update from 5 is older than the one from 6: the model does not get younger.
        [(0.0, 0.0), (0.0, 0.0), (10.0, 10.0), (10.0, 4.0), (30.0, 24.0), (30.0, 24.0), (40.0, 34.0)]
    );
    assert_eq!(panel.highest().round().to_bits(), 34.0_f64.to_bits());
    let mean = panel.mean();
    let at = |ms: f64| {
        mean.iter().min_by(|a, b| (a.0 - ms / 1e3).abs().total_cmp(&(b.0 - ms / 1e3).abs())).unwrap().1
    };
    assert!((at(5.0) - 5.0).abs() < 0.1, "one cluster has begun");
    assert!((at(20.0) - 12.0).abs() < 0.1, "14 and 10");
}

#[test]
fn a_picture_has_a_panel_for_each_log() {
    let panel = |title| Panel::new(title, &[arrival(0, 1, 0), arrival(500, 1, 400), arrival(700, 2, 700)]);
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, (1120, 400)).into_drawing_area();
    draw(&area, &[panel("FIFO"), panel("Olaf")]).unwrap();
    drop(area);
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for text in ["FIFO", "Olaf", "Age-of-Model, ms", "time, s", "mean of 2 clusters"] {
        assert!(picture.contains(text), "{text} is missing");
    }
    assert!(picture.matches("<polyline").count() >= 6, "two clusters and their mean, twice");
}

#[test]
fn logs_that_are_none_are_refused() {
    assert!(titled("x").is_err());
    let error = Panel::read("x", Path::new("/no/such/file")).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"));
}

/// A server that was killed has not written its last line to the end.
#[test]
fn a_log_may_end_within_a_line_and_nowhere_else_lack_any() {
    let file = std::env::temp_dir().join(format!("pascaline-aom-{}.jsonl", std::process::id()));
    let line = r#"{"at_ns":1000,"job":1,"generated_ns":900,"count":2}"#;
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Panel::read("x", &file)
    };
    let panel = read(&format!("{line}\n{line}\n{{\"at_ns\":10")).unwrap();
    assert_eq!(panel.clusters[0].len(), 5, "two updates and the end");
    let error = read(&format!("{line}\n{line}\n{{\"at_ns\":10\n{line}\n")).unwrap_err();
    assert!(error.to_string().contains(".jsonl:3:"), "{error}");
    let error = read("{\"at_ns\":10").unwrap_err();
    assert!(error.to_string().contains("has no updates"), "{error}");
    std::fs::remove_file(&file).unwrap();
}
