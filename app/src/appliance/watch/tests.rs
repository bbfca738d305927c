use super::*;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Two lcores that turn, but for the second one's pauses, looked at every 50 ms.
#[test]
fn an_lcore_that_stalls_is_noticed_once_and_comes_back() {
    let mut watch = Watch::new(millis(0), 2);
    let (mut turns, mut noticed, mut held) = ([0, 0], Vec::new(), Vec::new());
    for at in (50..6000).step_by(50).map(millis) {
        let paused = at > millis(1000) && at <= millis(1150) || at > millis(2000) && at <= millis(4500);
        turns = [turns[0] + 900, turns[1] + u64::from(!paused)];
        noticed.extend(watch.look(at, turns));
        if watch.held_up(at) {
            held.push(at);
        }
        let told = at >= millis(3000) && at <= millis(4500);
        assert_eq!(watch.stalled(at).len(), usize::from(told), "{at:?}");
    }
    let stalled = |time| Stalled { lcore: 1, time: millis(time) };
    // It comes back at 4.55 s, and was last seen to turn at 2 s.
    assert_eq!(noticed, [Noticed::Stalls(stalled(1000)), Noticed::Turns(stalled(2550))]);
    assert_eq!((held.first(), held.last()), (Some(&millis(2250)), Some(&millis(4500))));
}

#[test]
fn one_that_never_turns_is_noticed_as_well() {
    let mut watch = Watch::new(millis(700), 1);
    assert_eq!(watch.look(millis(1650), [0]), []);
    let stalled = Stalled { lcore: 0, time: millis(1000) };
    assert_eq!(watch.look(millis(1700), [0]), [Noticed::Stalls(stalled)]);
    assert_eq!(watch.look(millis(1750), [0]), [], "said once");
    assert_eq!(watch.stalled(millis(2700)), [Stalled { lcore: 0, time: millis(2000) }]);
}
