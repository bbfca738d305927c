//! Why a masked operation failed.

use core::fmt;

use pascaline_wire::{DType, RankSet};

use super::announcement::Called;

/// Why. Unless it says otherwise, all ranks fail alike, and the next operation can
/// begin; what the tensor holds is unspecified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What travels as words of 32 bits can be added, and has 32 bits of precision.
    #[error("{op} of {dtype} cannot be masked\n  remedy: {}", Remedy(.op, *.dtype))]
    Unmaskable {
        /// The type of the elements.
        dtype: DType,
        /// How they are combined.
        op: &'static str,
    },
    /// The system gives none.
    #[error("no random numbers for masks: {0}")]
    Random(String),
    /// Nothing came in their place.
    #[error("rank {ranks}: nothing of it arrived; it was left out on the way")]
    Absent {
        /// The ranks.
        ranks: RankSet,
    },
    /// Not authentic. Only this rank may have noticed.
    #[error("rank {ranks}: another key than this rank's, or what it sent was changed on the way")]
    Foreign {
        /// The ranks.
        ranks: RankSet,
    },
    /// The ranks disagree.
    #[error("rank {rank} calls {theirs}, and this one {own}")]
    Calls {
        /// The first other rank that disagrees.
        rank: u16,
        /// What it calls.
        theirs: Called,
        /// What this rank calls.
        own: Called,
    },
    /// Infinities and NaNs are no fixed-point numbers.
    #[error(
        "rank {ranks}: an element is infinite or not a number, which cannot be masked\n  remedy: skip this \
         step at all ranks, as a gradient scaler does"
    )]
    NotFinite {
        /// The ranks.
        ranks: RankSet,
    },
    /// A sum of integers could leave their range.
    #[error(
        "an element of magnitude {largest}: masked sums of {ranks} ranks hold integers up to {most}\n  \
         remedy: send f32, or smaller numbers"
    )]
    Range {
        /// The largest magnitude of any rank's elements.
        largest: u32,
        /// The ranks.
        ranks: u16,
        /// The largest that there may be.
        most: u32,
    },
    /// Masks cancel only if every rank's are there. Only this rank may have noticed.
    #[error(
        "rank {ranks}: results lack it, and masks cancel only if all are inside\n  remedy: a job without \
         thresholds and time limits, and all ranks join again if one has died"
    )]
    Lacking {
        /// The ranks.
        ranks: RankSet,
    },
    /// The appliance, or what is on the way, or a member has spoilt it. Only this rank may have noticed.
    #[error("what arrived is not the sum of what the ranks sent: {wrong} of {blocks} blocks are wrong")]
    NotTheSum {
        /// How many blocks did not pass.
        wrong: usize,
        /// How many were checked.
        blocks: usize,
    },
}

impl Fault {
    /// The ranks that it names.
    #[must_use]
    pub fn ranks(&self) -> Vec<u16> {
        match self {
            Self::Absent { ranks }
            | Self::Foreign { ranks }
            | Self::NotFinite { ranks }
            | Self::Lacking { ranks } => ranks.iter().collect(),
            Self::Calls { rank, .. } => vec![*rank],
            Self::Unmaskable { .. } | Self::Random(_) | Self::Range { .. } | Self::NotTheSum { .. } => {
                Vec::new()
            }
        }
    }
}

struct Remedy(&'static str, DType);

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            ("min" | "max", _) => f.write_str("sum or mean, since what cannot be read cannot be compared")?,
            (_, DType::F64) => f.write_str("send f32, since words of 32 bits travel")?,
            _ => f.write_str("send f32, f16, bf16 or i32")?,
        }
        f.write_str("; or security none")
    }
}
