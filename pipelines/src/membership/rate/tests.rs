use super::*;
use crate::meter::MEMBER;

#[test]
fn who_asks_too_often_is_told_now_and_then() {
    let mut asked = Asked::default();
    let begin = Duration::from_secs(1);
    let mut told = Vec::new();
    for tick in 0..100_000 {
        let now = begin + Duration::from_micros(10) * tick;
        if asked.may(now, MEMBER) == Some(false) {
            told.push(now);
        }
    }
    assert!((9..=10).contains(&told.len()), "{}", told.len());
    assert!(told.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_millis(100)));
}

#[test]
fn neighbours_do_not_share_a_bucket() {
    let v4 = |low: u8| Address::from_v4([10, 77, 0, low]);
    let v6 = |low: u8| Address::from_v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, low]);
    let places: std::collections::BTreeSet<_> =
        (0..=255).flat_map(|low| [place(v4(low)), place(v6(low))]).collect();
    assert!(places.len() > 384, "512 addresses in {} places", places.len());
}
