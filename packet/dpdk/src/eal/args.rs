//! From the configuration to EAL's command line: pure functions, but for reading which cores there are.

use std::collections::BTreeSet;
use std::fs;

use pascaline_dpdk_sys as sys;

use super::config::{EalConfig, LogLevel};
use super::{EalError, Memory};

/// The cores this thread may run on; empty if the kernel does not say.
pub(super) fn allowed_cores() -> Vec<usize> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(parse_list).unwrap_or_default()
}

/// `0-2,5` as the kernel writes it.
fn parse_list(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

pub(super) fn check_cores(config: &EalConfig, allowed: &[usize]) -> Result<(), EalError> {
    let max = sys::PSC_MAX_LCORES as usize;
    let asked = config.cores.len() + 1;
    if asked > max {
        return Err(EalError::TooManyLcores { asked, max });
    }
    for &core in config.cores.iter().chain([&config.main_core]) {
        if !allowed.is_empty() && !allowed.contains(&core) {
            return Err(EalError::CoreUnavailable { core, allowed: allowed.to_vec() });
        }
    }
    let mut seen = BTreeSet::new();
    match config.cores.iter().find(|core| !seen.insert(**core)) {
        Some(&core) if !config.float => Err(EalError::CoreTwice { core }),
        _ => Ok(()),
    }
}

/// EAL's arguments, the program's name first.
pub(super) fn command_line(config: &EalConfig, memory: Memory) -> Vec<String> {
    let mut words = vec![config.program.clone()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--lcores", lcores(config));
    option("--main-lcore", "0".to_owned());
    option("--file-prefix", config.file_prefix.clone());
    for level in log_levels(config.log_level) {
        option("--log-level", level);
    }
    for vdev in &config.vdevs {
        option("--vdev", vdev.clone());
    }
    for address in &config.pci_allow {
        option("--allow", address.clone());
    }
    option("-m", config.memory_mb.to_string());
    match memory {
        // Files are unlinked as soon as they are mapped, so that a crash leaves no hugepages behind.
        Memory::Huge => words.push("--huge-unlink".to_owned()),
        // Not --in-memory, which EAL 22.11 refuses together with --no-huge. Without shared files there is no
        // multi-process channel to set up either.
        Memory::Small { .. } => words.extend(["--no-huge", "--no-shconf"].map(str::to_owned)),
    }
    if !config.telemetry {
        words.push("--no-telemetry".to_owned());
    }
    if config.pci_allow.is_empty() {
        words.push("--no-pci".to_owned());
    }
    words.extend(config.extra_args.iter().cloned());
    words
}

/// `lcore@cpu` for each, or all lcores on all CPUs.
fn lcores(config: &EalConfig) -> String {
    let cpus = core::iter::once(&config.main_core).chain(&config.cores);
    if config.float {
        let ids: Vec<String> = (0..=config.cores.len()).map(|id| id.to_string()).collect();
        let cpus: Vec<String> = cpus.collect::<BTreeSet<_>>().into_iter().map(usize::to_string).collect();
        return format!("({})@({})", ids.join(","), cpus.join(","));
    }
    let pairs: Vec<String> = cpus.enumerate().map(|(id, cpu)| format!("{id}@{cpu}")).collect();
    pairs.join(",")
}

/// The global level caps all; a level above DPDK's default has to be given to each component as well.
fn log_levels(level: LogLevel) -> Vec<String> {
    let (name, verbose) = match level {
        LogLevel::Error => ("error", false),
        LogLevel::Warning => ("warning", false),
        LogLevel::Notice => ("notice", false),
        LogLevel::Info => ("info", true),
        LogLevel::Debug => ("debug", true),
    };
    let mut levels = vec![name.to_owned()];
    if verbose {
        levels.push(format!("*:{name}"));
    }
    levels
}

#[cfg(test)]
mod tests;
