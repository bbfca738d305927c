//! Whole sessions of a pool with two lcores, under a scheduler.
//!
//! Each lcore is a thread of shuttle's, which decides at each access to what they share (rings, quotas,
//! tables of jobs) who goes on. It also decides which lcore receives a packet, and when a turn resumes or
//! sweeps: so a schedule repeats all of a run. The oracle is in [`books`] and at the end of [`lcore`]: each
//! contribution is in exactly one result or piece, or was given up or refused, which is counted; sums are
//! exact, a PSN has one result, each request one answer; all packets come back, and both sessions come to
//! rest.
//!
//! A failure prints its schedule; `PASCALINE_SCHEDULE=<schedule>` repeats it. `PASCALINE_CASES` is the number
//! of schedules of each model, seed and scheduler.
#![cfg(shuttle)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod books;
#[allow(dead_code, unused_imports, reason = "the other program uses the rest")]
#[path = "../it/common/mod.rs"]
mod common;
mod lcore;
#[cfg(feature = "sabotage")]
mod sabotages;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use pascaline_aggregator::Key;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};

use common::Parcel;
use lcore::{Model, PLAIN, QUOTA, RANKED, REGION, SERVED, Seen, part, reminder};

/// What the schedulers begin with.
const SEEDS: [u64; 2] = [1, 2];
/// Preemptions in a schedule, at the most, where they are few.
const FEW: usize = 3;

