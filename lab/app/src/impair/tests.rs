use super::percent;

#[test]
fn percentages_are_between_0_and_100() {
    assert_eq!(percent("0"), Ok(0.0));
    assert_eq!(percent("1.5"), Ok(1.5));
    assert_eq!(percent("100"), Ok(100.0));
    for bad in ["-1", "100.1", "NaN", "inf", "1%", ""] {
        assert!(percent(bad).is_err(), "{bad}");
    }
}
