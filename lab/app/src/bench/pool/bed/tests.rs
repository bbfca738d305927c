use super::ratio;

/// The machine becomes slow in the middle of a round: medians of either side would say 20.
#[test]
fn a_slow_moment_is_in_both_sides() {
    let (bare, pool) = ([2.0, 2.0, 20.0], [4.0, 40.0, 40.0]);
    assert!((ratio(&bare, &pool) - 2.0).abs() < 1e-9);
}
