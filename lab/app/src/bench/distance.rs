//! How far apart two cores are: how long a cache line takes from one to the other and back. On a virtual
//! machine this changes from one second to the next, because the host moves its processors; every figure over
//! two cores changes with it.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use pascaline_dpdk::{Clock, Lcore};
use serde::Serialize;

use super::fixture::median;
use super::pool::nanos;

/// Round trips that are timed together.
const TRIPS: u64 = 1000;
/// Timed batches of round trips: some milliseconds in all.
const TIMES: u64 = 20;
/// Ends the game.
const OVER: u64 = u64::MAX;

/// Nanoseconds from one core to the other and back, as they were between the measurements of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Apart {
    least: f64,
    median: f64,
    most: f64,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, median, most } = self;
        write!(
            f,
            "a cache line took {median:.0} ns from one core to the other and back ({least:.0} to {most:.0})"
        )
    }
}

/// Collects how far apart two cores were.
#[derive(Debug, Default)]
pub(super) struct Distance(Vec<f64>);

impl Distance {
    /// Measures once more, between this thread and an idle lcore.
    pub(super) fn look(&mut self, lcore: &Lcore, clock: &Clock) -> anyhow::Result<()> {
        let ball = Arc::new(CachePadded::new(AtomicU64::new(0)));
        let theirs = Arc::clone(&ball);
        let handle = lcore.launch(move || {
            let mut turn = 1;
            loop {
                match theirs.load(Ordering::Acquire) {
                    OVER => break,
                    at if at == turn => {
                        theirs.store(turn + 1, Ordering::Release);
                        turn += 2;
                    }
                    _ => spin_loop(),
                }
            }
        })?;
        let mut turn = 0;
        let mut trips = || {
            let start = clock.now_ns();
            for _ in 0..TRIPS {
                ball.store(turn + 1, Ordering::Release);
                turn += 2;
                while ball.load(Ordering::Acquire) != turn {
                    spin_loop();
                }
            }
            nanos(clock.now_ns() - start) / nanos(TRIPS)
        };
        // While the lcore wakes up.
        trips();
        self.0.push(median((0..TIMES).map(|_| trips()).collect()));
        ball.store(OVER, Ordering::Release);
        handle.join().map_err(|panic| anyhow::anyhow!("{panic}"))
    }

    /// The measurements so far.
    pub(super) fn apart(&self) -> Apart {
        Apart {
            least: self.0.iter().copied().fold(f64::INFINITY, f64::min),
            median: median(self.0.clone()),
            most: self.0.iter().copied().fold(0.0, f64::max),
        }
    }
}
