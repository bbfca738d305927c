use super::*;

#[test]
fn a_lost_link_is_forgotten_twice_and_one_that_comes_is_told_of() {
    let mut links = Links::default();
    let (up, down, unknown) = (Some(true), Some(false), None);
    let (none, one, other) = (Ports::NONE, Ports::of([0]), Ports::of([1]));
    for (found, lost, came) in [
        ([up, up], none, none),
        ([down, up], one, none),
        ([down, up], one, none),
        ([down, up], none, none),
        ([unknown, down], other, none),
        ([up, unknown], other, one),
        ([up, unknown], none, none),
        ([up, up], none, other),
        ([up, up], none, none),
    ] {
        assert_eq!(links.look(found.into_iter()), News { lost, came }, "{found:?}");
    }
}

#[test]
fn a_start_without_a_cable_is_told_of_when_it_is_plugged() {
    let mut links = Links::default();
    assert_eq!(links.look([Some(false)].into_iter()).came, Ports::NONE);
    assert_eq!(links.look([Some(true)].into_iter()).came, Ports::of([0]));
}
