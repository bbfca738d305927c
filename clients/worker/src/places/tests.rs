use core::time::Duration;

use super::{Places, SILENCE, STAY};

const fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn three() -> Places {
    Places::new(3, SILENCE)
}

#[test]
fn a_worker_with_one_appliance_never_turns() {
    let mut places = Places::default();
    places.asked(at(0));
    assert_eq!((places.poll_timeout(false, None), places.turn(at(100_000), true, None)), (None, false));
}

#[test]
fn who_hears_nothing_turns_to_the_next_and_from_the_last_to_the_first() {
    let mut places = three();
    for (turn, next) in [(0, 1), (1, 2), (2, 0)] {
        let now = at(turn * 500);
        places.asked(now);
        places.asked(now + at(499));
        assert!(!places.turn(now + at(499), false, None));
        assert!(places.turn(now + SILENCE, false, None));
        assert_eq!(places.at(), next);
    }
}

#[test]
fn who_is_refused_turns_before_the_silence_is_over() {
    let mut places = Places::new(2, 4 * SILENCE);
    places.asked(at(0));
    let closes = Some(at(1500));
    assert_eq!(places.poll_timeout(false, closes), closes);
    assert!(!places.turn(at(1499), false, closes));
    assert!(places.turn(at(1500), false, closes));
    assert_eq!(places.at(), 1);
    assert!(!Places::default().turn(at(9000), false, Some(at(0))), "there is no other one");
}

#[test]
fn an_answer_ends_the_silence() {
    let mut places = three();
    places.asked(at(0));
    places.note_answer();
    places.asked(at(400));
    assert!(!places.turn(at(899), true, None));
    assert!(places.turn(at(900), true, None));
}

#[test]
fn who_waits_at_a_backup_looks_after_the_others_and_at_the_first_one_stays() {
    let mut places = Places::new(2, SILENCE);
    assert_eq!(places.poll_timeout(false, None), None, "at the first one, with nothing asked");
    places.asked(at(0));
    assert!(places.turn(SILENCE, false, None));
    assert_eq!(places.poll_timeout(false, None), Some(SILENCE + STAY));
    assert!(places.turn(SILENCE + STAY, false, None));
    assert!(places.is_home());
}

#[test]
fn who_has_come_back_looks_where_it_was_only_if_it_does_not_get_on() {
    let mut places = Places::new(2, SILENCE);
    places.settle(at(0), 5);
    places.asked(at(0));
    assert!(places.turn(at(500), true, None));
    places.note_join();
    assert!(places.turn(at(1500), false, None) && places.is_home());
    places.note_progress(at(2000));
    assert!(!places.turn(at(4999), true, None));
    assert!(places.turn(at(5000), true, None), "3 s without a result");
    assert_eq!(places.at(), 1);
    assert!(!places.has_looked(at(5001), 9, false), "it has not been counted yet");
    assert!(places.has_looked(at(5002), 9, true) && places.is_home(), "no rank was sent elsewhere");
}

/// Holds R10.7 of protocol.md.
#[test]
fn a_look_ends_where_a_generation_is_that_was_left() {
    let mut places = Places::new(2, SILENCE);
    places.settle(at(0), 5);
    places.note_join();
    places.asked(at(0));
    assert!(places.turn(at(500), true, None));
    places.settle(at(600), 9);
    assert!(places.turn(at(1600), true, None), "it may be counted on at the first one");
    assert!(places.has_looked(at(1601), 5, false));
    assert_eq!(places.at(), 1);
}

#[test]
fn who_is_told_to_go_at_the_first_one_looks_later_than_the_others() {
    let mut places = Places::new(2, SILENCE);
    places.settle(at(0), 5);
    places.asked(at(0));
    assert!(places.turn(at(500), true, None));
    places.note_join();
    assert!(places.turn(at(1500), false, None));
    places.settle(at(1600), 40);
    assert_eq!(places.poll_timeout(true, None), Some(at(1600) + 3 * STAY));
}
