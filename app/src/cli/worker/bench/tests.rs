use super::by_turns;

#[test]
fn each_tree_has_the_small_ones_of_its_turns() {
    let trips = [5.0, 1.0, 3.0, 2.0, 4.0];
    assert_eq!(by_turns(&trips, 1), [Some(3.0)]);
    assert_eq!(by_turns(&trips, 2), [Some(4.0), Some(1.5)]);
    assert_eq!(by_turns(&trips[..1], 3), [Some(5.0), None, None]);
    // Over a DPDK port nothing is told of trees.
    assert_eq!(by_turns(&trips, 0), []);
}
