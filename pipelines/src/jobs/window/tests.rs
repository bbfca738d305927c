use super::PsnWindow;

/// The PSNs from `first` on, and one past the last, that a window admits, looked for around `near`.
fn admitted(window: &PsnWindow, near: u32) -> (u32, u32) {
    let all =
        (0..4096u32).map(|at| near.wrapping_sub(2048).wrapping_add(at)).filter(|&psn| window.admits(psn));
    let all: Vec<u32> = all.collect();
    let (first, last) = (*all.first().unwrap(), *all.last().unwrap());
    assert_eq!(last.wrapping_sub(first) as usize + 1, all.len(), "without a hole");
    (first, last.wrapping_add(1))
}

/// Holds R10.3 of protocol.md.
#[test]
fn a_generation_begins_with_its_base_and_moves_with_its_results() {
    for base in [0, 7, u32::MAX - 100, 1 << 31] {
        let at = |offset: u32| base.wrapping_add(offset);
        let window = PsnWindow::new(base, base, 64, 2);
        assert_eq!(admitted(&window, base), (base, at(64)));
        window.completed(0, at(0));
        assert_eq!(admitted(&window, base), (base, at(65)));
        window.completed(1, at(10));
        window.completed(0, at(5));
        assert_eq!(admitted(&window, base), (base, at(75)), "the highest of all lcores counts");
        (11..200).for_each(|offset| window.completed(offset as usize % 2, at(offset)));
        assert_eq!(admitted(&window, at(200)), (at(200 - 128), at(264)), "2 S behind, S ahead");
    }
}

#[test]
fn a_resumed_generation_begins_with_the_rank_that_is_furthest_behind() {
    let window = PsnWindow::new(1000, 1040, 64, 1);
    assert_eq!(admitted(&window, 1000), (1000, 1104));
    window.completed(0, 1000);
    assert_eq!(admitted(&window, 1000), (1000, 1104), "others have results up to 1039");
    (1001..1140).for_each(|psn| window.completed(0, psn));
    assert_eq!(admitted(&window, 1140), (1012, 1204));
}

#[test]
fn the_shared_words_are_written_rarely_and_never_admit_too_much() {
    let window = PsnWindow::new(0, 0, 512, 4);
    let mut writes = 0;
    let mut before = window.known();
    for psn in 0..100_000u32 {
        window.completed(psn as usize % 4, psn);
        assert!(!window.admits_at_once(psn + 513), "{psn}");
        writes += u32::from(window.known() != before);
        before = window.known();
    }
    assert!((1000..2000).contains(&writes), "{writes} times for 100,000 results");
}

#[test]
fn results_that_nobody_can_have_change_nothing() {
    let window = PsnWindow::new(0, 0, 64, 1);
    for psn in [129, 1 << 30, 1 << 31, u32::MAX] {
        window.completed(0, psn);
    }
    assert_eq!(admitted(&window, 0), (0, 64));
}

#[test]
fn an_lcore_that_has_been_idle_for_half_the_numbers_does_not_move_the_window() {
    let window = PsnWindow::new(0, 0, 64, 2);
    window.completed(1, 0);
    // Lcore 1 gives out nothing any more.
    let mut end = 0u32;
    while end < (1 << 31) + 1000 {
        end += 1 << 20;
        window.publish(end);
    }
    window.completed(0, end);
    assert_eq!(admitted(&window, end), (end + 1 - 128, end + 65));
}

#[test]
fn an_lcore_that_gave_out_a_result_once_does_not_move_the_window_when_psns_have_come_round() {
    const SPREAD: u16 = 60_000;
    let window = PsnWindow::new(0, 0, SPREAD, 2);
    window.completed(1, 0);
    // Lcore 1 gives out nothing any more.
    let (mut end, spread) = (0u32, u32::from(SPREAD));
    while end < u32::MAX - 10 {
        end = end.saturating_add(spread).min(u32::MAX - 10);
        window.completed(0, end - 1);
    }
    assert!(!window.has(end.wrapping_add(spread)), "S ahead of the highest result, and no more");
    assert!(window.has(end.wrapping_sub(2 * spread)), "2 S behind it, and no less");
}

#[test]
fn closed_admits_nothing_and_unlimited_everything() {
    let (closed, unlimited) = (PsnWindow::closed(), PsnWindow::unlimited());
    for psn in [0, 1, 1 << 31, u32::MAX] {
        closed.completed(0, psn);
        assert!(!closed.admits(psn) && unlimited.admits(psn));
    }
}

#[test]
fn an_update_comes_in_once_in_any_order() {
    for base in [0, u32::MAX - 20, 1 << 31] {
        let window = PsnWindow::unlimited().with_updates(2);
        let first = |rank, offset: i32| window.is_first(rank, base.wrapping_add_signed(offset));
        assert!(first(0, 5) && first(0, 3) && first(0, 4) && first(0, 36) && first(0, 6));
        assert!([3, 4, 5, 6, 36].iter().all(|&offset| !first(0, offset)));
        assert!(!first(0, 2) && !first(0, 36 - 1024), "too late to be known");
        assert!(first(1, 5) && !first(1, 5), "each rank has numbers of its own");
        assert!(first(2, 5) && first(2, 5), "of no member");
        assert!(first(0, 100_000) && first(0, 37), "a damaged number keeps out none of those that follow");
        assert!(!first(0, 37) && first(0, 38));
    }
}

#[test]
fn what_ranks_keep_no_longer_is_past() {
    for base in [0, 7, u32::MAX - 100, 1 << 31] {
        let at = |offset: u32| base.wrapping_add(offset);
        let window = PsnWindow::new(base, base, 64, 2);
        (0..64).for_each(|offset| window.completed(offset as usize % 2, at(offset)));
        assert!(!window.is_past(at(0)), "the S up to the highest result");
        window.completed(1, at(64));
        assert!(window.is_past(at(0)) && !window.is_past(at(1)));
        assert!(!window.is_past(at(65)) && !window.is_past(at(128)), "not yet sent");
        assert!(!window.is_past(at(0).wrapping_sub(1)), "of another generation");
    }
    assert!(!PsnWindow::unlimited().is_past(7) && !PsnWindow::closed().is_past(7));
}
