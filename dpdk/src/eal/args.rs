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
    words.push("--no-telemetry".to_owned());
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
mod tests {
    use super::*;

    fn config(main_core: usize, cores: &[usize], float: bool) -> EalConfig {
        EalConfig { main_core, cores: cores.to_vec(), float, ..EalConfig::default() }
    }

    #[test]
    fn each_lcore_is_pinned_to_its_core() {
        assert_eq!(lcores(&config(3, &[5, 4], false)), "0@3,1@5,2@4");
        assert_eq!(lcores(&config(0, &[], false)), "0@0");
    }

    #[test]
    fn floating_lcores_share_each_core_once() {
        assert_eq!(lcores(&config(1, &[0, 1, 1], true)), "(0,1,2,3)@(0,1)");
    }

    #[test]
    fn the_kernels_list_is_understood() {
        assert_eq!(parse_list("\t0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn cores_that_cannot_work_are_refused_by_name() {
        let missing = check_cores(&config(0, &[9], false), &[0, 1]);
        assert!(matches!(missing, Err(EalError::CoreUnavailable { core: 9, .. })));
        let twice = check_cores(&config(0, &[1, 1], false), &[0, 1]);
        assert!(matches!(twice, Err(EalError::CoreTwice { core: 1 })));
        assert!(check_cores(&config(0, &[1, 1], true), &[0, 1]).is_ok());
        assert!(check_cores(&config(1, &[0, 1], false), &[0, 1]).is_ok());
        let many = check_cores(&config(0, &[0; 500], true), &[0, 1]);
        assert!(matches!(many, Err(EalError::TooManyLcores { asked: 501, .. })));
    }

    #[test]
    fn no_hugepages_and_in_memory_never_meet() {
        let words = command_line(&config(0, &[1], false), Memory::Small { megabytes: 256 });
        for word in ["--no-huge", "--no-shconf", "--no-pci", "-m", "256"] {
            assert!(words.iter().any(|has| has == word), "{word} is missing from {words:?}");
        }
        assert!(!words.iter().any(|word| word == "--in-memory"));
    }

    #[test]
    fn the_bus_is_scanned_only_for_devices_that_are_named() {
        let some = EalConfig { pci_allow: vec!["0000:01:00.0".to_owned()], ..EalConfig::default() };
        let words = command_line(&some, Memory::Huge);
        assert!(words.windows(2).any(|pair| pair == ["--allow", "0000:01:00.0"]));
        assert!(!words.iter().any(|word| word == "--no-pci" || word == "--no-huge"));
    }
}
