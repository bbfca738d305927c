//! The parts by themselves.

use std::time::Duration;

use pascaline_wire::{Element, Flags};
use pascaline_worker::answers::{Answers, INTERVAL, PER_INTERVAL};
use pascaline_worker::cache::ResultCache;
use pascaline_worker::partials::Partials;
use pascaline_worker::recovery::{CONGESTED, Recovery};
use pascaline_worker::rtt::{self, Rtt};
use pascaline_worker::window::{LEAST_IN_FLIGHT, REMIND_AFTER, Sending, Standing, Window};

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn new(psn: u32) -> Sending {
    Sending { psn, retransmissions: 0, again: false, prompted: false }
}

const fn resent(psn: u32) -> Sending {
    Sending { psn, retransmissions: 1, again: true, prompted: false }
}

#[test]
fn rtt_starts_at_its_initial_timeout_and_converges_to_steady_samples() {
    let mut rtt = Rtt::new();
    assert_eq!(rtt.timeout(), rtt::INITIAL);
    rtt.on_result(ms(8), false);
    // RFC 6298: the first sample's variation is half of it.
    assert_eq!(rtt.timeout(), ms(8 + 4 * 4));
    for _ in 0..100 {
        rtt.on_result(ms(8), false);
    }
    assert!(rtt.smoothed().unwrap().abs_diff(ms(8)) < us(1));
    assert_eq!(rtt.timeout().as_millis(), 9, "the floor is what a steady time leaves");
}

#[test]
fn rtt_follows_ewma_weights() {
    let mut rtt = Rtt::new();
    rtt.on_result(ms(8), false);
    rtt.on_result(ms(16), false);
    assert_eq!(rtt.smoothed(), Some(ms(9)));
    // (3 × 4 + 8) / 4 = 5, four times.
    assert_eq!(rtt.timeout(), ms(9 + 20));
}

#[test]
fn rtt_stays_between_floor_and_ceiling() {
    let mut rtt = Rtt::new();
    for _ in 0..100 {
        rtt.on_result(us(1), false);
    }
    assert!(rtt.timeout() >= rtt::FLOOR);
    for _ in 0..100 {
        rtt.on_result(Duration::from_secs(10), false);
        rtt.back_off();
    }
    assert_eq!(rtt.timeout(), rtt::CEILING);
    assert!(rtt.reordering() <= rtt::CEILING);
}

#[test]
fn karn_ambiguous_results_teach_nothing_and_leave_the_backoff() {
    let mut rtt = Rtt::new();
    rtt.on_result(ms(4), false);
    let before = rtt.timeout();
    rtt.back_off();
    rtt.back_off();
    assert_eq!(rtt.timeout(), before * 4);
    rtt.on_result(us(1), true);
    assert_eq!(rtt.timeout(), before * 4);
    assert_eq!(rtt.smoothed(), Some(ms(4)));
    rtt.on_result(ms(4), false);
    assert!(rtt.timeout() <= before);
}

/// Holds R10.1 of protocol.md.
#[test]
fn window_limits_packets_in_flight_and_the_spread_across_the_wrap() {
    for first in [0, u32::MAX - 7, u32::MAX, 1 << 31] {
        let mut window = Window::new(first, 4, 8);
        assert_eq!(window.begin(30), first);
        let psn = |offset: u32| first.wrapping_add(offset);
        for offset in 0..4 {
            assert_eq!(window.send(us(0)), Some(new(psn(offset))));
        }
        assert_eq!(window.send(us(0)), None, "four in flight");
        // Results in any order make room, until the spread ends at PSN 8 because PSN 0 is missing.
        for (done, sent) in [(3, 4), (1, 5), (4, 6), (5, 7)] {
            assert!(window.complete(psn(done), false).is_some());
            assert_eq!(window.send(us(1)).map(|sending| sending.psn), Some(psn(sent)));
        }
        assert!(window.complete(psn(6), false).is_some());
        assert_eq!(window.send(us(1)), None, "PSN 8 is 8 ahead of 0");
        assert_eq!(window.in_flight(), 3);
        assert!(window.complete(psn(0), false).is_some());
        assert_eq!(window.una(), psn(2));
        assert_eq!(window.send(us(1)).map(|sending| sending.psn), Some(psn(8)));
        assert_eq!(window.complete(psn(0), false), None, "again");
        assert_eq!(window.complete(psn(9), false), None, "not sent");
        assert_eq!(window.complete(psn(30), false), None, "not in the operation");
        assert_eq!(window.standing(psn(1)), Standing::Done);
        assert_eq!(window.standing(psn(2)), Standing::Outstanding);
        assert_eq!(window.standing(psn(9)), Standing::Unsent);
        assert_eq!(window.standing(first.wrapping_sub(1)), Standing::Outside);
    }
}

