use super::*;

#[test]
fn regions_lie_at_the_end_and_the_shared_part_before_them() {
    let mut layout = Layout::new(&PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() });
    assert_eq!(layout.take(16), Some(Region { first: 12, sets: 4 }));
    assert_eq!(layout.take(4), Some(Region { first: 11, sets: 1 }));
    assert_eq!((layout.shared_sets(), layout.slots(layout.shared_sets())), (11, 44));
    assert_eq!(layout.take(48), None, "44 are left");
    assert_eq!(layout.take(2), None, "less than a set");
    assert_eq!(layout.take(44), Some(Region { first: 0, sets: 11 }));
    assert_eq!((layout.shared_sets(), layout.take(4)), (0, None));
}

#[test]
fn regions_neither_overlap_nor_leave_gaps() {
    let mut layout = Layout::new(&PoolConfig { slots: 1024, ways: 2, ..PoolConfig::default() });
    let mut end = 512;
    for slots in [2, 128, 64, 256, 2, 32] {
        let region = layout.take(slots).unwrap();
        assert_eq!((region.first + region.sets, region.sets * 2), (end, slots));
        end = region.first;
    }
    assert_eq!(layout.shared_sets(), end);
}
