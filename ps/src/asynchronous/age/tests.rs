use super::*;

#[test]
fn the_area_under_a_sawtooth() {
    let mut age = Age::default();
    assert_eq!(age.average(0), 0.0);
    assert_eq!(age.average(10), 5.0);
    age.receive(10, 6);
    // 50 up to 10; then from 4 to 8.
    assert_eq!(age.average(14), (50.0 + 24.0) / 14.0);
    age.receive(14, 2);
    assert_eq!(age.average(16), (50.0 + 24.0 + 18.0) / 16.0, "an older one makes nothing younger");
    age.receive(16, 16);
    assert_eq!(age.average(20), (50.0 + 24.0 + 18.0 + 8.0) / 20.0);
    assert_eq!((age.mean_peak(), age.highest_peak()), (10.0, 10), "at 10 and at 16; the older one made none");
    assert_eq!(age.current(20), 4);
}

#[test]
fn an_average_begins_at_the_start() {
    let mut age = Age::new(1000);
    assert_eq!(age.average(1010), 5.0);
    age.receive(1010, 1012);
    assert_eq!(age.average(1012), 50.0 / 12.0, "a sender's clock that is ahead makes no negative age");
}

#[test]
fn jains_index() {
    assert_eq!(jain(&[]), 1.0);
    assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
    assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
    // Olaf's table 3 has 0.86 for these two groups' averages.
    let groups = [[1381.0; 5], [5382.0; 5]].concat();
    assert!((0.740..0.741).contains(&jain(&groups)), "{}", jain(&groups));
}
