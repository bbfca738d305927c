use super::held;

#[test]
fn one_link_down_takes_the_other_and_gives_it_back() {
    let mut now = None;
    // What is held is down; then it is let go, and was down itself.
    for (up, expected) in [
        ([true, true], None),
        ([false, true], Some(1)),
        ([false, false], Some(1)),
        ([true, false], None),
        ([true, false], Some(0)),
        ([false, false], Some(0)),
        ([false, true], None),
        ([false, false], Some(1)),
        ([true, false], None),
        ([true, true], None),
    ] {
        now = held(now, up);
        assert_eq!(now, expected, "{up:?}");
    }
}
