//! What an lcore looks after now and then, and at its end.

use std::sync::Arc;

use pascaline_aggregator::{Key, SweepAction};
use pascaline_telemetry::Found;

use super::{HOUSEKEEPING, Lcore};
use crate::io::Io;

/// Sets that one round of housekeeping sweeps.
const SWEEP: usize = 16;
/// How often an lcore looks, when it ends, whether others have left something: some milliseconds.
const LAST_TURNS: usize = 100_000;
/// Nanoseconds by which the contributions of ranks that wait can be apart after losses: a few of a worker's
/// least timeouts.
const APART_NS: u64 = 300_000_000;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    pub(super) fn housekeeping(&mut self) {
        if let Some(order) = self.end.order() {
            self.carry_out(order);
        }
        let table = Arc::clone(&self.table);
        let now = self.emitter.io.now();
        self.emitter.swept_at = now;
        self.setup.bridge.sweep(now);
        let judge = |key: Key, first: Option<u64>| match table.get(key.job()) {
            Some(job) if key.is_of(job.epoch) => {
                let (limit, quota) = (job.policy.partial_after, job.policy.quota);
                let late = limit > 0 && first.is_some_and(|first| now.saturating_sub(first) > limit);
                // A slot that keeps older PSNs out of a region stays: else one could complete twice.
                let guards = job.policy.region.is_some() && job.partials;
                let lost = first.is_some() && !job.window.has(key.psn());
                match () {
                    // What no rank sends to any more.
                    () if lost => SweepAction::Vacate,
                    () if late => SweepAction::Release,
                    // What no rank waits for must not use up the quota without end. Ranks that wait send
                    // again, but with losses not within the pool's age limit.
                    () if quota > 0 && !guards => SweepAction::Expire(now.saturating_sub(APART_NS)),
                    // In a region nothing else takes its place, and the ranks that it lacks would look late.
                    () if job.policy.region.is_some() && !guards => SweepAction::Abandon(now),
                    () => SweepAction::Keep,
                }
            }
            _ => SweepAction::Vacate,
        };
        let mut left = SWEEP.min(self.session.sets());
        while left > 0 {
            let (together, mut found) = (self.surveyor.sets_together(left), Found::default());
            left -= together;
            let counted = |key, first| {
                found.note(now, first);
                judge(key, first)
            };
            self.with_pool(|session, sink| session.sweep(together, counted, sink));
            self.seen = (self.seen.0 + found.open as usize, self.seen.1 + together);
            self.surveyor.visited(together, found);
        }
        if self.seen.1 >= self.session.sets() {
            let slots = self.seen.1 * self.session.ways();
            let permille = self.seen.0 * 1000 / slots.max(1);
            self.emitter.found_in_pool(u32::try_from(permille).unwrap_or(u32::MAX));
            self.seen = (0, 0);
        }
        self.emitter.flush();
        if self.turns.is_multiple_of(HOUSEKEEPING) {
            self.spread.publish();
            self.service.publish();
        }
    }

    /// Takes the packets that have arrived, and hands none to other lcores from now on;
    /// [`run`](Self::run) begins its end with it. Before the ends of several lcores run one after the
    /// other, all of them are closed: each waits for the others' last packets.
    pub fn close(&mut self) {
        self.take_rest();
        self.session.close();
    }

    /// The last turn: sends what waits, gives up what cannot be sent, publishes what was counted.
    pub(super) fn finish(&mut self) {
        self.close();
        // What others have left, and still may. They end at the same time, but for one that is stuck.
        for _ in 0..LAST_TURNS {
            if self.with_pool(|session, sink| session.resume(sink)) {
                self.emitter.flush();
            } else if self.session.is_alone() {
                break;
            }
            core::hint::spin_loop();
        }
        if let Some(updates) = &mut self.updates {
            updates.finish(&mut self.emitter);
        }
        self.emitter.flush();
        self.emitter.abandon();
        self.counters.publish(&mut self.emitter.tally);
        self.spread.publish();
        self.service.publish();
    }
}
