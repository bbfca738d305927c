use std::collections::BTreeSet;

use pascaline_wire::Element;

use super::*;

fn of(worker: u16, origin: u16) -> Update {
    Update {
        cluster: 0,
        worker,
        origin,
        psn: 0,
        epoch: 0,
        count: 1,
        reward: 0.0,
        generated_ns: 0,
        element: Element::F32_SUM,
        offset: 0,
        len: 4,
        overflow: false,
    }
}

/// Three levels of 6 ranks each: every worker has a number of its own, whichever level it is at.
#[test]
fn workers_have_different_origins_as_long_as_there_are_numbers() {
    let mut seen = BTreeSet::new();
    let mut at = vec![0];
    for _ in 0..3 {
        at = at.iter().flat_map(|&below| (0..6).map(move |rank| origin(&of(rank, below), 6))).collect();
        assert!(at.iter().all(|&origin| origin > 0 && seen.insert(origin)));
    }
    assert_eq!(seen.len(), 6 + 36 + 216);
}

#[test]
fn who_cannot_be_numbered_may_be_anybody() {
    assert_eq!(origin(&of(1022, 0), 1024), 1023);
    assert_eq!(origin(&of(1023, 62), 1024), 1024 + 62 * 1024);
    assert_eq!(origin(&of(1023, 63), 1024), Update::ANYBODY);
    assert_eq!(origin(&of(0, Update::ANYBODY), 1), Update::ANYBODY);
    // The last number means anybody.
    assert_eq!(origin(&of(65_534, 0), 1), Update::ANYBODY);
}
