//! Schedules from fixed seeds break no promise, and the same seed does the same.

use pascaline_sim::{Campaign, Fault, Reach, Report, Sabotage, Shape, schedule};

fn run(seed: u64, runs: u64, threads: usize) -> Report {
    let campaign = Campaign { shape: Shape::Levels(1), seed, runs, threads, sabotage: Sabotage::None };
    campaign.run(&|_, _| {})
}

#[test]
fn no_promise_is_broken() {
    let report = run(1, 1500, 2);
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (1500, 0), "{findings:?}");
    for &fault in Fault::ALL {
        assert!(report.faults.get(fault) > 20, "{}: {}", fault.text(), report.faults.get(fault));
    }
    assert!(report.reached.get(Reach::StayedOn) > 20, "{report}");
    assert!(report.finished > 5 * report.failed && report.failed > 50, "{report}");
}

/// What earlier versions got wrong; see the corrections for why.
#[test]
fn what_was_wrong_once_is_right_now() {
    for (seed, what) in [
        (0x1_0000_0031, "a partial in a region that nobody waited for held the quota for ever"),
        (0x1_0000_004a, "a job formed by Joins was unknown to an appliance that was started anew"),
        (
            0x1_0000_809d,
            "what a kept result contains was forgotten, and it was given back as one of all ranks",
        ),
        (0x1_0000_cf1e, "the same"),
        (
            0x1_0001_66be,
            "a result whose count was damaged was taken for whole although its trailer named seven of eight",
        ),
        (45, "who had all results left after a fixed time, although another lacked one that only it had"),
        (257, "the same"),
        (0x1_0000_be05, "only one rank had heard of the first of two restarts: nobody could go on"),
        (0x1_0003_648b, "the same"),
        (
            9_068_960,
            "entries of long complete PSNs kept the parameter server from taking what was waited for",
        ),
        (300_076_563, "an answer to a request that was never sent was taken for the one to the latest"),
    ] {
        assert_eq!(schedule(seed, Sabotage::None, None).violations, 0, "seed {seed}: {what}");
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let (one, other) = (run(7000, 40, 1), run(7000, 40, 2));
    assert_eq!((one.digest, one.events, one.faults), (other.digest, other.events, other.faults));
    assert_ne!(one.digest, run(7001, 40, 1).digest);
}

#[test]
fn a_schedule_told_in_words_is_the_same() {
    for seed in 0..10 {
        let (mut lines, silent) = (Vec::new(), schedule(seed, Sabotage::None, None));
        let told = schedule(seed, Sabotage::None, Some(&mut |line| lines.push(line.to_owned())));
        assert_eq!((told.digest, told.events), (silent.digest, silent.events));
        assert_eq!(lines.len() as u64, told.events);
    }
}
