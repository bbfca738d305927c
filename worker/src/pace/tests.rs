use super::*;

const MICRO: Duration = Duration::from_micros(1);

/// A path that delivers one packet each `interval`, in order, no sooner than `trip` after its sending: how
/// many are in flight once that has settled, within `spread`.
fn settled(interval: Duration, trip: Duration, spread: u16) -> u32 {
    let (mut window, mut pace) = (Window::finding(0, spread), Pace::default());
    window.begin(200_000);
    pace.begin();
    let (mut now, mut free) = (Duration::ZERO, Duration::ZERO);
    let mut path = std::collections::VecDeque::new();
    for _ in 0..100_000 {
        while let Some(sending) = window.send(now) {
            free = free.max(now + trip) + interval;
            path.push_back((sending.psn, now, free));
        }
        let Some((psn, sent, due)) = path.pop_front() else { break };
        now = now.max(due);
        window.complete(psn, false);
        pace.on_result(now, now - sent, &mut window);
        window.widen();
    }
    window.in_flight()
}

/// Twice what the path holds, whatever that is: the queue is as long as the path, and no longer.
#[test]
fn the_window_is_twice_what_the_path_holds() {
    for (interval, trip, holds) in [(1, 200, 200), (2, 1000, 500), (10, 2000, 200), (5, 5000, 1000)] {
        let found = settled(interval * MICRO, trip * MICRO, 4096);
        assert!((holds * 9 / 5..=holds * 9 / 4).contains(&found), "{interval} {trip}: {found} of {holds}");
    }
}

#[test]
fn it_stays_within_its_bounds() {
    let found = settled(100 * MICRO, 100 * MICRO, 4096);
    assert!((FIRST - 1..=FIRST).contains(&found), "a path that holds one packet: {found}");
    let found = settled(MICRO, 5000 * MICRO, 512);
    assert!((511..=512).contains(&found), "a spread below what the path holds: {found}");
}

/// What an operation's end delivers says nothing about the path.
#[test]
fn nothing_is_learned_where_there_is_no_more_to_send() {
    let (mut window, mut pace) = (Window::finding(0, 4096), Pace::default());
    for _ in 0..100 {
        window.begin(40);
        pace.begin();
        while window.send(Duration::ZERO).is_some() {}
        let mut now = Duration::ZERO;
        for _ in 0..40 {
            now += 1000 * MICRO;
            let una = window.una();
            window.complete(una, false);
            pace.on_result(now, now, &mut window);
            window.widen();
        }
    }
    assert_eq!(window.allowed(), FIRST);
}
