//! Jobs on lcores, and the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use pascaline_dpdk::clock::cycles;
use pascaline_dpdk::lcore::{self, LaunchError};
use pascaline_dpdk::{Clock, Eal, EalError};

use crate::common::{self, eal, wait_for};

#[test]
fn a_job_runs_on_its_lcore_and_returns_its_result() {
    let eal = eal();
    assert_eq!(lcore::current(), None, "a test's thread is no lcore");
    let lcores = eal.lcores();
    assert_eq!(lcores.iter().map(|lcore| (lcore.id(), lcore.core())).collect::<Vec<_>>(), [(1, 0), (2, 0)]);
    for lcore in lcores {
        for round in 0..50 {
            let job = lcore.launch(move || (round, lcore::current())).unwrap();
            assert_eq!(job.join(), Ok((round, Some(lcore.id()))), "free again at once after a join");
        }
    }
}

#[test]
fn a_panic_ends_the_job_and_not_the_lcore() {
    let eal = eal();
    let lcore = &eal.lcores()[1];
    let panicked = lcore.launch(|| panic!("number {}", 7)).unwrap().join();
    let panic = panicked.map(|(): ()| ()).unwrap_err();
    assert_eq!((panic.lcore, panic.message.as_str()), (2, "number 7"));
    let panicked = lcore.launch(|| panic!("plain")).unwrap().join();
    assert_eq!(panicked.map(|(): ()| ()).unwrap_err().message, "plain");
    assert_eq!(lcore.launch(|| 1).unwrap().join(), Ok(1));
}

#[test]
fn an_lcore_does_one_job_at_a_time() {
    let eal = eal();
    let lcore = &eal.lcores()[0];
    let (go, wait) = mpsc::channel::<()>();
    let job = lcore.launch(move || wait.recv()).unwrap();
    assert!(!job.is_finished());
    assert!(matches!(lcore.launch(|| ()), Err(LaunchError::Busy { lcore: 1 })));
    go.send(()).unwrap();
    assert_eq!(job.join(), Ok(Ok(())));
}

#[test]
fn a_job_whose_handle_is_gone_runs_on_and_its_result_is_dropped() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let eal = eal();
    let lcore = &eal.lcores()[0];
    let dropped = Arc::new(AtomicBool::new(false));
    let (go, wait) = mpsc::channel::<()>();
    let result = Flag(dropped.clone());
    drop(lcore.launch(move || wait.recv().map(|()| result)).unwrap());
    go.send(()).unwrap();
    wait_for("the result to be dropped", || dropped.load(Ordering::SeqCst));
    wait_for("the lcore to be free", || lcore.launch(|| ()).is_ok());
    wait_for("the lcore to be free", || lcore.launch(|| ()).is_ok());
}

#[test]
fn the_clock_keeps_pace_with_the_system_on_every_lcore() {
    let eal = eal();
    let clock = Clock::new(&eal);
    let (system, ticks) = (std::time::Instant::now(), cycles());
    let here = clock.now_ns();
    let there = eal.lcores()[0].launch(move || clock.now_ns()).unwrap().join().unwrap();
    let again = clock.now_ns();
    assert!(here <= there && there <= again, "{here} {there} {again}");
    wait_for("20 ms", || system.elapsed().as_millis() >= 20);
    let (span, mine) = (clock.span_ns(cycles() - ticks), clock.now_ns());
    let theirs = u64::try_from(system.elapsed().as_nanos()).unwrap();
    // EAL rounds the measured rate to 10 MHz.
    assert!(mine.abs_diff(theirs) < theirs / 50, "{mine} ns by the counter, {theirs} ns by the system");
    assert!(span.abs_diff(theirs) < theirs / 50, "{span} ns between two readings, {theirs} ns by the system");
}

#[test]
fn dpdk_starts_once() {
    let _eal = eal();
    assert!(matches!(Eal::init(&common::test_config()), Err(EalError::AlreadyStarted)));
}
