//! Whether there are hugepages to use.

use std::fs;

use super::config::{EalConfig, Hugepages};
use super::{EalError, Memory};

/// What the machine has to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Available {
    /// Free hugepages of all sizes together.
    pub free_mb: u64,
    /// A hugetlbfs is mounted; DPDK takes its pages from there.
    pub mounted: bool,
}

impl Available {
    pub(super) fn probe() -> Self {
        let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
        let free_kb: u64 = sizes
            .filter_map(|entry| {
                let name = entry.file_name();
                let kilobytes: u64 =
                    name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
                let free = fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
                Some(kilobytes * free.trim().parse::<u64>().ok()?)
            })
            .sum();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"));
        Self { free_mb: free_kb / 1024, mounted }
    }
}

pub(super) fn choose(config: &EalConfig, available: &Available) -> Result<Memory, EalError> {
    let wanted_mb = u64::from(config.memory_mb);
    let enough = available.mounted && available.free_mb >= wanted_mb;
    match (config.hugepages, enough) {
        (Hugepages::Auto | Hugepages::Require, true) => Ok(Memory::Huge),
        (Hugepages::Auto, false) | (Hugepages::No, _) => Ok(Memory::Small { megabytes: config.memory_mb }),
        (Hugepages::Require, false) => {
            let Available { free_mb, mounted } = *available;
            Err(EalError::NoHugepages { wanted_mb, free_mb, mounted })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(hugepages: Hugepages) -> EalConfig {
        EalConfig { hugepages, memory_mb: 256, ..EalConfig::default() }
    }

    const NONE: Available = Available { free_mb: 0, mounted: true };
    const PLENTY: Available = Available { free_mb: 256, mounted: true };
    const UNMOUNTED: Available = Available { free_mb: 256, mounted: false };

    #[test]
    fn auto_takes_hugepages_only_if_they_suffice() {
        assert_eq!(choose(&config(Hugepages::Auto), &PLENTY).unwrap(), Memory::Huge);
        for available in [NONE, UNMOUNTED] {
            let memory = choose(&config(Hugepages::Auto), &available).unwrap();
            assert_eq!(memory, Memory::Small { megabytes: 256 });
        }
    }

    #[test]
    fn required_hugepages_that_are_missing_are_an_error_with_a_remedy() {
        let text = choose(&config(Hugepages::Require), &UNMOUNTED).unwrap_err().to_string();
        assert!(text.contains("no hugetlbfs is mounted") && text.contains("vm.nr_hugepages=128"), "{text}");
        assert!(choose(&config(Hugepages::Require), &NONE).is_err());
    }

    #[test]
    fn hugepages_can_be_declined() {
        assert_eq!(choose(&config(Hugepages::No), &PLENTY).unwrap(), Memory::Small { megabytes: 256 });
    }
}
