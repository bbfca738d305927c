//! DPDK itself, and the rights to use it.

use pascaline_dpdk::Device;

use super::finding::Finding;
use super::memory::is_root;
use crate::config::Config;
use crate::host::{Host, RIGHTS};

/// The ABI of DPDK 21.11, the oldest that will do.
const OLDEST_ABI: u32 = 22;

pub(super) fn examine(host: &Host, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = vec![dpdk(host)];
    findings.extend(config.map(|config| drivers(host, config)).unwrap_or_default());
    findings.push(rights(host, config));
    findings
}

/// Where Debian and others put libraries: `usr/lib`, or a directory for the architecture below it.
fn library_directories(host: &Host) -> Vec<String> {
    let mut found = vec!["usr/lib64".to_owned(), "usr/local/lib".to_owned(), "usr/lib".to_owned()];
    for base in ["usr/lib", "usr/local/lib"] {
        let architectures = host.names(base).into_iter().filter(|name| name.contains("-linux-gnu"));
        found.extend(architectures.map(|name| format!("{base}/{name}")));
    }
    found
}

/// The version in the name of the library: ABI 23 is that of the release 22.11, and so on every year.
fn dpdk(host: &Host) -> Finding {
    let check = "dpdk";
    let abis = library_directories(host).into_iter().flat_map(|directory| host.names(directory));
    let newest = abis
        .filter_map(|name| name.strip_prefix("librte_eal.so.")?.split('.').next()?.parse::<u32>().ok())
        .max();
    match newest {
        Some(abi) if abi >= OLDEST_ABI => {
            Finding::ok(check, format!("librte_eal.so.{abi}, DPDK {}.11 or later", abi - 1))
        }
        Some(abi) => Finding::fail(
            check,
            format!("librte_eal.so.{abi} is of a DPDK before 21.11"),
            "install DPDK 21.11 or later (Debian 12 has 22.11)",
        ),
        None => Finding::unknown(
            check,
            "DPDK's libraries are not in the usual places",
            "`ldconfig -p | grep librte_eal`; on Debian: `apt-get install libdpdk-dev`",
        ),
    }
}

/// DPDK loads its drivers from a directory; distributions pack them one by one.
fn drivers(host: &Host, config: &Config) -> Vec<Finding> {
    let check = "dpdk-driver";
    let directories: Vec<String> = library_directories(host)
        .into_iter()
        .flat_map(|directory| {
            let versions = host.names(format!("{directory}/dpdk"));
            versions.into_iter().map(move |version| format!("{directory}/dpdk/{version}"))
        })
        .collect();
    let installed: Vec<String> = directories.iter().flat_map(|directory| host.names(directory)).collect();
    let port = |port: &crate::config::PortConfig| {
        let Device::Vdev(device) = &port.device.value else { return None };
        let name = device.split(',').next()?.trim_end_matches(|c: char| c.is_ascii_digit());
        if name == pascaline_dpdk::kernel::DRIVER {
            return None;
        }
        let library = format!("librte_{name}.so");
        Some(if installed.iter().any(|file| file.starts_with(&library)) {
            Finding::ok(check, format!("port {}: {library} is there", port.name))
        } else if installed.is_empty() {
            Finding::unknown(check, "DPDK's drivers are not in the usual places", "`dpdk-testpmd -- --help`")
        } else {
            Finding::fail(
                check,
                format!("port {}: DPDK's driver {name} is not installed", port.name),
                format!("on Debian: `apt-cache search librte-{}` names the package", name.replace('_', "-")),
            )
        })
    };
    config.ports.iter().filter_map(port).collect()
}

fn rights(host: &Host, config: Option<&Config>) -> Finding {
    let check = "privileges";
    let on_interfaces = config.is_none_or(|config| {
        let mut devices = config.ports.iter().map(|port| &port.device.value);
        devices.any(|device| matches!(device, Device::Vdev(name) if name.contains("iface=")))
    });
    let user = if is_root(host) { "root" } else { "not root" };
    match host.missing_rights() {
        Some(missing) if on_interfaces => {
            Finding::warn(check, format!("{user}, and without {missing}"), RIGHTS)
        }
        _ if is_root(host) => Finding::ok(check, user),
        _ => Finding::ok(check, "not root, and no further rights are missing"),
    }
}
