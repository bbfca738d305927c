use core::time::Duration;

use super::{Asking, FIRST_INTERVAL, LAST_INTERVAL, Requests};

#[test]
fn intervals_grow_up_to_the_longest_and_begin_again() {
    let mut asking = Asking::new(Duration::ZERO);
    let mut next = || {
        let now = asking.due();
        assert!(asking.is_due(now) && !asking.is_due(now));
        asking.due() - now
    };
    let intervals: Vec<Duration> = (0..6).map(|_| next()).collect();
    assert_eq!(intervals[..3], [20, 30, 45].map(Duration::from_millis));
    assert_eq!(intervals[5], LAST_INTERVAL);
    asking.begin_again();
    assert!(asking.is_due(Duration::from_secs(9)));
    assert_eq!(asking.due(), Duration::from_secs(9) + FIRST_INTERVAL);
}

#[test]
fn what_is_not_sent_any_more_can_be_hastened() {
    let (soon, late) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut asking = Asking::new(Duration::ZERO);
    asking.stop();
    assert!(asking.due() == Duration::MAX && !asking.is_due(late));
    asking.hasten(soon);
    asking.hasten(late);
    assert_eq!(asking.due(), soon);
    asking.shorten(FIRST_INTERVAL / 2);
    assert!(asking.is_due(late));
    assert_eq!(asking.due() - late, FIRST_INTERVAL / 2);
}

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
