use super::*;

#[test]
fn ticks_become_nanoseconds() {
    assert_eq!(Scale::new(1_000_000_000).nanoseconds(123_456), 123_456);
    assert_eq!(Scale::new(2_000_000_000).nanoseconds(7), 3);
    assert_eq!(Scale::new(25_000_000).nanoseconds(25_000_000), 1_000_000_000);
}

#[test]
fn a_year_is_right_to_the_microsecond_per_hour() {
    let hz = 2_893_202_000_u64;
    let hours = 24 * 365;
    let got = Scale::new(hz).nanoseconds(hz * 3600 * hours);
    let exact = 1_000_000_000 * 3600 * hours;
    assert!(exact.abs_diff(got) < 1_000 * hours, "off by {} ns", exact.abs_diff(got));
}

#[test]
fn nothing_overflows_at_the_end_of_the_counter() {
    assert!(Scale::new(5_000_000_000).nanoseconds(u64::MAX) > u64::MAX / 6);
}
