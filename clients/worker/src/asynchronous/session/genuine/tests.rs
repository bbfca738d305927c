use super::Answer::{Late, Latest};
use super::*;

#[test]
fn a_mate_that_has_not_been_named_for_long_is_known_by_how_far_others_are() {
    for base in [0, 5, u32::MAX - 10_000] {
        let mut numbers = Numbers::new(base, 3);
        let at = |number: u32| base.wrapping_add(number);
        // Rank 1 is named in all Acks, and rank 2 in none; this worker sends as many.
        for number in (0..30_000).step_by(100) {
            assert_eq!(numbers.admits(at(number), 1, at(number)), Some(Latest));
        }
        assert_eq!(numbers.admits(at(29_900), 2, at(29_901 + AHEAD)), None, "too far");
        assert_eq!(numbers.admits(at(29_900), 2, at(29_900)), Some(Latest));
        for late in [29_900, 29_899, 29_901 - AHEAD] {
            assert_eq!(numbers.admits(at(29_900), 2, at(late)), Some(Late), "a copy, or overtaken");
        }
        assert_eq!(numbers.admits(at(29_900), 2, at(29_900 - AHEAD)), None, "too old");
        // No update named another worker than its sender.
        assert_eq!(numbers.admits(at(60_000), 0, at(60_000)), Some(Latest), "as far as this worker");
        assert_eq!(numbers.admits(at(0), 3, at(0)), None, "no rank");
        // What other appliances count has nothing to do with that.
        assert_eq!(numbers.admits(at(60_000), APPLIANCE_RANK, at(60_000)), None);
        assert_eq!(numbers.admits(at(60_000), APPLIANCE_RANK, at(AHEAD - 1)), Some(Latest));
    }
}
