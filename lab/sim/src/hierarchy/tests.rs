#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn setting(levels: &[u16]) -> Setting {
    Setting {
        seed: 1,
        levels: levels.to_vec(),
        gbps: 10,
        port_gbps: 100,
        propagation: Duration::from_micros(5),
        loss_per_million: 0,
        payload: 256,
        bytes: 1024,
        operations: 2,
        window: 16,
        starts: Duration::from_millis(10),
        ends: Duration::from_secs(30),
    }
}

fn right(setting: &Setting) -> Outcome {
    let outcome = run(setting, &mut |_, _| {}).unwrap();
    assert_eq!((outcome.wrong, outcome.operations.len()), (0, setting.operations), "{outcome:?}");
    assert!(outcome.joined.is_some());
    outcome
}

#[test]
fn each_appliance_hears_of_its_own_ranks_only() {
    let outcome = right(&setting(&[3, 4, 5]));
    assert_eq!(outcome.workers, 60);
    let seen: Vec<_> = outcome.levels.iter().map(|level| (level.appliances, level.ranks)).collect();
    assert_eq!(seen, [(1, 3), (3, 4), (12, 5)]);
    let (root, leaf) = (&outcome.levels[0], &outcome.levels[2]);
    // Four PSNs, twice: one of each rank, and results from above. What joins last may be behind others.
    assert!(root.summing.0 - root.control <= 3 * 8, "{root:?}");
    assert!(leaf.summing.0 - leaf.control <= 6 * 8, "{leaf:?}");
}

#[test]
fn losses_cost_time_and_nothing_else() {
    let lossless = right(&setting(&[4, 8]));
    let lossy = right(&Setting { loss_per_million: 20_000, ..setting(&[4, 8]) });
    // The first to join begins before the others, and may ask again.
    assert!(lossy.resent > lossless.resent + 20, "{} and {}", lossy.resent, lossless.resent);
}

/// As many ranks as there may be, at the root and below it.
#[test]
fn the_widest_levels_come_to_an_end() {
    right(&setting(&[64]));
    right(&setting(&[64, 1]));
}

#[test]
fn what_is_no_tree_is_none() {
    for levels in [&[][..], &[0, 4], &[4, 0], &[4, 65], &[65, 1], &[64, 64, 64, 2]] {
        assert_eq!(setting(levels).workers(), None, "{levels:?}");
        assert_eq!(run(&setting(levels), &mut |_, _| {}), None);
    }
    assert_eq!(setting(&[16, 64, 64]).workers(), Some(65_536));
}
