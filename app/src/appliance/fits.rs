//! Whether a configuration fits this machine: what a start would refuse, without touching a device.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pascaline_dpdk::eal::EalError;
use pascaline_dpdk::{Device, Eal, EalConfig};

use crate::admin::server::credentials;
use crate::config::{AdminListen, Config, ConfigError, Located, Place};

/// Looks at cores, memory, and the files that the configuration names. Gives what should be known besides.
pub(crate) fn fits(config: &Config) -> Result<Vec<String>, ConfigError> {
    Eal::would_use(&eal_config(config)).map_err(|error| refused(config, &error))?;
    if let Some(page) = &config.listen {
        of_this_machine(config, page.value, page.place)?;
    }
    for controller in config.jobs.iter().filter_map(|job| job.controller.as_ref()) {
        of_this_machine(config, controller.value, controller.place)?;
    }
    match config.admin.as_ref().map(|admin| &admin.listen) {
        None => {}
        Some(Located { value: AdminListen::Tcp(at), place }) => of_this_machine(config, *at, *place)?,
        Some(at @ Located { value: AdminListen::Unix(path), .. }) => socket_file(config, at, path)?,
    }
    let credentials = config.admin.as_ref().map(|admin| credentials(config, admin)).transpose()?;
    let mut warnings = credentials.map(|credentials| credentials.warnings).unwrap_or_default();
    warnings.extend(config.warnings());
    Ok(warnings)
}

fn of_this_machine(config: &Config, at: SocketAddr, place: Place) -> Result<(), ConfigError> {
    match UdpSocket::bind((at.ip(), 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            let message = format!("{} is no address of this machine", at.ip());
            let remedy = "listen on one that `ip address` shows, on 127.0.0.1 or on 0.0.0.0";
            // An interface may get its address later.
            Err(config.error(&Located { value: (), place }, message, remedy).not_yet())
        }
        _ => Ok(()),
    }
}

/// A start can make the socket's directory, and leaves alone what is no socket.
fn socket_file(config: &Config, at: &Located<AdminListen>, path: &Path) -> Result<(), ConfigError> {
    let refuse =
        |what: &str, remedy: &str| Err(config.error(at, format_args!("{}: {what}", at.value), remedy));
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return refuse("there is a file that is no socket", "choose another path, or remove it");
    }
    let directory = path.parent().unwrap_or(path);
    if !directory.is_dir() && !directory.parent().is_some_and(Path::is_dir) {
        return refuse(
            "its directory is missing, and the one above, too",
            "make them, or choose another path",
        );
    }
    Ok(())
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
        telemetry: config.dpdk_telemetry,
        pci_allow: pci_allow.collect(),
        ..EalConfig::default()
    }
}

/// Why DPDK does not start, at the key that is to be changed.
pub(super) fn refused(config: &Config, error: &EalError) -> ConfigError {
    const CORES: &str = "list cores that this process may use, as `taskset -pc $$` shows them";
    match error {
        EalError::NoHugepages { .. } => {
            config.error(&config.memory_mb, error, "see above, or hugepages = \"auto\"").not_yet()
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
