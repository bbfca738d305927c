use super::*;

#[test]
fn nothing_is_wanted_unless_asked_for() {
    let tap = Tap::default();
    assert_eq!(tap.wanted(), None);
    tap.open(7);
    assert_eq!(tap.wanted(), Some(7));
    tap.close();
    assert_eq!(tap.wanted(), None);
    tap.open(u16::MAX);
    assert_eq!(tap.wanted(), Some(u16::MAX));
}

#[test]
fn what_finds_no_frame_is_counted_and_a_later_capture_begins_anew() {
    let tap = Tap::default();
    tap.open(1);
    for number in 0..FRAMES as u64 + 3 {
        tap.copy(number, &number.to_be_bytes(), 64);
    }
    assert_eq!(tap.missed(), 3);
    let first = tap.take().unwrap();
    assert_eq!((first.at, first.len, first.bytes()), (0, 64, &[0u8; 8][..]));
    tap.give_back(first);
    tap.copy(9, &[1; 2 * SNAP], 2 * SNAP);
    tap.close();
    tap.open(2);
    assert_eq!((tap.missed(), tap.take().is_none()), (0, true));
    tap.copy(10, &[2; 2 * SNAP], 2 * SNAP);
    let long = tap.take().unwrap();
    assert_eq!((long.len, long.bytes()), (2 * SNAP, &[2u8; SNAP][..]));
}
