use super::*;

#[test]
fn a_cell_is_written_when_its_last_set_has_been_visited() {
    let (mut surveyor, census) = Surveyor::new(512);
    let mut found = Found::default();
    found.note(100, Some(30));
    found.note(100, None);
    surveyor.visited(1, found);
    assert_eq!(census.cells().next(), Some((0, 0)));
    surveyor.visited(1, found);
    assert_eq!(census.cells().next(), Some((2, 2)));
    (2..512).for_each(|_| surveyor.visited(1, Found::default()));
    assert_eq!(census.oldest_ns(), 70);
    (0..512).for_each(|_| surveyor.visited(1, Found::default()));
    assert_eq!((census.cells().next(), census.oldest_ns()), (Some((0, 0)), 0));
}

#[test]
fn small_pools_have_a_cell_for_each_set() {
    let (mut surveyor, census) = Surveyor::new(4);
    (0..3).for_each(|_| surveyor.visited(1, Found::default()));
    surveyor.visited(1, Found { open: 1, done: 0, oldest_ns: 5 });
    assert_eq!(census.cells().collect::<Vec<_>>(), [(0, 0), (0, 0), (0, 0), (1, 0)]);
}

#[test]
fn what_several_lcores_found_adds_up() {
    let (mut one, first) = Surveyor::new(2);
    let (mut other, second) = Surveyor::new(2);
    one.visited(1, Found { open: 3, done: 1, oldest_ns: 0 });
    other.visited(1, Found { open: 0, done: 1, oldest_ns: 0 });
    other.visited(1, Found { open: 1, done: 1, oldest_ns: 0 });
    assert_eq!(merge([&*first, &*second]), [(3, 2), (1, 1)]);
}

#[test]
fn any_number_of_sets_is_visited_cell_by_cell() {
    for sets in [1, 5, 255, 256, 257, 1000, 5461] {
        let (mut surveyor, census) = Surveyor::new(sets);
        let mut at = 0;
        while at < sets {
            let together = surveyor.sets_together(16);
            assert!((1..=16).contains(&together) && at + together <= sets);
            let open = u32::try_from(together).unwrap();
            at += together;
            surveyor.visited(together, Found { open, done: 0, oldest_ns: 7 });
        }
        assert_eq!(census.cells().map(|(open, _)| open as usize).sum::<usize>(), sets);
        assert!(census.cells().all(|(open, _)| open > 0), "no cell is left out");
        assert_eq!(census.oldest_ns(), 7);
    }
}
