//! One defect at a time in a machine that is good otherwise.

use super::{CONFIG, doctor, finding};
use crate::common::tree::Tree;

mod network;

/// What is wrong, what is done to the good machine or its configuration, and what is found: the check, its
/// status, words of its detail and of its remedy.
type Defect = (&'static str, fn(&Tree, &mut String), &'static str, &'static str, &'static str, &'static str);

fn swap(config: &mut String, from: &str, to: &str) {
    assert!(config.contains(from), "{from}");
    *config = config.replacen(from, to, 1);
}

fn on_interface(config: &mut String) {
    swap(config, "0000:01:00.0", "net_af_packet0,iface=ens1");
}

/// Hugepages and where they are mounted.
fn memory() -> Vec<Defect> {
    vec![
        ("no hugepages", |t, _| t.hugepages(0, 0), "hugepages", "fail", "none reserved", "vm.nr_hugepages"),
        ("too few", |t, _| t.hugepages(100, 100), "hugepages", "fail", "100 of 100", "vm.nr_hugepages"),
        ("enough, in use", |t, _| t.hugepages(1024, 100), "hugepages", "warn", "100 of 1024", "is running"),
        (
            "no hugepages, which is accepted",
            |t, c| {
                t.hugepages(0, 0);
                swap(c, "\"require\"", "\"auto\"");
            },
            "hugepages",
            "warn",
            "4 KiB pages",
            "vm.nr_hugepages",
        ),
        (
            "not mounted",
            |t, _| t.remove("proc/mounts"),
            "hugetlbfs",
            "fail",
            "not mounted",
            "mount -t hugetlbfs",
        ),
        (
            "pages on the other node",
            |t, _| {
                t.file("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "3");
            },
            "hugepages-numa",
            "warn",
            "6 MB free on node 0",
            "node0/hugepages",
        ),
    ]
}

/// The IOMMU and vfio.
fn iommu() -> Vec<Defect> {
    vec![
        ("IOMMU off", |t, _| t.remove("sys/kernel/iommu_groups"), "iommu", "fail", "off", "intel_iommu=on"),
        (
            "IOMMU off, and told that it does not matter",
            |t, _| {
                t.remove("sys/kernel/iommu_groups");
                t.file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
            },
            "iommu",
            "warn",
            "anywhere in memory",
            "intel_iommu=on",
        ),
        (
            "IOMMU off, and a driver that needs none",
            |t, c| {
                t.remove("sys/kernel/iommu_groups");
                t.card("0000:03:00.0", ("8086", "100e"), "uio_pci_generic", -1);
                swap(c, "0000:01:00.0", "0000:03:00.0");
            },
            "iommu",
            "warn",
            "uio_pci_generic works without it",
            "as root with hugepages",
        ),
        (
            "IOMMU for the kernel, too",
            |t, _| {
                t.file("proc/cmdline", "intel_iommu=on\n");
            },
            "iommu",
            "warn",
            "kernel's devices",
            "iommu=pt",
        ),
        (
            "no vfio",
            |t, _| t.remove("sys/module/vfio_pci"),
            "vfio",
            "fail",
            "not loaded",
            "modprobe vfio-pci",
        ),
    ]
}

/// The cards.
fn cards() -> Vec<Defect> {
    vec![
        (
            "the kernel's card",
            |_, c| swap(c, "0000:01:00.0", "81:00.0"),
            "driver",
            "fail",
            "0000:81:00.0 [8086:10fb] (ens1): driver ixgbe",
            "dpdk-devbind.py --bind=vfio-pci 0000:81:00.0",
        ),
        (
            "the card of the login",
            |_, c| swap(c, "0000:01:00.0", "0000:02:00.0"),
            "driver",
            "fail",
            "default route",
            "lose this machine",
        ),
        (
            "the card of the login, which is IPv6 over a VLAN",
            |t, c| {
                t.remove("proc/net/route");
                t.above("vlan7", &["eno1"]);
                t.default_route_6("vlan7");
                swap(c, "0000:01:00.0", "0000:02:00.0");
            },
            "driver",
            "fail",
            "default route",
            "lose this machine",
        ),
        (
            "a virtual machine's card",
            |t, c| {
                t.card("0000:03:00.0", ("1af4", "1041"), "vfio-pci", -1);
                swap(c, "0000:01:00.0", "0000:03:00.0");
            },
            "checksums",
            "warn",
            "those of UDP are not verified over 0000:03:00.0",
            "verify = \"software\"",
        ),
        (
            "a card that is not there",
            |_, c| swap(c, "0000:01:00.0", "0000:05:00.0"),
            "driver",
            "fail",
            "no network card 0000:05:00.0",
            "0000:01:00.0, 0000:02:00.0, 0000:81:00.0",
        ),
    ]
}

/// Cores of the lcores.
fn cores() -> Vec<Defect> {
    vec![
        (
            "cores that are not there",
            |_, c| swap(c, "[2, 3]", "[2, 77]"),
            "cores",
            "fail",
            "cores 77 are not there",
            "`cores` and `main_core`",
        ),
        (
            "two threads of a core",
            |_, c| swap(c, "[2, 3]", "[2, 3, 10]"),
            "hyperthreads",
            "warn",
            "2,10",
            "one thread of each core",
        ),
        (
            "cores that are not isolated",
            |_, c| swap(c, "[2, 3]", "[1, 2]"),
            "isolation",
            "warn",
            "lcores 1-2 share",
            "isolcpus=1-2 nohz_full=1-2",
        ),
        (
            "cores with a tick",
            |t, _| {
                t.file("sys/devices/system/cpu/nohz_full", "\n");
            },
            "isolation",
            "warn",
            "tick",
            "nohz_full=2-3",
        ),
        (
            "sleep on isolated cores",
            |_, c| swap(c, "\"spin\"", "\"backoff\""),
            "isolation",
            "warn",
            "sleep",
            "idle = \"spin\"",
        ),
        (
            "floating lcores",
            |_, c| swap(c, "idle", "float = true\nidle"),
            "isolation",
            "warn",
            "float",
            "float = false",
        ),
    ]
}

/// Memory nodes, governor and clock.
fn speed() -> Vec<Defect> {
    vec![
        (
            "cores of the other node",
            |_, c| swap(c, "[2, 3]", "[4, 5]"),
            "numa",
            "warn",
            "port p0 is on node 0, but lcores 4-5 are not",
            "0-3,8-11",
        ),
        (
            "a governor that saves power",
            |t, _| {
                t.file("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
            },
            "governor",
            "warn",
            "powersave",
            "cpupower frequency-set -g performance",
        ),
        (
            "no governor",
            |t, _| {
                t.remove("sys/devices/system/cpu/cpu2/cpufreq");
                t.remove("sys/devices/system/cpu/cpu3/cpufreq");
            },
            "governor",
            "unknown",
            "virtual machine",
            "firmware",
        ),
        (
            "a clock of last resort",
            |t, _| {
                t.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
            },
            "clock",
            "warn",
            "hpet",
            "dmesg",
        ),
        (
            "a counter that stops",
            |t, _| {
                t.file("proc/cpuinfo", "flags\t\t: fpu tsc constant_tsc\n");
            },
            "clock",
            "warn",
            "changes its pace",
            "sleep states",
        ),
    ]
}

/// The DPDK that is installed, and what the user may.
fn rights() -> Vec<Defect> {
    vec![
        (
            "an old DPDK",
            |t, _| {
                t.remove("usr/lib/x86_64-linux-gnu/librte_eal.so.23");
                t.file("usr/lib/x86_64-linux-gnu/librte_eal.so.21", "");
            },
            "dpdk",
            "fail",
            "before 21.11",
            "21.11",
        ),
        (
            "no DPDK",
            |t, _| t.remove("usr/lib/x86_64-linux-gnu/librte_eal.so.23"),
            "dpdk",
            "unknown",
            "not in the usual places",
            "libdpdk-dev",
        ),
        (
            "not root, on an interface",
            |t, c| {
                on_interface(c);
                t.file("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000002000\n");
            },
            "privileges",
            "warn",
            "without CAP_NET_ADMIN",
            "systemd unit",
        ),
        (
            "not root, and nothing to lock",
            |t, _| {
                t.file("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000003000\n");
                t.file("proc/self/limits", "Max locked memory         65536      65536     bytes\n");
            },
            "memlock",
            "warn",
            "65536 bytes",
            "LimitMEMLOCK",
        ),
    ]
}

#[test]
fn every_defect_is_found_and_has_a_remedy() {
    let all = [
        memory(),
        iommu(),
        cards(),
        network::interfaces(),
        cores(),
        speed(),
        network::ports(),
        network::firewall(),
        rights(),
    ];
    for (what, spoil, check, status, detail, remedy) in all.into_iter().flatten() {
        let tree = Tree::server();
        let mut config = CONFIG.to_owned();
        spoil(&tree, &mut config);
        let ended = doctor(&tree, &config);
        let found = finding(&ended, check, detail);
        assert_eq!(found["status"], status, "{what}: {found}");
        let says = found["remedy"].as_str().unwrap();
        assert!(says.contains(remedy), "{what}: the remedy lacks {remedy:?}: {found}");
        assert_eq!(ended.code, Some(i32::from(status == "fail")), "{what}: {ended:?}");
        assert_eq!(ended.json()["ok"], status != "fail", "{what}");
    }
}
