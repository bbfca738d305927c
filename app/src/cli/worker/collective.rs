//! Which collective the command runs, and what a rank must hold after it.

use std::ops::Range;

use clap::{Args, ValueEnum};
use pascaline_worker::{Collective, Narrow, Op, Parts};

/// What the ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Every rank gets the combination of all tensors.
    Allreduce,
    /// The root gets it.
    Reduce,
    /// Every rank gets the root's tensor.
    Broadcast,
    /// No rank continues before all have arrived; no data.
    Barrier,
    /// Every rank gets its part of the combination.
    #[value(name = "reduce_scatter", alias = "reduce-scatter")]
    ReduceScatter,
    /// Every rank gets the parts of all.
    Allgather,
}

/// What `f32` elements travel as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// OCP MXFP8 (E4M3): blocks of 32 elements with a scale.
    #[value(name = "mxfp8")]
    MxFp8,
    /// OCP MXINT8: blocks of 32 elements with a scale.
    #[value(name = "mxint8")]
    MxInt8,
}

impl From<Wire> for Narrow {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::F16 => Self::F16,
            Wire::Bf16 => Self::Bf16,
            Wire::MxFp8 => Self::MxFp8,
            Wire::MxInt8 => Self::MxInt8,
        }
    }
}

/// Which collective.
#[derive(Debug, Clone, Args)]
pub(crate) struct CollectiveArgs {
    /// What the ranks do. Parts are even, as far as whole elements allow.
    #[arg(long, value_enum, default_value_t = Kind::Allreduce)]
    pub(crate) collective: Kind,
    /// With --collective reduce, the rank that gets the result; with broadcast, the one whose tensor all get.
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub(crate) root: u16,
    /// With --dtype f32: half or a quarter of the bytes on the wire, and what 16 or 8 bits cost in precision.
    /// The numbers are then such as the type has; mxfp8 and mxint8 take a multiple of 32 elements here.
    #[arg(long, value_enum, value_name = "TYPE")]
    pub(crate) wire: Option<Wire>,
    /// With --wire: add what rounding has left of a rank's tensor to its next one.
    #[arg(long, requires = "wire")]
    pub(crate) feedback: bool,
}

impl CollectiveArgs {
    pub(super) fn name(&self) -> &'static str {
        match self.collective {
            Kind::Allreduce => "allreduce",
            Kind::Reduce => "reduce",
            Kind::Broadcast => "broadcast",
            Kind::Barrier => "barrier",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::Allgather => "allgather",
        }
    }

    pub(super) const fn call(&self, op: Op) -> Collective<'static> {
        let (root, parts) = (self.root, Parts::Even);
        match self.collective {
            Kind::Allreduce => Collective::Allreduce(op),
            Kind::Reduce => Collective::Reduce { op, root },
            Kind::Broadcast => Collective::Broadcast { root },
            Kind::Barrier => Collective::Barrier,
            Kind::ReduceScatter => Collective::ReduceScatter { op, parts },
            Kind::Allgather => Collective::Allgather { parts },
        }
    }

    /// What a rank's tensor of this many elements must hold afterwards.
    pub(super) fn wants(&self, rank: u16, ranks: u16, elements: usize) -> Wants {
        let part = |rank| Parts::Even.of(rank, ranks, elements).unwrap_or_default();
        let (kind, root, own) = (self.collective, self.root, part(rank));
        Wants { kind, root, rank, own, ends: (0..ranks).map(|rank| part(rank).end).collect() }
    }
}

/// Where an element must come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// It is what the operation makes of all ranks' elements.
    Combined,
    /// It is this rank's.
    Of(u16),
}

/// What a rank's tensor must hold.
#[derive(Debug)]
pub(super) struct Wants {
    kind: Kind,
    root: u16,
    rank: u16,
    own: Range<usize>,
    /// Where each rank's part ends.
    ends: Vec<usize>,
}

impl Wants {
    /// At an index.
    pub(super) fn at(&self, index: usize) -> Want {
        match self.kind {
            Kind::Allreduce => Want::Combined,
            Kind::Reduce if self.rank == self.root => Want::Combined,
            Kind::ReduceScatter if self.own.contains(&index) => Want::Combined,
            Kind::Reduce | Kind::ReduceScatter | Kind::Barrier => Want::Of(self.rank),
            Kind::Broadcast => Want::Of(self.root),
            Kind::Allgather => {
                let rank = self.ends.partition_point(|&end| end <= index);
                Want::Of(u16::try_from(rank).unwrap_or(u16::MAX))
            }
        }
    }
}
