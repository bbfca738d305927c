//! Whether a configuration fits this machine: what a start would refuse, without touching a device.

use pascaline_dpdk::eal::EalError;
use pascaline_dpdk::{Device, Eal, EalConfig};

use crate::admin::server::Credentials;
use crate::config::{Config, ConfigError};

/// Looks at cores, memory, and the files that the configuration names. Gives what should be known besides.
pub(crate) fn fits(config: &Config) -> Result<Vec<String>, ConfigError> {
    Eal::would_use(&eal_config(config)).map_err(|error| refused(config, &error))?;
    let credentials = config.admin.as_ref().map(|admin| Credentials::load(config, admin)).transpose()?;
    Ok(credentials.map(|credentials| credentials.warnings).unwrap_or_default())
}

/// What DPDK is started with.
pub(super) fn eal_config(config: &Config) -> EalConfig {
    let pci_allow = config.ports.iter().filter_map(|port| match &port.device.value {
        Device::Pci(address) => Some(address.clone()),
        Device::Vdev(_) => None,
    });
    EalConfig {
        program: "pascaline".to_owned(),
        file_prefix: format!("{}-{}", config.name, std::process::id()),
        main_core: config.main_core.value,
        cores: config.cores.value.clone(),
        float: config.float,
        hugepages: config.hugepages,
        memory_mb: config.memory_mb.value,
        pci_allow: pci_allow.collect(),
        ..EalConfig::default()
    }
}

/// Why DPDK does not start, at the key that is to be changed.
pub(super) fn refused(config: &Config, error: &EalError) -> ConfigError {
    const CORES: &str = "list cores that this process may use, as `taskset -pc $$` shows them";
    match error {
        EalError::NoHugepages { .. } => {
            config.error(&config.memory_mb, error, "see above, or hugepages = \"auto\"")
        }
        EalError::TooLittleMemory { .. } => {
            let needed = config.packet_buffers().least_bytes().div_ceil(1 << 20);
            let remedy = format!("lower memory_mb: the packets of this configuration take {needed} MB");
            config.error(&config.memory_mb, error, &remedy)
        }
        EalError::CoreUnavailable { core, .. } if *core == config.main_core.value => {
            config.error(&config.main_core, error, CORES)
        }
        EalError::CoreUnavailable { .. } => config.error(&config.cores, error, CORES),
        EalError::TooManyLcores { .. } => config.error(&config.cores, error, "list fewer cores"),
        _ => config.error(&config.cores, error, "correct what the message names"),
    }
}
