//! What the appliance may read.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use pascaline_worker::masked::{self, Key};

use super::AllreduceArgs;
use super::sample::Order;

/// What hides tensors from the appliance, and from hosts on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Security {
    /// Nothing: it reads what it adds.
    None,
    /// Masks that cancel in the sum: it adds what looks random, and ranks find wrong sums.
    Masked,
}

impl Security {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Masked => "masked",
        }
    }
}

/// Whether tensors are hidden, and by which secret.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecurityArgs {
    /// What hides tensors from the appliance; the same at all ranks. Sums and means of f32, f16, bf16 and
    /// i32, and copies of anything.
    #[arg(long, value_enum, default_value_t = Security::None)]
    pub(super) security: Security,
    /// With --security masked: the file with the job's key, the same at all ranks, which `pascaline job key
    /// --new FILE` makes. Only its owner may read it, and the appliance has none.
    #[arg(long, value_name = "FILE", required_if_eq("security", "masked"))]
    key: Option<PathBuf>,
}

impl SecurityArgs {
    /// The key, if there is to be one.
    ///
    /// # Errors
    /// What does not go together, and a file that gives no key.
    pub(super) fn key(&self, args: &AllreduceArgs) -> anyhow::Result<Option<Key>> {
        let Some(file) = &self.key else { return Ok(None) };
        ensure!(self.security == Security::Masked, "--key goes with --security masked");
        if args.collective.wire.is_some() {
            bail!("--wire does not go with --security masked, which sends words of 32 bits");
        }
        if args.order == Order::Rank {
            bail!(
                "--order rank does not go with --security masked, whose sums are rounded once in any order"
            );
        }
        if args.below.is_tree(args.who.ranks) {
            bail!("--security masked is for the ranks of one appliance, not of several below another");
        }
        masked::check(&args.collective.call(args.op.into()), args.dtype)?;
        Ok(Some(Key::read(file)?))
    }
}

#[cfg(test)]
mod tests;
