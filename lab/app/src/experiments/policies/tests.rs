//! The comparison of the pool's policies, small: the invariants of each, and their differences.
#![allow(clippy::unwrap_used, reason = "that is how tests fail")]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::experiment::Choice;
use super::ledger::{Repair, Role, Task};
use super::setting::{Mix, Policy, ResultsAt};
use super::{Experiment, Part, Run, Setting, run, watched};

/// Little memory and long waits for stragglers: everything that can happen does.
fn contended(choice: Choice, seed: u64) -> Setting {
    let Choice { policy, results_at, ways } = choice;
    Setting {
        policy,
        results_at,
        ways,
        scale: 120,
        memory: 128 << 10,
        in_flight: 128,
        ..Setting::paper(seed)
    }
}

fn contend(policy: Policy, results_at: ResultsAt) -> Run {
    run(&contended(Choice { policy, results_at, ways: 1 }, 3)).unwrap()
}

/// `run` checks every result, the pool's report on every packet, and every buffer.
#[test]
fn every_choice_is_exact_without_and_with_loss() {
    for choice in Choice::all() {
        for (loss, poll_us, mix) in [(0, 1, Mix::Both), (5_000, 0, Mix::A), (20_000, 10, Mix::B)] {
            let setting = Setting { loss, poll_us, mix, scale: 800, ..contended(choice, 7) };
            let run = run(&setting).unwrap_or_else(|violation| panic!("{choice:?}, {loss}: {violation}"));
            assert_eq!(run.verified, setting.results(), "{choice:?}");
            assert!(loss == 0 || run.retransmissions > 0, "{choice:?}: nothing was lost");
            assert!(run.utilisation > 0.0 && run.utilisation <= 1.01, "{choice:?}: {}", run.utilisation);
        }
    }
}

/// DSA's analysis of all cases (section IV.C): whatever is lost, all workers get the sum. A third of the
/// repairing packets is lost too.
#[test]
fn whatever_is_lost_is_repaired() {
    let choice = Choice { policy: Policy::Dsa, results_at: ResultsAt::Appliance, ways: 1 };
    let seen = |role, loss| {
        let setting = Setting { loss: 20_000, of_role: Some((role, loss)), ..contended(choice, 5) };
        let seen = watched(&Setting { scale: 200, ..setting }, true)
            .unwrap_or_else(|violation| panic!("{}: {violation}", role.name()));
        assert_eq!(seen.run.verified, Setting { scale: 200, ..setting }.results());
        let lost = seen.cases.iter().flat_map(|case| &case.lost);
        (lost.filter(|&&(lost, _)| lost == role).count(), seen.cases)
    };
    let roles = [Role::Gradient, Role::Result, Role::Loser, Role::Served, Role::Again, Role::Answer];
    let roles =
        roles.into_iter().chain([Role::Reminder, Role::Ask, Role::Fetch, Role::Fetched, Role::Original]);
    for role in roles {
        let (lost, cases) = seen(role, 300_000);
        assert!(lost > 0, "{}: none was lost", role.name());
        let tasks = Task::ALL.map(|task| cases.iter().filter(|case| case.task == task).count());
        assert!(tasks.iter().all(|&count| count > 0), "{}: {tasks:?}", role.name());
        assert!(cases.iter().any(|case| case.repair == Repair::Fetched), "{}", role.name());
        assert_eq!(seen(role, 0).0, 0, "{}", role.name());
    }
}

#[test]
fn the_same_seed_gives_the_same_and_another_does_not() {
    for choice in Choice::all().filter(|choice| choice.ways == 1) {
        let of = |seed| run(&Setting { loss: 5000, scale: 800, ..contended(choice, seed) }).unwrap();
        assert_eq!(of(5), of(5), "{choice:?}");
        assert_ne!(of(5).completion_ms, of(6).completion_ms, "{choice:?}");
    }
}

