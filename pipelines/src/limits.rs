//! Limits on an lcore's answers: it must not become an amplifier.

use crate::meter::{Bucket, PerPsn};
use crate::server::Credit;

/// What an lcore meters.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Refusals to strangers, and to members: neither take the others' tokens.
    pub(crate) refusals: [Bucket; 2],
    /// Reminders to all ranks of a PSN that the pool does not know: one frame in, one for each rank out. The
    /// pool itself limits reminders of PSNs that it knows.
    pub(crate) fan_outs: PerPsn,
    /// Sums and results that go to the parent once more: each rank that waits asks for it.
    pub(crate) climbs: PerPsn,
    /// The same for reminders. A worker sends one right behind a contribution, which must not take its token.
    pub(crate) asks: PerPsn,
    /// What jobs may pass on to the parameter server.
    pub(crate) server: Credit,
    /// What they may give to the pool that comes to nothing.
    pub(crate) pool: Credit,
}
