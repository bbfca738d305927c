use super::*;

#[test]
fn a_promise_keeps_out_what_was_made_before() {
    for round in [NONE, FIRST, 77, LAST, TAKEN] {
        assert!(admits(NONE, round));
        assert_eq!(admits(77, round), [77, TAKEN].contains(&round));
    }
}
