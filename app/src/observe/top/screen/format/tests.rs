use super::*;

#[test]
fn numbers_have_three_digits_and_a_unit() {
    assert_eq!(bits(0.0), "0 bit/s");
    assert_eq!(bits(125.0), "1.00 kbit/s");
    assert_eq!(bits(1.5625e9), "12.5 Gbit/s");
    assert_eq!(rate(999.6), "1.00 k/s");
    assert_eq!((count(99_999), count(1_234_567)), ("99999".to_owned(), "1.23 M".to_owned()));
    assert_eq!(
        (seconds(1.5e-5), seconds(0.25), seconds(3.0)),
        ("15 µs".into(), "250.0 ms".into(), "3.0 s".into())
    );
    assert_eq!(
        (span(59.9), span(3725.0), span(90_000.0)),
        ("59 s".into(), "1 h 2 min".into(), "1 d 1 h".into())
    );
    assert_eq!(percent(0.256), "26 %");
}
