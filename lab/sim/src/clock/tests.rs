use super::*;

#[test]
fn a_clock_shows_a_time_when_it_says_so_and_not_before() {
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        let (clock, now) = (Drift::draw(&mut random), random.below(60_000 * MILLI));
        let local = clock.local(now) + random.below(100 * MILLI);
        let at = clock.global(local);
        assert!(clock.local(at) >= local && clock.local(at) < local + 10 * MICRO, "{clock:?} {now} {local}");
    }
    assert_eq!(Drift::default().global(u64::MAX), u64::MAX);
}

#[test]
fn who_is_stopped_is_not_awake() {
    let mut awake = Awake::new(50);
    assert_eq!(awake.turn(3_000 * MILLI), Duration::from_nanos(3_000 * MILLI));
    awake.pause(4_000 * MILLI, 9_000 * MILLI);
    assert_eq!(awake.turn(9_500 * MILLI), Duration::from_nanos(4_500 * MILLI));
    assert_eq!(awake.local(5_000 * MILLI), 10_000 * MILLI);
    awake.hold_up(9_500 * MILLI, 11_500 * MILLI);
    let heard = awake.turn(12_500 * MILLI);
    assert!(heard >= Duration::from_millis(5600) && heard <= Duration::from_millis(5750), "{heard:?}");
}
