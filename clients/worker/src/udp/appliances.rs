//! Which appliances a worker talks to: those of each tree, in the order in which they are tried.

use std::net::SocketAddr;

use pascaline_wire::UdpPorts;

use super::{Config, ConfigError, MAX_STREAMS};
use crate::places;

/// The addresses of an appliance: more than one where its name has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The one that stands for all of them until the worker joins.
    pub first: SocketAddr,
    /// The others, in the order in which they are tried.
    pub others: Vec<SocketAddr>,
}

impl Addresses {
    /// These, each once; `None` if there are none.
    pub fn of(found: impl IntoIterator<Item = SocketAddr>) -> Option<Self> {
        let mut found = found.into_iter();
        let mut all = Self::from(found.next()?);
        for address in found {
            if address != all.first && !all.others.contains(&address) {
                all.others.push(address);
            }
        }
        Some(all)
    }

    /// Keeps only those of a family, if there are any.
    pub(super) fn keep(&mut self, ipv4: Option<bool>) {
        let all = core::iter::once(self.first).chain(self.others.iter().copied());
        let fits = |address: &SocketAddr| ipv4.is_none_or(|ipv4| address.is_ipv4() == ipv4);
        if let Some(kept) = Self::of(all.filter(fits)) {
            *self = kept;
        }
    }
}

impl From<SocketAddr> for Addresses {
    fn from(first: SocketAddr) -> Self {
        Self { first, others: Vec::new() }
    }
}

/// The appliances of a configuration, as [`Config`] has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appliances {
    /// The first tree's: [`Config::appliance`].
    pub appliance: SocketAddr,
    /// [`Config::backups`].
    pub backups: Vec<SocketAddr>,
    /// [`Config::trees`].
    pub trees: Vec<Vec<SocketAddr>>,
    /// [`Config::several`].
    pub several: Vec<Addresses>,
}

impl Appliances {
    /// Reads them as users write them: `A,B;C,D` are two trees, of A, whose backup is B, and of C, whose
    /// backup is D. `resolve` turns each name into one address, or several.
    ///
    /// # Errors Those of `resolve`, which also gets empty names.
    pub fn read<A: Into<Addresses>, E>(
        text: &str,
        mut resolve: impl FnMut(&str) -> Result<A, E>,
    ) -> Result<Self, E> {
        let mut several = Vec::new();
        let mut found = |one: &str| {
            let found: Addresses = resolve(one.trim())?.into();
            let first = found.first;
            if !found.others.is_empty() && !several.contains(&found) {
                several.push(found);
            }
            Ok(first)
        };
        let mut tree = |list: &str| list.split(',').map(&mut found).collect();
        let (first, others) = text.split_once(';').map_or((text, None), |(one, rest)| (one, Some(rest)));
        let mut backups: Vec<_> = tree(first)?;
        let appliance = backups.remove(0);
        let trees =
            others.into_iter().flat_map(|others| others.split(';')).map(tree).collect::<Result<_, E>>()?;
        Ok(Self { appliance, backups, trees, several })
    }
}

impl Config {
    /// With these appliances.
    #[must_use]
    pub fn among(self, appliances: Appliances) -> Self {
        let Appliances { appliance, backups, trees, several } = appliances;
        Self { appliance, backups, trees, several, ..self }
    }

    /// The configuration of each stream's worker: its numbers follow those of the streams before it.
    ///
    /// # Errors
    /// [`ConfigError::Streams`], if there are none, too many, or no numbers for their jobs, and
    /// [`ConfigError::NoKey`].
    pub fn of_streams(&self, streams: u16) -> Result<impl Iterator<Item = Self>, ConfigError> {
        let (job, trees) = (self.job, 1 + self.trees.len());
        let last = usize::from(job) + trees * usize::from(streams.max(1)) - 1;
        if !(1..=MAX_STREAMS).contains(&streams) || last > usize::from(u16::MAX) {
            return Err(ConfigError::Streams { job, streams, trees });
        }
        self.check_keys(u16::try_from(last).unwrap_or(u16::MAX))?;
        let trees = u16::try_from(trees).unwrap_or(u16::MAX);
        Ok((0..streams).map(move |stream| {
            let further = stream * trees;
            Self { job: job + further, bind: self.bind_further(further), ..self.clone() }
        }))
    }

