use super::*;

/// A fixed window keeps its share; PANAMA's gives back. Both show in the picture.
#[test]
fn control_makes_the_difference() {
    let fixed = Row::of(ROWS[0].0, ROWS[0].1).unwrap();
    let panama = Row::of(ROWS[1].0, ROWS[1].1).unwrap();
    assert!(fixed.fairness < 0.2, "{:?}", fixed.shares);
    assert!(panama.fairness > 0.8, "{:?}", panama.shares);
    assert!(panama.wait_us < fixed.wait_us / 2.0, "{} of {}", panama.wait_us, fixed.wait_us);
    let picture = picture_of(&[fixed.panel(), panama.panel()], "time, ms").unwrap();
    assert!(picture.contains("panama") && picture.contains("job 2"));
}
