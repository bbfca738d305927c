//! Congestion control over links with queues, under a virtual clock.

use core::time::Duration;

use pascaline_sim::bottleneck::{Outcome, Setting, Sharer, run};
use pascaline_worker::CongestionControl;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn sharer(control: CongestionControl) -> Sharer {
    Sharer { control, in_flight: 0, begins: Duration::ZERO }
}

/// One job alone: on links that mark, but where it is controlled by delay.
fn alone(sharer: Sharer, hosts: u16, loss_per_million: u32) -> (Setting, Outcome) {
    let marks_from = if sharer.control == CongestionControl::Delay { None } else { Some(85) };
    let setting = Setting {
        jobs: vec![sharer],
        marks_from,
        loss_per_million,
        bytes: 2 << 20,
        ends: ms(35),
        ..Setting::rack(hosts)
    };
    let outcome = run(&setting).unwrap();
    (setting, outcome)
}

/// Of an allreduce's bytes on the wire over the link's rate, which part of its time it takes: the median of
/// all but the first one.
fn goodput(setting: &Setting, outcome: &Outcome) -> f64 {
    let mut operations = outcome.shares[0].operations[1..].to_vec();
    operations.sort_unstable();
    let packets = u32::try_from(setting.bytes / usize::from(setting.payload)).unwrap();
    (setting.packet_time() * packets).as_secs_f64() / operations[operations.len() / 2].as_secs_f64()
}

#[test]
fn each_control_fills_a_link_that_loses_nothing() {
    for control in CongestionControl::ALL {
        for hosts in [2, 4, 8] {
            let (setting, outcome) = alone(sharer(control), hosts, 0);
            let goodput = goodput(&setting, &outcome);
            println!("{} of {hosts}: {goodput:.3}", control.name());
            assert_eq!(outcome.shares[0].wrong, 0);
            assert!(goodput >= 0.95, "{} of {hosts}: {goodput:.3}", control.name());
        }
    }
}

/// The fixed window is a quarter of what a worker may run ahead: as large as that, each loss would stop it.
#[test]
fn each_control_stands_a_loss_of_one_in_a_thousand() {
    for control in CongestionControl::ALL {
        for hosts in [2, 4, 8] {
            let in_flight = if control == CongestionControl::Fixed { 128 } else { 0 };
            let (setting, outcome) = alone(Sharer { in_flight, ..sharer(control) }, hosts, 1000);
            let goodput = goodput(&setting, &outcome);
            println!("{} of {hosts}: {goodput:.3}", control.name());
            assert_eq!(outcome.shares[0].wrong, 0);
            assert!(goodput >= 0.80, "{} of {hosts}: {goodput:.3}", control.name());
        }
    }
}

/// Two jobs, of which the second one begins when the first has all of the links. What each has got of them
/// once that has settled, and how long packets wait then.
fn shares(jobs: [Sharer; 2], marks_from: Option<u64>) -> ([f64; 2], Duration) {
    let setting = Setting {
        jobs: vec![jobs[0], Sharer { begins: ms(5), ..jobs[1] }],
        marks_from,
        bytes: 2 << 20,
        ends: ms(70),
        ..Setting::rack(2)
    };
    let outcome = run(&setting).unwrap();
    assert!(outcome.shares.iter().all(|share| share.wrong == 0 && !share.operations.is_empty()));
    let (from, to) = (ms(45), ms(70));
    let results = outcome.results(from, to);
    let most = (to - from).as_secs_f64() / setting.packet_time().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let share = |job: usize| results[job] as f64 / most;
    ([share(0), share(1)], outcome.mean_wait(from, to))
}

const fn fixed(in_flight: u16) -> Sharer {
    Sharer { control: CongestionControl::Fixed, in_flight, begins: Duration::ZERO }
}

/// What a fixed window takes it keeps, and its packets wait.
#[test]
fn a_job_starves_beside_one_with_a_larger_fixed_window() {
    let (shares, wait) = shares([fixed(512), fixed(64)], None);
    println!("fixed: {shares:.3?}, {wait:?}");
    assert!(shares[1] < shares[0] / 7.0, "{shares:.3?}");
    assert!(wait > ms(3) / 10, "{wait:?}");
}

/// Shares within 10 % of half, of links that are full, and a quarter of the wait that fixed windows cause.
#[test]
fn two_jobs_share_equally() {
    let (_, fixed) = shares([fixed(512); 2], None);
    let controls = [
        (CongestionControl::Delay, None),
        (CongestionControl::Delay, Some(85)),
        (CongestionControl::Panama, Some(85)),
        (CongestionControl::Dsa, Some(85)),
    ];
    for (control, marks_from) in controls {
        let (shares, wait) = shares([sharer(control); 2], marks_from);
        println!("{}: {shares:.3?}, {wait:?}; fixed {fixed:?}", control.name());
        assert!(shares.iter().all(|share| (0.45..0.55).contains(share)), "{shares:.3?}");
        assert!(shares[0] + shares[1] > 0.95, "{shares:.3?}");
        assert!(wait <= fixed / 4, "{wait:?} of {fixed:?}");
    }
}
