use super::*;

/// `ALL` is in the order of the variants, so that each has its own counter.
#[test]
fn each_refusal_has_its_own_counter() {
    for (place, reason) in UpdateRejection::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, place);
    }
}
