use super::*;

#[test]
fn the_paper_s_setting_is_the_paper_s() {
    let paper = Setting::paper(1);
    assert_eq!((paper.frame(), paper.slots()), (306, 17_133));
    for (mix, times) in [(Mix::A, (1280, 640)), (Mix::B, (640, 1280))] {
        for gbps in [10, 100] {
            let work = Setting { mix, gbps, ..paper }.work(0);
            let micros = (work.communication.as_micros(), work.computation.as_micros());
            assert_eq!(micros, times, "{mix:?} at {gbps}");
        }
    }
    let both = Setting { mix: Mix::Both, ..paper };
    assert!(both.work(0).packets > both.work(1).packets);
}

#[test]
fn regions_are_equal_and_lie_inside_the_pool() {
    for ways in [1, 4] {
        let setting = Setting { policy: Policy::SwitchMl, ways, ..Setting::paper(1) };
        let regions: Vec<_> = (0..8).filter_map(|job| setting.rules(job).region).collect();
        assert_eq!(regions.len(), 8);
        for pair in regions.windows(2) {
            assert_eq!(pair[0].first + pair[0].sets, pair[1].first);
        }
        let end = regions.last().map(|last| (last.first + last.sets) as usize * ways).unwrap();
        assert!(end <= setting.slots() && 2 * end > setting.slots());
        assert_eq!(setting.spread(), 1024);
    }
    assert_eq!(Setting::paper(1).spread(), 4096);
}

#[test]
fn pools_can_be_laid_out() {
    for payload in [256, 1024] {
        for ways in [1, 2, 4, 8] {
            let setting = Setting { payload, ways, ..Setting::paper(1) };
            assert_eq!(setting.pool().check(), Ok(()));
            assert!(setting.slots() * usize::from(payload) <= setting.memory);
        }
    }
}