#[test]
fn window_sends_what_is_lost_before_what_is_new() {
    let mut window = Window::new(u32::MAX, 3, 8);
    window.begin(8);
    for _ in 0..3 {
        window.send(us(0));
    }
    assert!(window.lose(0));
    assert!(!window.lose(0), "it is not in flight any more");
    assert!(window.lose(u32::MAX));
    assert_eq!(window.in_flight(), 1);
    assert_eq!(window.send(us(5)), Some(resent(0)));
    assert_eq!(window.send(us(5)), Some(resent(u32::MAX)));
    assert_eq!(window.send(us(5)), None);
    assert_eq!(window.oldest_sending(), Some(us(0)), "PSN 1");
    // Early resends happen once: only PSN 1 is left for it after 0 and MAX have gone through it.
    assert_eq!(window.lose_early(us(1)), 1);
    assert_eq!(window.send(us(6)).map(|sending| sending.psn), Some(1));
    assert_eq!(window.lose_early(us(10)), 2);
    assert_eq!(window.lose_early(us(10)), 0);
    assert!(window.complete(0, true).is_some(), "a result may come while its PSN waits to be resent");
    assert!(window.overflowed(0));
}

#[test]
fn window_does_not_count_what_a_reminder_asks_for_as_lost() {
    let mut window = Window::new(0, 4, 8);
    window.begin(2);
    window.send(us(0));
    window.prompt(0);
    assert_eq!(window.send(us(1)), Some(Sending { psn: 0, retransmissions: 0, again: true, prompted: true }));
    assert!(window.lose(0));
    window.prompt(0);
    assert_eq!(window.send(us(2)), Some(resent(0)), "it was to be sent again anyway");
    assert!(window.complete(0, false).unwrap().ambiguous);
    window.send(us(3));
    assert!(!window.complete(1, false).unwrap().ambiguous);
    window.begin(1);
    window.send(us(4));
    window.note_answer(2, us(5));
    assert_eq!(window.last_answer(2), Some(us(5)));
    assert!(window.complete(2, false).unwrap().ambiguous, "the original may have brought it about");
}

#[test]
fn window_sends_what_is_unfinished_again_in_a_new_generation() {
    let mut window = Window::new(u32::MAX - 1, 4, 8);
    window.begin(6);
    for _ in 0..4 {
        window.send(us(0));
    }
    assert!(window.complete(u32::MAX, false).is_some());
    for _ in 0..3 {
        assert!(window.lose(0));
        window.send(us(1));
    }
    assert_eq!(window.last_sending(0), Some(us(1)));
    window.begin_generation();
    assert_eq!((window.in_flight(), window.last_sending(0)), (0, None));
    // The oldest first, nothing that was done; said to be sent again, and reminded of if it is once more.
    let sendings: Vec<_> = std::iter::from_fn(|| window.send(us(2))).collect();
    let old = |psn| Sending { again: true, retransmissions: REMIND_AFTER, ..new(psn) };
    assert_eq!(sendings, [old(u32::MAX - 1), old(0), old(1), new(2)]);
    assert!(!window.complete(0, false).unwrap().ambiguous, "only this generation's result counts");
}

