//! Names of kinds of jobs, and the papers' systems as names for kinds with their choices made.
//! docs/policies.md has the same as a table.

use pascaline_aggregator::ConflictPolicy;
use pascaline_pipelines::membership::JobKind;

/// Which kind a job is. In the file each has a table of this name, for what only such jobs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Sums of all ranks, in slots of the job's own (synchronous aggregation: DSA, section II.A).
    Region,
    /// Sums of all ranks, in slots that all such jobs share (statistical aggregation: DSA, section II.A).
    Shared,
    /// Sums that may be complete before all ranks are in them, in slots of the job's own.
    Early,
    /// No sums: each rank sends an update when it has one.
    Updates,
    /// Sums of `SwitchML`'s own clients.
    Switchml,
}

impl Tag {
    /// Which kind this is.
    pub(crate) const fn of(kind: &JobKind) -> Self {
        match kind {
            JobKind::Region { .. } => Self::Region,
            JobKind::Shared { .. } => Self::Shared,
            JobKind::Early { .. } => Self::Early,
            JobKind::Updates { .. } => Self::Updates,
            JobKind::Switchml { .. } => Self::Switchml,
        }
    }
}

/// What a file says for a kind: the kind, or a paper's system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindName {
    /// The kind itself, whose table has the choices.
    Plain(Tag),
    /// DSA, section III: [`Tag::Shared`], with preemption by priority and a server.
    Dsa,
    /// ATP, as DSA's section II.A describes it: [`Tag::Shared`], first come, first served, with a server.
    Atp,
    /// iSwitch, section 3: [`Tag::Early`], with a threshold that its ranks may change.
    Iswitch,
    /// PANAMA, sections 4 and 5: [`Tag::Early`]; PANAMA-0.94 has `threshold = 0.94`.
    Panama,
    /// Olaf: [`Tag::Updates`].
    Olaf,
}

impl KindName {
    /// The kind that it is.
    pub const fn tag(self) -> Tag {
        match self {
            Self::Plain(tag) => tag,
            Self::Dsa | Self::Atp => Tag::Shared,
            Self::Iswitch | Self::Panama => Tag::Early,
            Self::Olaf => Tag::Updates,
        }
    }

    /// What decides a conflict, where its table does not say so: a holder that loses to a newcomer begins
    /// again unless a server completes it.
    pub const fn conflict(self, server: bool) -> ConflictPolicy {
        match self {
            Self::Atp => ConflictPolicy::FirstCome,
            Self::Dsa => ConflictPolicy::Preempt,
            _ if server => ConflictPolicy::Preempt,
            _ => ConflictPolicy::FirstCome,
        }
    }
}