/// Runs a model under many schedules, or under the one of the environment. Returns what was seen in all.
fn explore(model: &Arc<Model>, cases: usize) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::new()));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let (model, seen) = (Arc::clone(model), Arc::clone(&seen));
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(move || {
            let more = model.run();
            let mut all = seen.lock().unwrap();
            more.into_iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
        });
    };
    if let Ok(schedule) = env::var("PASCALINE_SCHEDULE") {
        run(Box::new(ReplayScheduler::new_from_encoded(&schedule)));
    } else {
        for seed in SEEDS {
            run(Box::new(RandomScheduler::new_from_seed(seed, cases)));
            run(Box::new(PctScheduler::new_from_seed(seed, FEW, cases)));
        }
    }
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// The model holds under every schedule, and each of these events came in some.
#[track_caller]
fn holds(model: Model, events: &[&str]) {
    let cases = env::var("PASCALINE_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let explored = catch_unwind(AssertUnwindSafe(|| explore(&Arc::new(model), cases)));
    let seen = explored.unwrap_or_else(|panic| {
        eprintln!("PASCALINE_SCHEDULE=<the first schedule above> and the name of the test repeat this");
        resume_unwind(panic)
    });
    println!("{seen:?}");
    if env::var_os("PASCALINE_SCHEDULE").is_none() {
        events.iter().for_each(|event| assert!(seen.contains_key(event), "no schedule with: {event}"));
    }
}

/// Schedules of each model, seed and scheduler.
const CASES: usize = 3000;

/// All ranks' contributions to some PSNs.
fn round(job: u16, epoch: u16, psns: std::ops::Range<u32>, fan_in: u16) -> impl Iterator<Item = Parcel> {
    psns.flat_map(move |psn| (0..fan_in).map(move |rank| part(Key::new(job, epoch, psn), rank, fan_in)))
}

/// The same with the priority of its PSN, which differs between those that share a set.
fn prioritized(parcel: Parcel) -> Parcel {
    let priority = u16::try_from(parcel.request.key.psn() / 2 % 3 * 4).unwrap();
    parcel.priority(priority)
}

/// A model without news. Where contributions come twice, there is room for all results.
fn plain(slots: usize, ways: usize, parcels: impl Iterator<Item = Parcel>) -> Model {
    let parcels = parcels.collect();
    Model { slots, ways, news: false, age: None, reserved: false, parcels }
}

#[test]
fn what_is_combined_on_the_way_meets_what_is_there() {
    let model = plain(8, 1, round(PLAIN, 0, 0..4, 4));
    holds(model, &["combined", "handed off", "opened", "completed"]);
}

#[test]
fn what_a_full_ring_does_not_take_is_brought_in_again() {
    let model = plain(64, 4, round(PLAIN, 0, 0..12, 2));
    holds(model, &["full ring", "completed"]);
}

#[test]
fn psns_that_want_one_slot_have_it_one_after_the_other() {
    let model = plain(2, 1, round(PLAIN, 0, 0..6, 3));
    holds(model, &["no slot", "evicted", "combined"]);
}

#[test]
fn the_more_important_one_gets_the_slot_and_the_server_the_rest() {
    let model = plain(2, 1, round(SERVED, 0, 0..6, 3).map(prioritized));
    let events = ["preempted", "no slot", "no room", "completed", "combined", "full ring"];
    holds(model, &events);
}

#[test]
fn contributions_that_are_kept_leave_one_by_one() {
    let model = plain(2, 1, round(RANKED, 0, 0..6, 3).map(prioritized));
    holds(model, &["preempted", "no slot", "completed", "full ring"]);
}

#[test]
fn in_a_region_a_psn_has_one_result_though_not_all_ranks_are_needed() {
    let model = Model { reserved: true, ..plain(16, 2, round(REGION, 0, 0..8, 3)) };
    holds(model, &["partial result", "released", "replayed", "stale", "no slot"]);
}

#[test]
fn a_quota_is_exceeded_by_one_lcore_at_the_most() {
    let model = plain(16, 2, round(QUOTA, 0, 0..4, 3));
    holds(model, &["no slot", "over the quota"]);
}

#[test]
fn results_are_kept_and_given_to_whoever_asks_again() {
    let reminders = (0..4).map(|psn| reminder(Key::new(PLAIN, 0, psn), 1, 3));
    let copies = round(PLAIN, 0, 0..4, 3).map(|parcel| parcel.with(|r| r.again = true));
    let model = plain(64, 4, round(PLAIN, 0, 0..4, 3).chain(copies).chain(reminders));
    let events = [
        "replayed",
        "duplicate",
        "combined duplicate",
        "reminded: cached",
        "reminded: partial",
        "reminded: unknown",
    ];
    holds(model, &events);
}

/// A table with another generation and other shares.
fn new_table() -> Model {
    let both = |epoch| round(PLAIN, epoch, 0..4, 3).chain(round(QUOTA, epoch, 0..2, 2));
    Model { news: true, ..plain(4, 2, both(0).chain(both(1))) }
}

#[test]
fn a_new_table_of_jobs_comes_at_any_time() {
    let events = ["of the past", "swept", "share", "no slot", "over the quota", "full ring"];
    holds(new_table(), &events);
}

#[test]
fn a_region_passes_to_another_generation() {
    let both = round(REGION, 0, 0..4, 3).chain(round(REGION, 1, 0..4, 3));
    let model = Model { news: true, reserved: true, ..plain(16, 2, both) };
    holds(model, &["of the past", "partial result", "released", "evicted"]);
}

/// Everything at once, in too few slots.
fn all_at_once() -> Model {
    let all = |epoch| {
        let served = round(SERVED, epoch, 0..3, 3).map(prioritized);
        let asked = (0..2).map(move |psn| reminder(Key::new(PLAIN, epoch, psn), 0, 3));
        let shared = round(PLAIN, epoch, 0..4, 3).chain(served).chain(round(QUOTA, epoch, 0..2, 2));
        shared.chain(round(RANKED, epoch, 4..6, 3)).chain(round(REGION, epoch, 0..6, 3)).chain(asked)
    };
    // What lacks pieces that the server has goes at last.
    Model { news: true, age: Some(100), reserved: true, ..plain(16, 2, all(0).chain(all(1))) }
}

#[test]
fn everything_meets_everything_else() {
    let events = [
        "combined",
        "preempted",
        "share",
        "swept",
        "of the past",
        "full ring",
        "reminded: cached",
        "over the quota",
    ];
    holds(all_at_once(), &events);
}
