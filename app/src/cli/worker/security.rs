//! What the appliance may read, and what proves packets.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use pascaline_worker::masked::{self, Key};
use pascaline_worker::{Appliances, KeyError, Protection, Seals};

use super::AllreduceArgs;
use super::member::RankArgs;
use super::sample::Order;

/// What protects tensors, from the appliance or from hosts on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Security {
    /// Nothing: it reads what it adds.
    None,
    /// Masks that cancel in the sum: it adds what looks random, and ranks find wrong sums.
    Masked,
    /// Packets prove their sender, and that they are unchanged.
    Mac,
    /// Likewise, and no host on the path can read the values. The appliance can.
    Encrypt,
}

impl Security {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Masked => "masked",
            Self::Mac => Protection::Mac.name(),
            Self::Encrypt => Protection::Encrypt.name(),
        }
    }

    /// The protection of packets, if they are sealed.
    const fn protection(self) -> Option<Protection> {
        match self {
            Self::None | Self::Masked => None,
            Self::Mac => Some(Protection::Mac),
            Self::Encrypt => Some(Protection::Encrypt),
        }
    }

    /// For people, after the number of operations; none without protection.
    pub(super) const fn label(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Masked => Some("masked"),
            Self::Mac => Some("authenticated"),
            Self::Encrypt => Some("encrypted"),
        }
    }
}

/// What a file of keys has given.
pub(super) enum Keys {
    /// There is none.
    None,
    /// For masks that the appliance does not know.
    Masked(Key),
    /// For packets, whose key the appliance has as well.
    Sealed(Seals),
}

impl Keys {
    /// The key of masked operations.
    pub(super) const fn mask(&self) -> Option<&Key> {
        match self {
            Self::Masked(key) => Some(key),
            Self::None | Self::Sealed(_) => None,
        }
    }

    /// The keys of packets.
    pub(super) fn seals(&self) -> Option<Seals> {
        match self {
            Self::Sealed(seals) => Some(seals.clone()),
            Self::None | Self::Masked(_) => None,
        }
    }
}

/// What protects tensors, and by which secret.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecurityArgs {
    /// What protects tensors; the same at all ranks. `masked` hides them from the appliance: sums and means
    /// of f32, f16, bf16 and i32, and copies of anything. `mac` and `encrypt` are for a job that has the same
    /// `security` at the appliance.
    #[arg(long, value_enum, default_value_t = Security::None)]
    pub(super) security: Security,
    /// With --security: the file with the job's key, the same at all ranks, which `pascaline job key --new
    /// FILE` makes; for mac and encrypt also this rank's own. Only its owner may read it. The appliance has
    /// none of masked jobs, and the same of others.
    #[arg(
        long,
        value_name = "FILE",
        required_if_eq_any([("security", "masked"), ("security", "mac"), ("security", "encrypt")])
    )]
    key: Option<PathBuf>,
}

impl SecurityArgs {
    /// The file, if there is to be one.
    fn file(&self) -> anyhow::Result<Option<&Path>> {
        let none = self.security == Security::None;
        ensure!(!none || self.key.is_none(), "--key goes with --security masked, mac or encrypt");
        Ok(self.key.as_deref())
    }

    /// The keys, if there are to be any.
    ///
    /// # Errors
    /// What does not go together, and a file that gives no key.
    pub(super) fn keys(&self, args: &AllreduceArgs, appliances: &Appliances) -> anyhow::Result<Keys> {
        let jobs = 1 + appliances.trees.len();
        if let Some(seals) = self.seals(&args.who, jobs)? {
            return Ok(Keys::Sealed(seals));
        }
        Ok(self.key(args)?.map_or(Keys::None, Keys::Masked))
    }

    /// The keys that seal a rank's packets in its jobs, if they are to be sealed.
    ///
    /// # Errors
    /// What does not go together, and a file that gives no key.
    pub(super) fn seals(&self, who: &RankArgs, jobs: usize) -> anyhow::Result<Option<Seals>> {
        let (file, security) = (self.file()?, self.security.name());
        let Some(protection) = self.security.protection() else { return Ok(None) };
        let file = file.with_context(|| format!("--security {security} takes --key FILE"))?;
        Seals::read(file, (who.job, who.rank), jobs, protection).map(Some).map_err(whole)
    }

    /// The same for a command that masks nothing.
    ///
    /// # Errors
    /// As there, and masks.
    pub(super) fn only_seals(&self, who: &RankArgs, jobs: usize) -> anyhow::Result<Option<Seals>> {
        ensure!(self.security != Security::Masked, "--security masked goes with `worker allreduce` only");
        self.seals(who, jobs)
    }

    /// The key of masked operations, if there is to be one.
    fn key(&self, args: &AllreduceArgs) -> anyhow::Result<Option<Key>> {
        let Some(file) = self.file()? else { return Ok(None) };
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
        Key::read(file).map(Some).map_err(whole)
    }
}

/// The text has the system's error in it, which is not to follow a second time as its source.
fn whole(error: KeyError) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

#[cfg(test)]
mod tests;
