//! Memory for packets: hugepages, and the right to lock them.

use pascaline_dpdk::Hugepages;

use super::finding::Finding;
use crate::config::Config;
use crate::host::Host;

const SIZES: &str = "sys/kernel/mm/hugepages";
const REMEDY: &str = "reserve some: `sysctl -w vm.nr_hugepages=512` (1 GiB of 2 MiB pages), and for every \
                      boot `echo vm.nr_hugepages=512 > /etc/sysctl.d/50-hugepages.conf`, or on the kernel's \
                      command line `default_hugepagesz=1G hugepagesz=1G hugepages=4`";

pub(super) fn examine(host: &Host, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = vec![hugepages(host, config), mounted(host, config)];
    findings.extend(nodes(host, config));
    findings.push(locking(host));
    findings
}

const CAP_IPC_LOCK: u32 = 14;

/// Reserved and free pages of one size.
struct Pages {
    kib: u64,
    total: u64,
    free: u64,
}

fn pages(host: &Host, directory: &str) -> Vec<Pages> {
    let read = |name: String| {
        let count = |file: &str| host.number::<u64>(format!("{directory}/{name}/{file}"));
        let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some(Pages { kib, total: count("nr_hugepages")?, free: count("free_hugepages")? })
    };
    host.names(directory).into_iter().filter_map(read).collect()
}

fn free_mb(pages: &[Pages]) -> u64 {
    pages.iter().map(|size| size.kib * size.free / 1024).sum()
}

/// What an appliance wants, in MB; without a configuration, anything at all will do.
fn wanted_mb(config: Option<&Config>) -> u64 {
    config.map_or(1, |config| u64::from(config.memory_mb.value))
}

/// What is missing is an error only where the configuration says so.
fn missing(check: &'static str, config: Option<&Config>, detail: String, remedy: &str) -> Finding {
    match config.map(|config| config.hugepages) {
        Some(Hugepages::Require) => Finding::fail(check, detail, remedy),
        Some(Hugepages::No) => Finding::ok(check, format!("{detail}; hugepages = \"no\" needs none")),
        _ => Finding::warn(check, format!("{detail}: runs on 4 KiB pages, slower"), remedy),
    }
}

fn hugepages(host: &Host, config: Option<&Config>) -> Finding {
    let check = "hugepages";
    let sizes = pages(host, SIZES);
    if sizes.is_empty() {
        return missing(
            check,
            config,
            "the kernel has no hugepages".to_owned(),
            "use a kernel with HUGETLBFS",
        );
    }
    let reserved: Vec<_> = sizes
        .iter()
        .filter(|size| size.total > 0)
        .map(|size| format!("{} of {} pages of {} MiB free", size.free, size.total, size.kib / 1024))
        .collect();
    let (free, wanted) = (free_mb(&sizes), wanted_mb(config));
    if free >= wanted {
        return Finding::ok(check, reserved.join(", "));
    }
    let total: u64 = sizes.iter().map(|size| size.kib * size.total / 1024).sum();
    if total >= wanted {
        let detail = format!("{}; others are in use, and a start takes {wanted} MB", reserved.join(", "));
        let remedy =
            "nothing, if the appliance that uses them is running; else end what does, or reserve more";
        return Finding::warn(check, detail, remedy);
    }
    let detail = match reserved.is_empty() {
        true => "none reserved".to_owned(),
        false => format!("{}; {wanted} MB wanted (memory_mb)", reserved.join(", ")),
    };
    missing(check, config, detail, REMEDY)
}

fn mounted(host: &Host, config: Option<&Config>) -> Finding {
    let check = "hugetlbfs";
    let mounts = host.text("proc/mounts").unwrap_or_default();
    let places: Vec<&str> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next() == Some("hugetlbfs")).then_some(place)
        })
        .collect();
    if places.is_empty() {
        let remedy = "`systemctl start dev-hugepages.mount`, or `mount -t hugetlbfs none /dev/hugepages`";
        return missing(check, config, "not mounted".to_owned(), remedy);
    }
    Finding::ok(check, format!("mounted at {}", places.join(", ")))
}

/// Where the cores are, the memory should be: on a machine of several nodes.
fn nodes(host: &Host, config: Option<&Config>) -> Option<Finding> {
    let check = "hugepages-numa";
    let config = config.filter(|config| config.hugepages != Hugepages::No)?;
    let nodes = host.names("sys/devices/system/node");
    if nodes
        .iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<usize>().is_ok()))
        .count()
        < 2
    {
        return None;
    }
    let node = host.node_of(*config.cores.value.first()?)?;
    let free = free_mb(&pages(host, &format!("sys/devices/system/node/node{node}/hugepages")));
    let wanted = wanted_mb(Some(config));
    Some(if free >= wanted {
        Finding::ok(check, format!("{free} MB free on node {node}, where the lcores are"))
    } else {
        Finding::warn(
            check,
            format!("{free} MB free on node {node}, where the lcores are; {wanted} MB wanted"),
            format!(
                "`echo 512 > /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages`"
            ),
        )
    })
}

/// Devices read and write memory that must not move; whoever is not root needs to be allowed to lock that
/// much.
fn locking(host: &Host) -> Finding {
    let check = "memlock";
    let limits = host.text("proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory")?.split_whitespace().next());
    match soft {
        None => Finding::unknown(check, "the limit cannot be read", "look at `ulimit -l`"),
        Some("unlimited") => Finding::ok(check, "unlimited"),
        Some(_) if is_root(host) || host.has_capability(CAP_IPC_LOCK) => {
            Finding::ok(check, "this user may lock what it wants")
        }
        Some(bytes) => Finding::warn(
            check,
            format!("{bytes} bytes may be locked: too little for a device without root"),
            "LimitMEMLOCK=infinity in the systemd unit, or `ulimit -l unlimited`",
        ),
    }
}

/// Whether root asks.
pub(super) fn is_root(host: &Host) -> bool {
    let status = host.text("proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.is_some_and(|uids| uids.split_whitespace().nth(1) == Some("0"))
}
