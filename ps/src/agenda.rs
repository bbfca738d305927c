//! Which job to wake next.

use std::collections::BTreeSet;

use core::time::Duration;

/// Jobs by the time of their next timer; each at most once.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    times: BTreeSet<(Duration, u16)>,
}

impl Agenda {
    /// Moves a job from one time to another; `None` is never.
    pub(crate) fn update(&mut self, job: u16, from: Option<Duration>, to: Option<Duration>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.times.remove(&(from, job));
        }
        if let Some(to) = to {
            self.times.insert((to, job));
        }
    }

    /// The earliest time.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.times.first().map(|&(at, _)| at)
    }

    /// The job whose time comes first, if that is not after `now`.
    pub(crate) fn due(&self, now: Duration) -> Option<u16> {
        self.times.first().filter(|&&(at, _)| at <= now).map(|&(_, job)| job)
    }
}