#[test]
fn window_operations_follow_each_other() {
    let mut window = Window::new(u32::MAX - 1, 8, 8);
    for expected in [u32::MAX - 1, 1, 4] {
        assert_eq!(window.begin(3), expected);
        while let Some(sending) = window.send(us(0)) {
            window.complete(sending.psn, false);
        }
        assert!(window.is_complete());
        assert_eq!(window.completed(), 3);
    }
}

/// Sends all that may be sent; how many are in flight then.
pub(crate) fn fill(now: Duration, window: &mut Window, recovery: &mut Recovery) -> u32 {
    while window.send(now).is_some() {
        recovery.on_sent(now);
    }
    window.in_flight()
}

#[test]
fn results_that_take_long_narrow_the_window_once_a_round_trip_and_others_widen_it() {
    let (mut window, mut recovery) = (Window::new(0, 128, 1024), Recovery::default());
    window.begin(100_000);
    let (mut now, mut psn) = (Duration::ZERO, 0);
    let mut round_trip = |takes: Duration, window: &mut Window, recovery: &mut Recovery| {
        let sent = fill(now, window, recovery);
        now += takes;
        for _ in 0..sent {
            recovery.on_result(now, &window.complete(psn, false).unwrap(), window);
            psn += 1;
        }
        sent
    };
    let just = CONGESTED - us(1);
    let takes = [just, CONGESTED, CONGESTED, CONGESTED, CONGESTED, CONGESTED, us(50), us(50), just, us(50)];
    let in_flight = takes.map(|takes| round_trip(takes, &mut window, &mut recovery));
    assert_eq!(in_flight, [128, 128, 64, 32, 16, LEAST_IN_FLIGHT, 16, 32, 64, 128]);
    // Never more than was asked for, however good it is, and never fewer than that, if it is little.
    round_trip(us(50), &mut window, &mut recovery);
    assert_eq!(window.allowed(), 128);
    let mut small = Window::new(0, 3, 8);
    small.narrow();
    assert_eq!(small.allowed(), 3);
}

#[test]
fn what_is_overdue_for_so_long_narrows_the_window_too_but_loss_alone_does_not() {
    for (takes, allowed) in [(us(500), 64), (CONGESTED * 2, 32)] {
        let (mut window, mut recovery) = (Window::new(0, 64, 1024), Recovery::default());
        window.begin(1000);
        fill(Duration::ZERO, &mut window, &mut recovery);
        // The result of the first one is lost, those of the others come; what is sent then is resent, and
        // late again.
        for psn in 1..64 {
            recovery.on_result(takes, &window.complete(psn, false).unwrap(), &mut window);
        }
        fill(takes, &mut window, &mut recovery);
        let due = recovery.poll_timeout(&window).unwrap();
        recovery.on_timeout(due, &mut window);
        assert_eq!(window.allowed(), allowed, "{takes:?}");
    }
}

