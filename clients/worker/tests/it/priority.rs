//! DSA's equation 1 against values worked out by hand, and how its factors are measured.

use std::time::Duration;

use pascaline_worker::Hints;
use pascaline_worker::priority::{LEAST_REMAINING, Meter, priority, quantise};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_equation() {
    // 1/0.1 s × 50/1 × 30/20 = 750 per second.
    assert!((priority(ms(100), (1, 50), ms(30), ms(20)) - 750.0).abs() < 1e-9);
    // The last layer: 1/0.1 × 50/50 × 30/20 = 15.
    assert!((priority(ms(100), (50, 50), ms(30), ms(20)) - 15.0).abs() < 1e-9);
    // DSA's models A and B with as much communication as computation: 12 layers, layer 4, 2 s left: 0.5 × 3 ×
    // 1.
    assert!((priority(ms(2_000), (4, 12), ms(7), ms(7)) - 1.5).abs() < 1e-9);
    // Twice the remaining time is half the priority; so is twice the computation.
    assert!((priority(ms(200), (1, 50), ms(30), ms(20)) - 375.0).abs() < 1e-9);
    assert!((priority(ms(100), (1, 50), ms(30), ms(40)) - 375.0).abs() < 1e-9);
    // Nothing is infinite.
    assert!(priority(Duration::ZERO, (0, 0), ms(1), Duration::ZERO).is_finite());
}

#[test]
fn quantised_to_sixteenths_of_a_hertz() {
    for (exact, expected) in [
        (750.0, 12_000),
        (15.0, 240),
        (1.5, 24),
        (1.0 / 16.0, 1),
        (0.0, 1),
        (1.0 / 11.0, 1),
        (1.0 / 10.0, 2),
        (50.0 / 0.0125, 64_000),
        (50.0 / 0.012, u16::MAX),
        (f64::INFINITY, u16::MAX),
        (f64::NAN, 1),
    ] {
        assert_eq!(quantise(exact), expected, "{exact}");
    }
}

/// An epoch of 100 ms: 40 ms forward, then for each of three layers 10 ms backward and 10 ms of allreduce.
fn epoch(meter: &mut Meter, start: Duration, layer_of: impl Fn(u32) -> Hints) -> [u16; 3] {
    let mut now = start + ms(40);
    [3, 2, 1].map(|layer| {
        now += ms(10);
        let priority = meter.begin(now, layer_of(layer));
        now += ms(10);
        meter.end(now);
        priority
    })
}

#[test]
fn epochs_are_measured_while_the_job_runs() {
    let layers = |layer| Hints { layer, layers: 3, remaining: None };
    let mut meter = Meter::default();
    // Nothing is known: 1 s remains and the ratio is 1, so 16 × 3/l.
    assert_eq!(epoch(&mut meter, ms(0), layers), [16, 24, 48]);
    // The first epoch's beginning was not seen, so it is no measure.
    assert_eq!(epoch(&mut meter, ms(100), layers), [16, 24, 48]);
    // 30 ms of communication to 70 ms of computation, and 50, 30, 10 ms remain:
    // 16 × 1/0.05 × 3/3 × 3/7 = 137.1; 16 × 1/0.03 × 3/2 × 3/7 = 342.9; 16 × 1/0.01 × 3/1 × 3/7 = 2057.1.
    assert_eq!(epoch(&mut meter, ms(200), layers), [137, 343, 2057]);
    // What the caller knows goes before what is measured: 16 × 1/0.25 × 3/l × 3/7.
    let told = |layer| Hints { remaining: Some(ms(250)), ..layers(layer) };
    assert_eq!(epoch(&mut meter, ms(300), told), [27, 41, 82]);
}

#[test]
fn an_epoch_that_takes_longer_is_about_to_end() {
    let mut meter = Meter::default();
    let mut now = ms(0);
    let mut last = 0;
    // Without layers every allreduce is an epoch: 90 ms of computation, 10 ms of communication.
    for _ in 0..4 {
        now += ms(90);
        last = meter.begin(now, Hints::default());
        now += ms(10);
        meter.end(now);
    }
    // 16 × 1/0.01 × 1/9 = 177.8
    assert_eq!(last, 178);
    now += ms(10_000);
    let late = meter.begin(now, Hints::default());
    assert_eq!(late, quantise(priority(LEAST_REMAINING, (1, 1), ms(10), ms(90))));
}

#[test]
fn the_newest_epoch_counts_for_an_eighth() {
    let mut meter = Meter::default();
    let mut now = ms(0);
    let mut run = |computation: u64, communication: u64| {
        now += ms(computation);
        let priority = meter.begin(now, Hints { remaining: Some(ms(1_000)), ..Hints::default() });
        now += ms(communication);
        meter.end(now);
        priority
    };
    run(10, 10);
    run(10, 10);
    assert_eq!(run(90, 170), 16, "ratio 1");
    // (7 × 10 + 170)/8 to (7 × 10 + 90)/8: 30 to 20.
    assert_eq!(run(1, 1), 24);
}

#[test]
fn a_failed_allreduce_is_no_measure() {
    let mut meter = Meter::default();
    meter.begin(ms(0), Hints::default());
    meter.abandon();
    assert_eq!(meter.begin(ms(500), Hints::default()), 16, "as if it were the first");
}

#[test]
fn layers_out_of_range_count_as_the_nearest() {
    let begin =
        |layer, layers| Meter::default().begin(ms(0), Hints { layer, layers, remaining: Some(ms(100)) });
    assert_eq!(begin(0, 5), begin(1, 5));
    assert_eq!(begin(6, 5), begin(5, 5));
    assert_eq!(begin(7, 0), begin(1, 1));
}
