use super::*;

#[test]
fn a_rank_beside_appliances_is_one_of_the_workers() {
    let below = |workers, first| BelowArgs { workers, first };
    // Three workers and an appliance, which has the first three of six.
    assert!((0..3).all(|rank| below(Some(6), 3).check(rank, 4).is_ok()));
    assert!(below(Some(6), 3).check(3, 4).is_err(), "that one is the appliance");
    assert!(below(None, 0).check(1, 2).is_ok(), "there are no others");
    let text = below(Some(1), 0).check(1, 2).unwrap_err().to_string();
    assert_eq!(text, "--workers 1: there is no place for rank 1 of 2, with --first 0");
    assert!(below(Some(1), 0).check(0, 2).is_err(), "every appliance below has a worker");
}
