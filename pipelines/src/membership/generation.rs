//! A generation's life: what it has at each stage, and how one stage follows another.

use core::time::Duration;
use std::sync::Arc;

use pascaline_wire::trailer::Operations;

use super::job::JobRecord;
use super::rank::{Former, Rank};
use super::uplink::Uplink;
use crate::jobs::{Aliases, Mode, PsnWindow};

/// Where a generation is in its life, and what it has only there.
#[derive(Debug)]
pub(super) enum State {
    /// Ranks are missing.
    Forming {
        /// When the first of those that are here joined; never, while there is none.
        since: Duration,
    },
    /// All that it waits for have joined.
    Complete(Running),
    /// It has lost ranks, and nothing is left but to say so; with what it had while it was complete.
    Broken(Running),
}

/// What a generation has once it is complete.
#[derive(Debug)]
pub(super) struct Running {
    /// The earlier generation that it resumes; `None` if it starts from nothing.
    pub(super) resumed: Option<u16>,
    /// Workers whose contributions are in a result, where that is not one of each rank; else 0.
    pub(super) workers: u32,
    /// The PSNs that may be under way.
    pub(super) window: Arc<PsnWindow>,
    pub(super) dispute: Dispute,
}

/// Whether ranks call different operations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dispute {
    /// None that is known.
    None,
    /// Two have, since then; not all have said yet what they call.
    Since(Duration),
    /// What they call.
    Known(Operations),
}

impl State {
    /// The stage at which a generation begins: nobody is here.
    pub(super) const EMPTY: Self = Self::Forming { since: Duration::MAX };

    pub(super) const fn is_forming(&self) -> bool {
        matches!(self, Self::Forming { .. })
    }

    pub(super) const fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }

    /// What the generation has, if it is complete.
    pub(super) const fn running(&self) -> Option<&Running> {
        if let Self::Complete(running) = self { Some(running) } else { None }
    }

    /// The same, or what it had before it lost ranks.
    pub(super) const fn begun(&self) -> Option<&Running> {
        match self {
            Self::Forming { .. } => None,
            Self::Complete(running) | Self::Broken(running) => Some(running),
        }
    }

    /// Takes note of operations that differ; gives those that were known first.
    pub(super) const fn settle_dispute(&mut self, operations: Operations) -> Operations {
        if let Self::Complete(running) | Self::Broken(running) = self {
            if let Dispute::Known(known) = running.dispute {
                return known;
            }
            running.dispute = Dispute::Known(operations);
        }
        operations
    }

    /// The generation has lost ranks.
    pub(super) fn break_up(&mut self) {
        *self = Self::Broken(match core::mem::replace(self, Self::EMPTY) {
            Self::Forming { .. } => Running::anew(PsnWindow::closed()),
            Self::Complete(running) | Self::Broken(running) => running,
        });
    }
}

impl Running {
    /// One that starts from nothing, with one worker for each rank.
    pub(super) fn anew(window: PsnWindow) -> Self {
        Self { resumed: None, workers: 0, window: Arc::new(window), dispute: Dispute::None }
    }
}

impl JobRecord {
    /// Completes the generation if it has all that it waits for. A rank that has yet to learn that it cannot
    /// resume is not there in that sense.
    pub(super) fn complete(&mut self, now: Duration) {
        match &self.uplink {
            _ if !self.is_gathered() => {}
            None => self.begin(now, self.common_claim()),
            Some(_) => self.ascend(now),
        }
    }

    /// True if the generation is forming, and all that it waits for have joined and can resume the same or
    /// start from nothing.
    pub(super) fn is_gathered(&self) -> bool {
        let agree = || self.common_claim().is_some() || self.claims().all(|claim| claim.is_none());
        self.state.is_forming() && self.joined() == self.spec.fan_in - self.lost() && agree()
    }

    /// Begins what all have joined.
    pub(super) fn begin(&mut self, now: Duration, resumed: Option<u16>) {
        let above = self.uplink.as_ref().and_then(Uplink::granted);
        self.base = above.map_or(self.base, |granted| granted.base);
        let workers = above.map_or_else(|| self.below(), |granted| granted.workers);
        let workers = if workers == u32::from(self.joined()) { 0 } else { workers };
        let (oldest, next) = match resumed {
            None => (self.base, self.base),
            // Ranks below other appliances may lack what all here have.
            Some(_) if self.uplink.is_some() => {
                let (oldest, next) = self.lacked();
                (oldest.wrapping_sub(self.granted().into()), next)
            }
            Some(_) => self.lacked(),
        };
        let window = match self.lcores {
            // Nobody says which PSNs have results.
            0 => PsnWindow::unlimited(),
            lcores => PsnWindow::new(oldest, next, self.granted(), lcores),
        };
        let asynchronous = self.spec.kind.mode() == Mode::Olaf;
        let window = window.with_updates(if asynchronous { self.spec.fan_in } else { 0 });
        self.state = State::Complete(Running { resumed, workers, ..Running::anew(window) });
        if asynchronous && self.uplink.is_some() {
            self.aliases = Arc::new(Aliases::new(self.base));
        }
        // The clocks of silence begin anew, which is no sign of life: whoever has been asked after is asked
        // after again.
        for joined in self.ranks.iter_mut().filter_map(|rank| rank.joined.as_mut()) {
            (joined.heard, joined.moved, joined.contest) = (now, now, None);
        }
    }

    /// The PSNs that may be under way.
    pub(super) fn window(&self) -> Arc<PsnWindow> {
        match self.state.begun() {
            Some(running) => Arc::clone(&running.window),
            None if self.switchml.is_some() => Arc::new(PsnWindow::unlimited()),
            None => Arc::new(PsnWindow::closed()),
        }
    }

    /// Begins the next generation without the ranks that this one has lost.
    pub(super) fn go_on(&mut self) {
        let without = self.numbers(|rank| rank.lost);
        self.next_generation(true);
        without.iter().for_each(|&number| self.ranks[usize::from(number)].lost = true);
    }

    /// Begins the next generation: nobody is a member of it yet. If this one is `resumable`, those who are in
    /// it and not lost resume it, also those who have left.
    pub(super) fn next_generation(&mut self, resumable: bool) {
        let epoch = self.epoch;
        let apart = self.uplink.as_mut().and_then(|uplink| uplink.numbers.next(epoch));
        self.renumber(apart.unwrap_or(epoch.wrapping_add(1)));
        self.generations = self.generations.wrapping_add(1);
        self.base = self.secret.base(self.spec.id, self.generations);
        (self.state, self.payload, self.switchml) = (State::EMPTY, 0, None);
        self.forget_parent();
        for rank in &mut self.ranks {
            let resumable = resumable && !rank.lost;
            if let (Some(_), Some(latest)) = (rank.joined, &mut rank.latest) {
                latest.former = Some(Former { epoch, resumable });
                // What it has kept is needed again: it has to come, and to leave once more.
                latest.left &= !resumable;
            }
            *rank = Rank { latest: rank.latest, retired: rank.retired, ..Rank::default() };
        }
        self.due = Some(Duration::ZERO);
    }

    /// Gives the generation another number, which has meant others before.
    pub(super) fn renumber(&mut self, epoch: u16) {
        self.epoch = epoch;
        self.unresumable.set(epoch, false);
        self.reset = self.reset.filter(|reset| reset.epoch != epoch);
    }
}
