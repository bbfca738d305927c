use super::Requests;

/// Holds R9.4 of protocol.md.
#[test]
fn answers_to_what_was_asked_before_are_late() {
    let mut requests = Requests::after(u32::MAX - 1);
    assert!(!requests.awaits(u32::MAX - 1) && !requests.awaits(0x8000_0000));
    assert_eq!((requests.next(), requests.next()), (u32::MAX, 0));
    assert!(requests.awaits(u32::MAX) && requests.awaits(0));
    requests.outdate();
    assert!(!requests.awaits(u32::MAX) && !requests.awaits(0));
    assert_eq!((requests.next(), requests.latest()), (1, 1));
    assert!(requests.awaits(1));
}

/// Holds R9.5 of protocol.md.
#[test]
fn what_was_never_asked_has_no_answer() {
    let mut requests = Requests::default();
    assert!(!requests.awaits(0) && !requests.awaits(1));
    assert_eq!(requests.next(), 1);
    for number in [0, 2, 1000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        assert!(!requests.awaits(number), "{number}");
    }
    assert!(requests.awaits(1));
}
