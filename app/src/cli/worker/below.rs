//! Where a worker is among all those whose appliances send their sums to one root.

use anyhow::ensure;
use clap::Args;

/// This rank among all workers below the root.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct BelowArgs {
    /// Below several appliances: how many workers there are in all [default: --ranks].
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
    /// Below several appliances: which of all workers rank 0 of this one is.
    #[arg(long, value_name = "K", default_value_t = 0, requires = "workers")]
    first: u16,
}

impl BelowArgs {
    /// As a controller has said.
    pub(super) const fn as_placed(self, workers: Option<u16>, first: u16) -> Self {
        match workers {
            Some(_) => Self { workers, first },
            None => self,
        }
    }

    /// Whether this rank is one of the workers. Of its appliance's other ranks some may be appliances, each
    /// of which has workers elsewhere.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check(self, rank: u16, ranks: u16) -> anyhow::Result<()> {
        let Self { workers: Some(all), first } = self else { return Ok(()) };
        let own = u32::from(first) + u32::from(rank);
        ensure!(
            own < u32::from(all) && ranks <= all,
            "--workers {all}: there is no place for rank {rank} of {ranks}, with --first {first}"
        );
        Ok(())
    }

    /// Which of all workers this rank is.
    pub(super) const fn number(&self, rank: u16) -> u16 {
        self.first.saturating_add(rank)
    }

    /// All workers.
    pub(super) fn all(&self, ranks: u16) -> u16 {
        self.workers.unwrap_or(ranks)
    }

    /// True if several appliances make the results: their bits depend on more than the order of ranks.
    pub(super) fn is_tree(&self, ranks: u16) -> bool {
        self.all(ranks) != ranks
    }
}

#[cfg(test)]
mod tests;
