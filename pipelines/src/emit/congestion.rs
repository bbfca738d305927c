//! What the appliance itself says of congestion: its queues and its pool (PANAMA, section 4.2.2).

use pascaline_aggregator::Aggregate;

use super::results::{Like, Said};
use super::{Emitter, STAGE};
use crate::io::Io;
use crate::jobs::Job;

/// From when on results are marked, whoever they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Frames that wait for a port since its own ring is full, on one lcore; more than there can be: never.
    pub frames: usize,
    /// Partials in a thousand slots of an lcore's part of the pool; more than a thousand: never.
    pub slots: u32,
}

impl Default for Marks {
    fn default() -> Self {
        Self { frames: 64, slots: 900 }
    }
}

impl Marks {
    /// None are marked.
    pub const NEVER: Self = Self { frames: STAGE + 1, slots: 1001 };
}

/// What an lcore knows of its own congestion.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Congested {
    pub(super) queues: bool,
    pool: bool,
}

impl Congested {
    pub(super) const fn any(self) -> bool {
        self.queues || self.pool
    }
}

impl<I: Io> Emitter<I> {
    /// What this appliance says with a result of a job.
    #[inline]
    pub(super) fn said<'a, 'b, S>(&self, job: &Job, result: &'a Aggregate<'b, S>) -> Said<'a, 'b, S> {
        let cap = job.cap.min(job.window.room_above());
        Said { result, marked: self.congested.any(), cap, epoch: job.epoch }
    }

    /// Looks whether too much waits for a port; called where anything waits, or did.
    #[cold]
    pub(super) fn look_at_queues(&mut self) {
        self.backlogged = self.stages.iter().any(|stage| !stage.frames.is_empty());
        let full = self.stages.iter().any(|stage| stage.frames.len() >= self.marks.frames);
        if full != self.congested.queues {
            self.congested.queues = full;
            self.forget();
        }
    }

    /// Takes note that so many of a thousand slots hold partials.
    pub fn found_in_pool(&mut self, permille: u32) {
        let full = permille >= self.marks.slots;
        if full != self.congested.pool {
            self.congested.pool = full;
            self.forget();
        }
    }

    /// Forgets what results have had in common: what is said with them has changed.
    pub fn forget(&mut self) {
        self.like = Like::NONE;
    }
}
