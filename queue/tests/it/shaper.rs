//! The token bucket: its promise over any time, and its exactness.

use core::num::NonZeroU64;
use core::time::Duration;

use pascaline_queue::{InDebt, Shaper};
use proptest::prelude::*;

fn shaper(bits_per_second: u64, burst: Duration) -> Shaper {
    Shaper::new(NonZeroU64::new(bits_per_second).unwrap(), burst)
}

#[test]
fn without_a_burst_packets_leave_one_after_the_other() {
    let mut shaper = shaper(1_000_000_000, Duration::ZERO);
    assert_eq!(shaper.take(1000, 8000), Ok(()));
    assert_eq!(shaper.take(1000, 8), Err(InDebt { ready_ns: 9000 }));
    assert_eq!(shaper.take(8999, 8), Err(InDebt { ready_ns: 9000 }));
    assert_eq!(shaper.take(9000, 8), Ok(()));
    assert_eq!(shaper.ready_ns(), 9008);
}

#[test]
fn a_burst_can_be_saved_up_and_no_more() {
    let mut shaper = shaper(1_000_000_000, Duration::from_nanos(100));
    // 100 bits are in the bucket: two packets empty it, the third leaves in debt.
    for _ in 0..3 {
        assert_eq!(shaper.take(1_000_000, 50), Ok(()));
    }
    assert_eq!(shaper.take(1_000_000, 50), Err(InDebt { ready_ns: 1_000_050 }));
}

#[test]
fn fractions_of_a_nanosecond_are_not_lost() {
    // A packet of 2,048 bits takes 51.2 ns.
    let mut shaper = shaper(40_000_000_000, Duration::ZERO);
    let mut now = 0;
    for _ in 0..1_000_000 {
        assert_eq!(shaper.take(now, 2048), Ok(()));
        now = shaper.ready_ns();
    }
    assert_eq!(now, 51_200_000);
    // Except by a pause.
    assert_eq!(shaper.take(now, 2048), Ok(()));
    assert_eq!(shaper.take(now + 1000, 40), Ok(()));
    assert_eq!(shaper.ready_ns(), now + 1001);
}

#[test]
fn the_slowest_rate_does_not_overflow() {
    let mut shaper = shaper(1, Duration::MAX);
    assert_eq!(shaper.take(u64::MAX, u32::MAX), Ok(()));
    assert_eq!(shaper.take(u64::MAX, u32::MAX), Ok(()), "a whole clock's worth was saved up");
    let mut shaper = Shaper::new(NonZeroU64::MAX, Duration::ZERO);
    assert_eq!(shaper.take(0, u32::MAX), Ok(()));
    assert_eq!(shaper.ready_ns(), 1);
}

#[test]
fn a_clock_that_is_set_back_lets_nothing_through_early() {
    let mut shaper = shaper(1_000_000_000, Duration::ZERO);
    assert_eq!(shaper.take(5000, 1000), Ok(()));
    assert_eq!(shaper.take(100, 8), Err(InDebt { ready_ns: 6000 }));
}

proptest! {
    /// Between any two departures, what has left is at most rate × time + burst + one packet.
    #[test]
    fn no_more_than_promised_leaves_in_any_time(
        rate in 1_000_000u64..100_000_000_000, burst_ns in 0u64..10_000,
        arrivals in prop::collection::vec((0u64..2000, 1u32..100_000), 1..100),
    ) {
        let mut shaper = shaper(rate, Duration::from_nanos(burst_ns));
        let (mut now, mut left) = (1_000_000, Vec::new());
        for (gap, bits) in arrivals {
            now += gap;
            match shaper.take(now, bits) {
                Ok(()) => left.push((now, bits)),
                Err(InDebt { ready_ns }) => prop_assert!(ready_ns > now),
            }
        }
        for (first, (from, _)) in left.iter().enumerate() {
            let mut bits = 0u128;
            for (until, more) in &left[first..] {
                // One nanosecond more, for what is carried over.
                let allowed = u128::from(rate) * u128::from(until - from + burst_ns + 1) / 1_000_000_000;
                prop_assert!(bits <= allowed, "{bits} bits before the last packet, {allowed} allowed");
                bits += u128::from(*more);
            }
        }
    }
}