#[test]
fn recovery_resends_early_on_evidence_and_probes_without() {
    let mut window = Window::new(0, 64, 64);
    let mut recovery = Recovery::default();
    window.begin(64);
    let send = |now: Duration, window: &mut Window, recovery: &mut Recovery| {
        recovery.on_sent(now);
        window.send(now).unwrap().psn
    };
    for at in 0..10 {
        send(us(100 * at), &mut window, &mut recovery);
    }
    // Results of PSNs 1 to 3 prove nothing about PSN 0: sent within the reordering window.
    for psn in 1..=3 {
        let completion = window.complete(psn, false).unwrap();
        recovery.on_result(us(1000), &completion, &mut window);
        assert!(!window.has_lost(), "PSN {psn}");
    }
    for psn in 4..=9 {
        let completion = window.complete(psn, false).unwrap();
        recovery.on_result(us(1000), &completion, &mut window);
    }
    assert!(window.has_lost());
    assert_eq!(window.send(us(1000)), Some(resent(0)));

    // Ten more, then silence: one probe per timeout, further and further apart.
    for _ in 0..10 {
        send(us(1000), &mut window, &mut recovery);
    }
    let mut gaps = Vec::new();
    let mut last = us(1000);
    for _ in 0..4 {
        let due = recovery.poll_timeout(&window).unwrap();
        recovery.on_timeout(due, &mut window);
        assert_eq!(window.send(due).map(|sending| sending.psn), Some(0));
        assert!(!window.has_lost());
        gaps.push(due - last);
        last = due;
    }
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert!(gaps[3] >= gaps[1] * 3, "{gaps:?}");

    // The probe's result, and again silence: now the others are in doubt.
    let completion = window.complete(0, false).unwrap();
    recovery.on_result(last + us(500), &completion, &mut window);
    assert!(!window.has_lost());
    let due = recovery.poll_timeout(&window).unwrap();
    recovery.on_timeout(due, &mut window);
    let resent = std::iter::from_fn(|| window.has_lost().then(|| window.send(due).unwrap().psn));
    assert_eq!(resent.collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
}

/// Holds R10.2 of protocol.md.
#[test]
fn cached_results_are_the_last_ones() {
    let mut cache = ResultCache::new(5, 8);
    for offset in 0..20 {
        let psn = (u32::MAX - 9).wrapping_add(offset);
        let bytes = psn.to_le_bytes();
        let last = offset == 19;
        let flags = if last { Flags::OVERFLOW } else { Flags::NONE };
        cache.insert(psn, Element::F32_SUM, flags, &bytes[..if last { 3 } else { 4 }]);
    }
    for psn in 5..=8 {
        assert_eq!(cache.bytes(psn), psn.to_le_bytes());
        assert_eq!(cache.entry(psn).unwrap().flags, Flags::NONE);
    }
    assert_eq!(cache.bytes(9), [9, 0, 0]);
    assert_eq!(cache.entry(9).unwrap().flags, Flags::OVERFLOW);
    assert!(cache.entry(1).is_none() && cache.entry(10).is_none());
    assert!(cache.bytes(u32::MAX).is_empty());
}

#[test]
fn answers_are_limited_per_psn_and_in_total() {
    let mut answers = Answers::new();
    assert!(answers.admit(ms(5), None));
    assert!(!answers.admit(ms(5), Some(ms(5))));
    assert!(!answers.admit(ms(5), Some(ms(5) - INTERVAL / 2)));
    assert!(answers.admit(ms(5), Some(ms(5) - INTERVAL)));
    let admitted = (0..1000).filter(|_| answers.admit(ms(5), None)).count();
    assert_eq!(admitted, PER_INTERVAL as usize - 2);
    assert!(answers.admit(ms(6), None));
}

#[test]
fn partials_are_kept_for_twice_the_spread() {
    let mut partials = Partials::new(70, 4);
    let inside = |rank: u16| [0, rank].into_iter().collect();
    for psn in 0..8_u16 {
        partials.note(u32::MAX.wrapping_add(u32::from(psn)), Some(&inside(60 + psn)));
    }
    for psn in 0..8_u16 {
        let at = u32::MAX.wrapping_add(u32::from(psn));
        assert_eq!(partials.count(at), Some(2));
        let (payload, trailer) = pascaline_wire::Trailer::split(partials.trailer(at)).unwrap();
        assert!(payload.is_empty());
        let bitmap = trailer.bitmap.unwrap();
        assert!(bitmap.contains(60 + psn) && bitmap.count() == 2 && bitmap.capacity() == 128);
    }
    partials.note(7, Some(&inside(1)));
    assert_eq!(
        (partials.count(u32::MAX), partials.trailer(u32::MAX)),
        (None, &[][..]),
        "the oldest makes way"
    );
    partials.note(7, None);
    assert_eq!((partials.count(7), partials.trailer(7)), (Some(70), &[][..]), "all are inside");
}
