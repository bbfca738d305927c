//! The parts by themselves.

use core::time::Duration;

use pascaline_ps::Config;
use pascaline_ps::ranks::RankSet;
use pascaline_ps::timeout::Estimator;

use crate::packets::ms;

#[test]
fn rank_sets_up_to_the_last_rank() {
    let mut set = RankSet::EMPTY;
    for rank in [0, 63, 64, 1023] {
        assert!(set.insert(rank) && !set.insert(rank));
    }
    assert!(!set.insert(1024) && !set.contains(1024) && !set.contains(u16::MAX));
    assert_eq!((set.count(), set.iter().collect::<Vec<_>>()), (4, vec![0, 63, 64, 1023]));
    assert_eq!(set.next_missing(0, 1024), Some(1));
    assert_eq!(set.next_missing(63, 65), None);
    assert_eq!(set.next_missing(1023, u16::MAX), None);
    for ranks in [0, 1, 63, 64, 65, 128, 1000, 1024, u16::MAX] {
        let all = RankSet::first(ranks);
        assert!(all.iter().eq(0..ranks.min(1024)), "{ranks}");
        assert_eq!(all.next_missing(0, ranks), None);
    }
    let mut other = RankSet::EMPTY;
    assert!(other.insert(64) && other.overlaps(&set) && set.includes(&other) && !other.includes(&set));
    assert!(!other.overlaps(&RankSet::first(64)));
    other.merge(&RankSet::first(64));
    assert_eq!(other, RankSet::first(65));
}

#[test]
fn rank_sets_to_and_from_trailers() {
    let set = RankSet::first(65);
    let bitmap = set.to_bitmap(70).unwrap();
    assert_eq!(RankSet::from_bitmap(&bitmap, 65), Some(set));
    assert_eq!(RankSet::from_bitmap(&bitmap, 64), None, "rank 64 is not below 64");
    assert!(set.to_bitmap(0).is_none() && set.to_bitmap(1025).is_none());
    assert_eq!(set.to_bitmap(10).unwrap().count(), 10);
}

#[test]
fn the_timeout_is_that_of_rfc_6298_with_dsas_floor() {
    let mut estimator = Estimator::new(&Config::default());
    assert_eq!((estimator.timeout(0), estimator.smoothed()), (ms(20), None));
    estimator.on_sample(ms(8));
    assert_eq!(estimator.timeout(0), ms(24), "R + 4 × R / 2");
    estimator.on_sample(ms(16));
    // Variation 3/4 × 4 + 1/4 × 8 = 5, smoothed 7/8 × 8 + 1/8 × 16 = 9.
    assert_eq!((estimator.timeout(0), estimator.timeout(1)), (ms(29), ms(58)));
    assert_eq!(estimator.timeout(u32::MAX), Duration::from_secs(1));
    for _ in 0..200 {
        estimator.on_sample(Duration::from_micros(3));
    }
    assert_eq!((estimator.timeout(0), estimator.timeout(3)), (ms(1), ms(8)));
    estimator.on_sample(Duration::MAX);
    assert_eq!(estimator.timeout(0), Duration::from_secs(1));
}
