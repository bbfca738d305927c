use super::*;

fn check<const WORDS: usize>() {
    let last = RankSet::<WORDS>::CAPACITY - 1;
    let mut set = RankSet::<WORDS>::EMPTY;
    for rank in [0, last - 1, last] {
        assert!(!set.contains(rank) && set.lacks(rank));
        assert!(set.insert(rank));
        assert!(set.contains(rank) && !set.lacks(rank));
        assert!(!set.insert(rank), "a second time");
    }
    assert!(!set.insert(last + 1), "beyond the capacity");
    assert!(!set.contains(last + 1) && !set.lacks(last + 1), "it does not fit");
    assert_eq!(set.len(), 3);
    assert!(set.iter().eq([0, last - 1, last]));
    assert!(set.missing(u16::MAX).iter().eq(1..last - 1), "no further than the capacity");
    assert!(set.missing(3).iter().eq(1..3));
    assert_eq!(set | RankSet::of_word(2), set | RankSet::from_iter([1, u16::MAX]));
    let bitmap = set.to_bitmap(last + 1).unwrap();
    assert_eq!(RankSet::<WORDS>::from_bitmap(&bitmap, last + 1), Some(set));
    assert_eq!(RankSet::<WORDS>::from_bitmap(&bitmap, last), None);
    assert_eq!(set.to_bitmap(last).unwrap().count(), 2, "none beyond the job's");
    assert!(set.to_bitmap(0).is_none() && set.to_bitmap(1025).is_none());
    for ranks in [1, 63, 64, last] {
        let first = RankSet::<WORDS>::first(ranks);
        assert!(first.len() == ranks && first.missing(ranks).is_empty());
        assert!(first.includes(&RankSet::first(1)) && first.overlaps(&set));
    }
}

#[test]
fn ranks_up_to_the_last_one_fit() {
    check::<1>();
    check::<2>();
    check::<16>();
}

#[test]
fn a_bitmap_with_ranks_beyond_the_capacity_does_not_fit() {
    let mut bitmap = Bitmap::new(128).unwrap();
    assert_eq!(RankSet::<1>::from_bitmap(&bitmap, u16::MAX), Some(RankSet::EMPTY));
    assert!(bitmap.insert(64));
    assert_eq!(RankSet::<1>::from_bitmap(&bitmap, u16::MAX), None);
    assert!(RankSet::<2>::from_bitmap(&bitmap, u16::MAX).is_some_and(|set| set.contains(64)));
}

#[test]
fn its_name_has_runs() {
    let ranks: RankSet = [9, 3, 5, 6, 7, 8, 1023, 12, 13, 1024].into_iter().collect();
    assert_eq!(ranks.to_string(), "3, 5 to 9, 12, 13, 1023");
    assert_eq!(RankSet::<1>::EMPTY.to_string(), "");
}
