use super::*;

const MS: Duration = Duration::from_millis(1);

/// Two clusters whose updates arrive at these intervals, new each time; their pauses after this many rounds.
fn pauses(pace: &mut Pace, intervals: [u32; 2], until: u32) -> [u16; 2] {
    let mut last = [0, 0];
    for now in 1..=until {
        for (cluster, interval) in (0..).zip(intervals) {
            if now.is_multiple_of(interval) {
                last[usize::from(cluster)] = pace.on_update(cluster, MS * now, Duration::ZERO);
            }
        }
    }
    last
}

#[test]
fn who_is_fresher_pauses_and_who_is_behind_never_does() {
    let [fast, slow] = pauses(&mut Pace::default(), [10, 30], 3000);
    assert!(fast > 0 && slow == 0, "{fast} and {slow}");
    let [fast, slow] = pauses(&mut Pace::default(), [10, 10], 3000);
    assert_eq!((fast, slow), (0, 0), "all are the same");
}

#[test]
fn a_pause_is_bounded_and_goes_with_its_reason() {
    let mut pace = Pace::default();
    let [fast, _] = pauses(&mut pace, [10, 1000], 600_000);
    assert_eq!(fast, u16::MAX);
    pace.remove(1);
    assert_eq!(pace.on_update(0, MS * 600_010, Duration::ZERO), 0, "no cluster is left to wait for");
}

#[test]
fn an_old_update_makes_nothing_younger() {
    let mut pace = Pace::default();
    pace.on_update(0, MS * 10, Duration::ZERO);
    pace.on_update(0, MS * 20, MS * 50);
    let one = pace.clusters.get(&0).copied().unwrap_or_default();
    assert!(one.last.is_some_and(|(_, age)| (age - 0.010).abs() < 1e-9), "{one:?}");
}
