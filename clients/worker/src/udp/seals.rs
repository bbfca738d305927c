//! The keys of a rank, and what a configuration has of them.

use std::path::Path;
use std::sync::Arc;

use pascaline_seal::{Holder, KeyError, KeyFile, LONGER, Protection};

use super::{Config, ConfigError};

/// Bytes by which a sealed packet is longer.
#[expect(clippy::cast_possible_truncation, reason = "28")]
pub const SEAL: u16 = LONGER as u16;

/// The keys of a rank in sealed jobs, for each of its jobs: every tree of every stream has one.
#[derive(Debug, Clone)]
pub struct Seals {
    /// The job of the first key; those of the others have the next numbers.
    first: u16,
    holders: Arc<[Holder]>,
    /// The file that they are from, and the rank.
    file: Option<(Arc<Path>, u16)>,
}

impl Seals {
    /// The key of one job.
    #[must_use]
    pub fn of(job: u16, holder: Holder) -> Self {
        Self { first: job, holders: Arc::new([holder]), file: None }
    }

    /// Those of a rank in `jobs` jobs, the first with this number, from the file that all of them have, or
    /// from the rank's own of one job. A worker looks at the file once a second while it has something to do:
    /// once it has another key, that one is used as soon as the appliance has it, too.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(
        file: &Path,
        (job, rank): (u16, u16),
        jobs: usize,
        protection: Protection,
    ) -> Result<Self, KeyError> {
        // Numbers of jobs that do not exist are reported when the worker joins.
        let numbers = (job..=u16::MAX).take(jobs);
        let holders = numbers.map(|job| Holder::read(file, job, rank, protection));
        Ok(Self { first: job, holders: holders.collect::<Result<_, _>>()?, file: Some((file.into(), rank)) })
    }

    /// The protection of packets; none without a key.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        self.holders.first().map(Holder::protection)
    }

    /// The key for a job.
    pub(super) fn holder(&self, job: u16) -> Option<&Holder> {
        self.holders.get(usize::from(job.checked_sub(self.first)?))
    }

    /// The file that the key for a job is in, to see when it is replaced.
    pub(super) fn key_file(&self, job: u16) -> Option<KeyFile> {
        let (file, rank) = self.file.clone()?;
        let protection = self.protection()?;
        Some(KeyFile::new(file, job, rank, protection))
    }
}

impl PartialEq for Seals {
    /// True only for copies of the same keys: secrets are not compared.
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first && Arc::ptr_eq(&self.holders, &other.holders)
    }
}

impl Eq for Seals {}

impl Config {
    /// With the keys for all jobs of this many streams: see [`Seals::read`].
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn sealed(self, file: &Path, protection: Protection, streams: u16) -> Result<Self, KeyError> {
        let jobs = usize::from(streams.max(1)) * (1 + self.trees.len());
        let seals = Seals::read(file, (self.job, self.rank), jobs, protection)?;
        Ok(Self { seals: Some(seals), ..self })
    }

    /// For drivers: bytes by which packets are longer than their parts say.
    #[must_use]
    pub fn longer(&self) -> u16 {
        self.seals.as_ref().map_or(0, |_| SEAL)
    }

    /// The key for its job, if packets are sealed, and the file that it is in.
    pub(super) fn key(&self) -> Option<(&Holder, Option<KeyFile>)> {
        let seals = self.seals.as_ref()?;
        Some((seals.holder(self.job)?, seals.key_file(self.job)))
    }

    /// There must be a key for each job, up to this one, if for any.
    pub(super) fn check_keys(&self, last: u16) -> Result<(), ConfigError> {
        let Some(seals) = &self.seals else { return Ok(()) };
        let without = (self.job..=last).find(|&job| seals.holder(job).is_none());
        without.map_or(Ok(()), |job| Err(ConfigError::NoKey { job }))
    }
}

#[cfg(test)]
mod tests;
