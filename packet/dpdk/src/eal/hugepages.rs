//! Whether there are hugepages to use.

use std::fs;

use super::config::{EalConfig, Hugepages};
use super::{EalError, Memory};

/// The machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Available {
    /// Hugepages of all sizes together that are available.
    pub usable_mb: u64,
    /// A hugetlbfs is mounted; DPDK takes its pages from there.
    pub mounted: bool,
    /// All of the machine's memory; none if the kernel does not say.
    pub total_mb: Option<u64>,
}

impl Available {
    /// With the pages that are free now.
    pub(super) fn free() -> Self {
        Self::probe("free_hugepages")
    }

    /// With all that are reserved: the process that uses them now, such as an appliance about to be
    /// restarted, may have ended by then.
    pub(super) fn reserved() -> Self {
        Self::probe("nr_hugepages")
    }

    fn probe(counted: &str) -> Self {
        let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
        let usable_kb: u64 = sizes
            .filter_map(|entry| {
                let name = entry.file_name();
                let kilobytes: u64 =
                    name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
                let pages = fs::read_to_string(entry.path().join(counted)).ok()?;
                Some(kilobytes * pages.trim().parse::<u64>().ok()?)
            })
            .sum();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"));
        Self { usable_mb: usable_kb / 1024, mounted, total_mb: total_mb() }
    }
}

fn total_mb() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

pub(super) fn choose(config: &EalConfig, available: &Available) -> Result<Memory, EalError> {
    let wanted_mb = u64::from(config.memory_mb);
    let enough = available.mounted && available.usable_mb >= wanted_mb;
    match (config.hugepages, enough) {
        (Hugepages::Auto | Hugepages::Require, true) => Ok(Memory::Huge),
        (Hugepages::Auto, false) | (Hugepages::No, _) => match available.total_mb {
            Some(total_mb) if total_mb < wanted_mb => Err(EalError::TooLittleMemory { wanted_mb, total_mb }),
            _ => Ok(Memory::Small { megabytes: config.memory_mb }),
        },
        (Hugepages::Require, false) => {
            let Available { usable_mb, mounted, .. } = *available;
            Err(EalError::NoHugepages { wanted_mb, usable_mb, mounted })
        }
    }
}

#[cfg(test)]
mod tests;
