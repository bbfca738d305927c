use super::*;

#[test]
fn software_stands_in_for_cards_alone() {
    use Verifier::{Card, Neither, Software};
    let cases = [
        (None, true, true, Card),
        (None, false, true, Software),
        (None, false, false, Neither),
        (Some(Verify::Card), true, true, Card),
        (Some(Verify::Card), false, true, Neither),
        (Some(Verify::Software), true, true, Software),
        (Some(Verify::Software), false, false, Software),
    ];
    for (wish, card_does, is_card, expected) in cases {
        assert_eq!(Verifier::choose(wish, card_does, is_card), expected, "{wish:?} {card_does} {is_card}");
    }
}

#[test]
fn only_software_looks_at_packets() {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    assert_eq!(Verifier::Software.in_software(mac), Some(mac));
    assert_eq!(Verifier::Card.in_software(mac), None);
    assert_eq!(Verifier::Neither.in_software(mac), None);
}
