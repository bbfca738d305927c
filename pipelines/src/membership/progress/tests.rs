use pascaline_wire::control::Action;

use super::*;

/// The Join of a worker that comes from nothing has 0 for its PSN, and generations begin anywhere.
#[test]
fn who_has_only_joined_is_where_the_generation_begins() {
    let said = |psn| Called::of(&Control { psn, first: psn, ..Control::request(Action::Join, 1) });
    for begin in [7, 3 << 30] {
        let una = |all: &[u32]| furthest(all.iter().map(|&psn| said(psn)), begin).una;
        assert_eq!((una(&[]), una(&[0]), una(&[0, 0])), (begin, begin, begin));
        assert_eq!(una(&[0, begin + 5, begin + 3]), begin + 3);
    }
    // One inside its first operation may well be at PSN 0.
    let inside = Called { bytes: 8, ..said(0) };
    assert_eq!(furthest([inside, said(5)].into_iter(), 0).una, 0);
}
