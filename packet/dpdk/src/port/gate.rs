//! Keeping lcores out of a queue while the device behind it is closed and opened anew.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, fence};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// A burst takes microseconds; an lcore inside one may lose its core for longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two checks whether an lcore is inside.
const PAUSE: Duration = Duration::from_micros(50);

/// One queue's gate: shut by the thread that controls the device, passed by the queue's lcore for each burst.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    inside: AtomicBool,
}

impl Gate {
    /// Runs a burst on the queue; returns `None` while the gate is shut.
    #[inline]
    fn pass<T>(&self, burst: impl FnOnce() -> T) -> Option<T> {
        self.inside.store(true, Relaxed);
        // Together with the one in `close`: either this lcore sees that the gate is shut, or the thread that
        // shuts it sees that this lcore is inside.
        fence(SeqCst);
        // Acquire: the reopened device is complete before the gate opens.
        let done = (!self.shut.load(Acquire)).then(burst);
        // Release: the burst is over for the thread that sees this.
        self.inside.store(false, Release);
        done
    }
}

/// Runs a burst on a queue that may have a gate.
#[inline]
pub(crate) fn pass<T: Default>(gate: Option<&Gate>, burst: impl FnOnce() -> T) -> T {
    match gate {
        None => burst(),
        Some(gate) => gate.pass(burst).unwrap_or_default(),
    }
}

/// Shuts gates and waits until no lcore is inside; false if that takes too long.
pub(crate) fn close(gates: &[Arc<Gate>]) -> bool {
    gates.iter().for_each(|gate| gate.shut.store(true, Relaxed));
    fence(SeqCst);
    let began = Instant::now();
    while gates.iter().any(|gate| gate.inside.load(Acquire)) {
        if began.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Opens gates.
pub(crate) fn open(gates: &[Arc<Gate>]) {
    gates.iter().for_each(|gate| gate.shut.store(false, Release));
}

#[cfg(test)]
mod tests;
