use super::*;

#[test]
fn nothing_is_wanted_unless_asked_for() {
    let capture = Capture::default();
    assert_eq!(capture.wanted(), None);
    capture.begin(7);
    assert_eq!(capture.wanted(), Some(7));
    capture.end();
    assert_eq!(capture.wanted(), None);
    capture.begin(u16::MAX);
    assert_eq!(capture.wanted(), Some(u16::MAX));
}

#[test]
fn what_finds_no_frame_is_counted_and_a_later_capture_begins_anew() {
    let capture = Capture::default();
    capture.begin(1);
    for number in 0..FRAMES as u64 + 3 {
        capture.copy(number, &number.to_be_bytes(), 64);
    }
    assert_eq!(capture.missed(), 3);
    let first = capture.take().unwrap();
    assert_eq!((first.at, first.len, first.bytes()), (0, 64, &[0u8; 8][..]));
    capture.give_back(first);
    capture.copy(9, &[1; 2 * SNAP], 2 * SNAP);
    capture.end();
    capture.begin(2);
    assert_eq!((capture.missed(), capture.take().is_none()), (0, true));
    capture.copy(10, &[2; 2 * SNAP], 2 * SNAP);
    let long = capture.take().unwrap();
    assert_eq!((long.len, long.bytes()), (2 * SNAP, &[2u8; SNAP][..]));
}
