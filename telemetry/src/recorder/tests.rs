use super::*;

#[test]
fn everything_recorded_is_collected_once() {
    let (mut recorder, mut reader) = recorder().unwrap();
    for round in 1..=100u64 {
        recorder.record(round * 1000, 2);
        recorder.publish();
        if round % 3 == 0 {
            reader.collect();
        }
    }
    for _ in 0..2 {
        recorder.publish();
        reader.collect();
    }
    assert_eq!(reader.histogram().len(), 200);
    let exact = 2.0 * 1000.0 * 5050.0;
    #[allow(clippy::cast_precision_loss)]
    let error = (reader.total_ns() as f64 - exact).abs() / exact;
    assert!(error < 0.01, "{error}");
}

/// So that values are distinguished as well as it does.
#[test]
fn values_have_the_places_that_a_histogram_has_for_them() {
    let histogram = histogram().unwrap();
    let mut value = 1;
    while value < LONGEST_NS {
        for value in [value, value + value / 3, value * 2 - 1] {
            let value = value.min(LONGEST_NS);
            assert_eq!(least(place(value)), histogram.lowest_equivalent(value), "{value}");
            assert!(place(value) < PLACES);
        }
        value *= 2;
    }
}

#[test]
fn times_beyond_the_range_count_as_the_longest() {
    let (mut recorder, mut reader) = recorder().unwrap();
    recorder.record(0, 1);
    recorder.record(u64::MAX, 1);
    recorder.publish();
    reader.collect();
    assert_eq!(reader.histogram().len(), 2);
    assert!(reader.histogram().max() >= LONGEST_NS);
}