#[test]
fn policies_differ_in_who_leaves_and_where_to() {
    let at = ResultsAt::Appliance;
    for policy in [Policy::Dsa, Policy::Always, Policy::Coin] {
        let run = contend(policy, at);
        assert!(run.preemptions > 0 && run.ps_completions > 0, "{run:?}");
    }
    let atp = contend(Policy::Atp, at);
    assert!(atp.preemptions == 0 && atp.ps_packets > 0 && atp.ps_completions > 0, "{atp:?}");
    let none = contend(Policy::None, at);
    assert!(none.ps_packets == 0 && none.refused > 0 && none.retransmissions > 0, "{none:?}");
    let region = contend(Policy::SwitchMl, at);
    assert_eq!((region.ps_packets, region.preemptions, region.refused, region.retransmissions), (0, 0, 0, 0));
    // The newcomer always leaves the holder's place: contributions themselves never go to the server.
    let always = contend(Policy::Always, at);
    assert!(always.ps_packets < atp.ps_packets, "{always:?}, {atp:?}");
}

/// Each result is a packet to the server, and comes later.
#[test]
fn results_that_are_made_at_the_server_go_there() {
    let plenty = Setting { ways: 8, scale: 200, in_flight: 128, ..Setting::paper(3) };
    let of = |results_at| run(&Setting { results_at, policy: Policy::Atp, ..plenty }).unwrap();
    let (here, there) = (of(ResultsAt::Appliance), of(ResultsAt::Server));
    assert_eq!((here.ps_packets, here.ps_completions), (0, 0));
    let psns = plenty.results() / u64::from(plenty.ranks);
    assert_eq!((there.ps_packets, there.ps_completions, there.pool_completions), (psns, 0, psns));
    assert!(there.completion_ms > here.completion_ms);
}

/// Without contention an iteration takes the model's time: computation, the line's time for all packets, and
/// little more.
#[test]
fn a_job_that_is_alone_takes_what_it_must() {
    let setting = Setting { jobs: 1, policy: Policy::SwitchMl, poll_us: 0, scale: 16, ..Setting::paper(1) };
    let run = run(&setting).unwrap();
    // Half of the first layer's gradients wait for its backward pass; the last of the second layer are sent
    // at the end.
    let computation = 2.0 * 0.32 / 16.0;
    let line = setting.results() as f64 / 8.0 * 306.0 * 8.0 / 100e9 * 1e3;
    let least = line + computation / 2.0;
    let stragglers = 0.3 / 16.0;
    assert!(run.completion_ms > least && run.completion_ms < least + stragglers + 0.1, "{run:?}, {least}");
}

#[test]
fn the_whole_comparison_is_complete_and_repeatable() {
    let experiment = Experiment { seed: 11, runs: 2, scale: 8000, poll_us: 1, loss: 0 };
    let runs = AtomicUsize::new(0);
    let comparison = experiment
        .compare(&|_, all| {
            assert!(all >= runs.fetch_add(1, Ordering::Relaxed));
        })
        .unwrap();
    assert_eq!(runs.into_inner(), 2 * comparison.rows.len());
    assert_eq!(comparison, experiment.compare(&|_, _| {}).unwrap());
    for part in [Part::Main, Part::Scarce, Part::HostJitter, Part::Sweep] {
        assert!(comparison.rows.iter().any(|row| row.part == part), "{part:?}");
    }
    for row in &comparison.rows {
        assert_eq!(row.verified, 2 * row.setting.results());
        assert!(
            row.completion_ms.min <= row.completion_ms.median
                && row.completion_ms.median <= row.completion_ms.max
        );
        assert!(row.relative >= 1.0);
    }
    assert_eq!((comparison.ranking.len(), comparison.scarce.len()), (20, 20));
    assert!(comparison.ranking.is_sorted_by(|a, b| a.mean <= b.mean));
    for (fact, [one_way, _]) in &comparison.facts {
        assert!(one_way.is_some_and(f64::is_finite), "{fact:?}");
    }
}
