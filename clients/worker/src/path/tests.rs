use super::*;

/// The result over a path that takes payloads up to a length each way, and the Joins until it is known.
fn over(payload: u16, up: u16, down: u16) -> (u16, Option<Shortened>, usize) {
    let mut path = Path::of(payload);
    for joins in 0.. {
        assert!(joins < 100, "{path:?}");
        if path.is_open() {
            return (path.payload(), path.take_warning(), joins);
        }
        path.shorten();
        let sent = CONTROL_LEN + path.padding();
        let takes = |most: u16| sent <= CONTROL_LEN - control::LEN + usize::from(most.max(48));
        if !path.is_open() && takes(up) && takes(down) {
            path.answered(sent);
        }
    }
    (0, None, 0)
}

#[test]
fn a_path_that_takes_full_packets_costs_no_join() {
    assert_eq!(over(1408, 1408, 1408), (1408, None, 1));
    assert_eq!(over(8896, 8960, 8960), (8896, None, 1));
    assert_eq!(over(9160, 9160, 9160), (9160, None, 1), "as far as a Join can tell");
    assert_eq!(over(48, 48, 48), (48, None, 0));
    assert_eq!(over(8, 8, 8), (8, None, 0));
}

#[test]
fn a_path_that_takes_shorter_ones_one_way_or_both_shortens_them() {
    let shortened = |lost, payload| Some(Shortened { lost, payload });
    for (up, down) in [(1448, 8960), (8960, 1448), (1448, 1448)] {
        assert_eq!(over(8896, up, down), (1408, shortened(8896, 1408), 8));
    }
    assert_eq!(over(1408, 1300, 1408), (1280, shortened(1408, 1280), 15));
    assert_eq!(over(9160, 8930, 8930), (8896, shortened(8960, 8896), 8), "more than a Join can be");
    assert_eq!(over(65_280, 1448, 1448), (1408, shortened(8960, 1408), 15));
    assert_eq!(over(1024, 600, 600), (512, shortened(1024, 512), 8));
}

#[test]
fn what_the_appliance_says_that_its_ports_take_is_tried_at_once() {
    let mut path = Path::of(8896);
    path.padding();
    path.limit(8116);
    assert!(path.shorten());
    assert_eq!(path.payload(), 8064);
    assert!(!path.shorten(), "the next Join is to tell");
    let sent = CONTROL_LEN + path.padding();
    assert!(path.answered(sent));
    assert_eq!(path.take_warning(), Some(Shortened { lost: 8896, payload: 8064 }));

    let mut enough = Path::of(1408);
    enough.limit(8944);
    assert!(!enough.shorten(), "it takes longer ones");
    enough.limit(0);
    assert!(!enough.shorten(), "it has not said");
}

/// Then it is as before: the operation fails, and its error says what gets through.
#[test]
fn a_path_that_takes_next_to_nothing_is_left_to_the_operation() {
    assert_eq!(over(1408, 100, 100).0, 512);
    assert_eq!(over(320, 100, 100).0, 320);
}

#[test]
fn silence_says_nothing_about_lengths() {
    let mut path = Path::of(1408);
    for _ in 0..1000 {
        assert!(!path.shorten());
        path.padding();
    }
    assert!(!path.is_open());
    assert!(!path.answered(CONTROL_LEN), "a short one");
    assert!(path.shorten());
}

/// Three in a row are lost, and the fourth is not.
#[test]
fn losses_in_a_row_shorten_nothing() {
    let mut path = Path::of(1408);
    for _ in 0..3 {
        assert!(path.padding() > 0 && path.padding() == 0);
        path.answered(CONTROL_LEN);
        assert!(!path.shorten());
    }
    let sent = CONTROL_LEN + path.padding();
    assert!(path.answered(sent) && path.is_open());
    assert!(!path.shorten());
    assert_eq!((path.payload(), path.take_warning()), (1408, None));
}

/// Each is as long as the usual one without what makes it longer.
#[test]
fn packets_that_are_longer_are_shortened_to_less() {
    let mut path = Path::of(8920).longer(28);
    for shorter in [8864, 1376, 1312, 1248, 1184, 1120, 480] {
        for _ in 0..2 * TRIES {
            path.padding();
        }
        path.answered(CONTROL_LEN);
        assert!(path.shorten());
        assert_eq!(path.payload(), shorter);
    }
}
