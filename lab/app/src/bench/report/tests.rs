use super::*;

/// One turn at half the speed, in which the limit was half as high, is as good as the others; medians of
/// either would not show that.
#[test]
fn ratios_are_of_turns() {
    let measured = |mpps: &[f64], testpmd: &[f64]| Measured {
        mpps: mpps.to_vec(),
        testpmd: testpmd.to_vec(),
        testpmd_io: testpmd.to_vec(),
        ..Measured::default()
    };
    let figures = measured(&[10.0, 5.0, 5.0], &[50.0, 25.0, 50.0]).figures(&[40.0, 80.0, 40.0]);
    assert!((figures.ratio - 0.6).abs() < 1e-9, "{figures:?}");
    assert_eq!((figures.mpps, figures.testpmd_mpps, figures.hook_ns), (5.0, 50.0, None));
    // Against the same source, that counts.
    let ring = Measured { macswap: vec![20.0], ..measured(&[10.0], &[100.0]) }.figures(&[50.0]);
    assert!((ring.ratio - 1.0).abs() < 1e-9, "{ring:?}");
}
