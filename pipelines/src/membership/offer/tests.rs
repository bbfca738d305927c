use super::*;

fn agree(said: &[u16], limit: u16) -> Option<u16> {
    agreed(said.iter().map(|&said| Offer::of(said).unwrap()), limit)
}

#[test]
fn what_all_take_is_agreed_on_in_whole_cache_lines() {
    assert_eq!(agree(&[], 1408), None);
    assert_eq!(agree(&[8944 | AT_MOST, 1448 | AT_MOST], 8944), Some(1408));
    assert_eq!(agree(&[8944 | AT_MOST], 1424), Some(1408));
    assert_eq!(agree(&[40 | AT_MOST], 1424), Some(40));
}

#[test]
fn who_was_told_a_payload_keeps_to_it() {
    assert_eq!(agree(&[8944 | AT_MOST, 1000, 1448 | AT_MOST], 8944), Some(1000));
    let (told, takes) = (Offer::of(1000).unwrap(), Offer::of(1448 | AT_MOST).unwrap());
    assert!(told.takes(1000) && !told.takes(992) && takes.takes(1000) && !takes.takes(1456));
    assert_eq!(
        [0, 1, 1001, 1004].map(Offer::of),
        [None, None, Some(Offer { bytes: 1000, at_most: true }), None]
    );
}