    /// Each socket has a port of its own.
    fn bind_further(&self, further: u16) -> Option<SocketAddr> {
        self.bind.map(|bind| match bind.port() {
            0 => bind,
            port => SocketAddr::new(bind.ip(), port.saturating_add(further)),
        })
    }

    /// The configuration of each tree's worker. If none of a tree's own appliances answers, those of the next
    /// trees are tried.
    pub(super) fn of_trees(&self) -> impl Iterator<Item = Self> {
        (0..=self.trees.len()).map(move |tree| {
            let mut list = self.tree(tree);
            let next = (1..=self.trees.len()).map(|step| (tree + step) % (1 + self.trees.len()));
            for other in next.filter_map(|tree| self.tree(tree).first().copied()) {
                if list.len() < places::MOST && !list.contains(&other) {
                    list.push(other);
                }
            }
            let appliance = list.remove(0);
            let further = u16::try_from(tree).unwrap_or(u16::MAX);
            let bind = self.bind_further(further);
            let job = self.job.saturating_add(further);
            Self { appliance, backups: list, trees: Vec::new(), job, bind, ..self.clone() }
        })
    }

    /// A tree's own appliances.
    fn tree(&self, tree: usize) -> Vec<SocketAddr> {
        match tree.checked_sub(1) {
            None => core::iter::once(self.appliance).chain(self.backups.iter().copied()).collect(),
            Some(further) => self.trees.get(further).cloned().unwrap_or_default(),
        }
    }

    /// All appliances of the first tree with their UDP ports, the first one first.
    ///
    /// # Errors
    /// [`ConfigError::UdpPorts`].
    pub(crate) fn peers(&self) -> Result<Vec<(SocketAddr, UdpPorts)>, ConfigError> {
        self.tree(0).into_iter().map(|appliance| Ok((appliance, self.ports_of(appliance)?))).collect()
    }

    pub(super) fn check_appliances(&self) -> Result<(), ConfigError> {
        let (trees, most) = (1 + self.trees.len(), places::MOST);
        if trees > most || usize::from(self.job) + self.trees.len() > usize::from(u16::MAX) {
            return Err(ConfigError::Trees { job: self.job, trees, most });
        }
        if self.silence.is_zero() {
            return Err(ConfigError::Silence);
        }
        for tree in 0..trees {
            let list = self.tree(tree);
            let Some(&first) = list.first() else { return Err(ConfigError::NoAppliance { tree }) };
            self.check_tree(first, &list[1..])?;
        }
        Ok(())
    }

    /// True if an appliance has an address of this family.
    pub(super) fn has_family(&self, appliance: SocketAddr, ipv4: bool) -> bool {
        let named = self.several.iter().filter(|name| name.first == appliance).flat_map(|name| &name.others);
        core::iter::once(&appliance).chain(named).any(|address| address.is_ipv4() == ipv4)
    }

    fn check_tree(&self, first: SocketAddr, backups: &[SocketAddr]) -> Result<(), ConfigError> {
        let most = places::MOST - 1;
        if backups.len() > most {
            return Err(ConfigError::Backups { backups: backups.len(), most });
        }
        self.ports_of(first)?;
        for (at, &backup) in backups.iter().enumerate() {
            if backup == first || backups[..at].contains(&backup) {
                return Err(ConfigError::Twice { appliance: backup });
            }
        }
        for &other in backups.iter().chain([&first]) {
            let both = |ipv4: bool| self.has_family(other, ipv4) && self.has_family(self.appliance, ipv4);
            if !both(true) && !both(false) {
                return Err(ConfigError::BackupFamily { backup: other, appliance: self.appliance });
            }
            self.ports_of(other)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
