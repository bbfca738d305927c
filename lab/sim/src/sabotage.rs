//! Deliberate defects: each violates one invariant, and the harness must find it.

mod network;
pub(crate) mod server;

pub(crate) use network::Saboteur;

/// A defect to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// The network changes a bit of a gradient's payload, unseen by any checksum.
    AlterPayload,
    /// The network moves a gradient to the next PSN.
    MovePsn,
    /// The network passes a copy of a rank's gradient off as the next rank's.
    StealRank,
    /// The network replays gradients of a rank's earlier life, with epoch and source port of the present one.
    ReplayStaleEpoch,
    /// The network rewrites a copy of each result for a worker of another job.
    CrossJobs,
    /// The network replaces results by bytes that the receiver has contributed.
    EchoAsResult,
    /// The network claims that a generation is resumed where it begins from nothing.
    ClaimForever,
    /// The network moves the gradients of rank 0 to the next PSN once it has resumed.
    RenumberResumed,
    /// The network passes a copy of each update off as the next one.
    RenumberUpdates,
    /// The network changes the set of ranks that a partial result contains.
    MisreportPartial,
    /// The network hides from a worker that its results do not contain all ranks.
    HidePartial,
    /// The network changes the set of lost ranks in an Ack.
    MisnameLost,
    /// The network hides from workers that ranks are lost.
    HideLoss,
    /// The network hides from workers a generation whose number is lower than theirs, as if it were older.
    HideLower,
    /// The network hides from leaving workers that another rank waits.
    HideNeed,
    /// The control plane takes the time in which its process was stopped for its ranks' silence.
    SleepThrough,
    /// The control plane loses the heartbeats of rank 0.
    DeafToHeartbeats,
    /// The parameter server takes each partial a second time, for the ranks that are missing from it.
    ServerCountsTwice,
    /// The parameter server forgets nothing when a job enters its next generation.
    ServerForgetsNothing,
    /// The parameter server never asks: it takes each packet for a first one and sends out each sum.
    ServerNeverAsks,
    /// The parameter server changes a bit of its results.
    ServerAlters,
    /// A registration arrives in the name of a parameter server that is gone.
    ServeForTheDead,
    /// The parameter server keeps spent packets.
    LeakToServer,
    /// The appliance's port layer keeps spent packets.
    LeakPacket,
    /// The appliance's port counts a packet that it does not hand on.
    SwallowPacket,
    /// The appliance receives a packet more than it accounts for.
    Miscount,
    /// The network moves results that go to a multicast group to the next PSN.
    MoveGroupPsn,
    /// Workers take what comes by unicast for frames to the group.
    MistakeForGroup,
    /// The network moves packets of `SwitchML`'s clients to the other set of their slot.
    SwapSets,
    /// The network changes a bit of the sums for `SwitchML`'s clients.
    AlterClientSum,
    /// Workers' timers are lost.
    LoseTimers,
    /// The attacker on the path of a sealed job has its keys: as if its seals were taken unchecked.
    HoldKeys,
    /// Ranks of a sealed job count their packets from 1 again and again.
    RepeatNumbers,
    /// Appliances of a tree do not know the replacements of those above them.
    ForgetSpares,
    /// A rank deals its tensors to several trees as though it had called once more.
    DealOtherwise,
    /// A link is cut for good, without an excuse.
    CutLink,
    /// Something panics.
    Panic,
}

impl Sabotage {
    /// True if the defect mixes generations that random first PSNs would separate: then all begin with the
    /// same one, so that the broken rule matters.
    pub(crate) const fn needs_equal_bases(self) -> bool {
        matches!(
            self,
            Self::ReplayStaleEpoch | Self::CrossJobs | Self::ClaimForever | Self::ServerForgetsNothing
        )
    }

    /// All defects.
    pub const ALL: &[Self] = &[
        Self::AlterPayload,
        Self::MovePsn,
        Self::StealRank,
        Self::ReplayStaleEpoch,
        Self::CrossJobs,
        Self::EchoAsResult,
        Self::ClaimForever,
        Self::RenumberResumed,
        Self::RenumberUpdates,
        Self::MisreportPartial,
        Self::HidePartial,
        Self::MisnameLost,
        Self::HideLoss,
        Self::HideLower,
        Self::HideNeed,
        Self::SleepThrough,
        Self::DeafToHeartbeats,
        Self::ServerCountsTwice,
        Self::ServerForgetsNothing,
        Self::ServerNeverAsks,
        Self::ServerAlters,
        Self::ServeForTheDead,
        Self::LeakToServer,
        Self::LeakPacket,
        Self::SwallowPacket,
        Self::Miscount,
        Self::MoveGroupPsn,
        Self::MistakeForGroup,
        Self::SwapSets,
        Self::AlterClientSum,
        Self::LoseTimers,
        Self::CutLink,
        Self::Panic,
        Self::ForgetSpares,
        Self::DealOtherwise,
        Self::HoldKeys,
        Self::RepeatNumbers,
    ];
}
