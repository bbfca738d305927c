//! One defect at a time in a machine that is good otherwise.

use crate::tree::Tree;
use crate::{CONFIG, doctor, finding};

/// What is done to the good machine, or its configuration.
type Spoil = fn(&Tree, &mut String);

#[test]
fn every_defect_is_found_and_has_a_remedy() {
    fn swap(config: &mut String, from: &str, to: &str) {
        assert!(config.contains(from), "{from}");
        *config = config.replacen(from, to, 1);
    }
    fn on_interface(config: &mut String) {
        swap(config, "0000:01:00.0", "net_af_packet0,iface=ens1");
    }
    let cases: &[(&str, Spoil, &str, &str, &str, &str)] = &[
        ("no hugepages", |t, _| t.hugepages(0, 0), "hugepages", "fail", "none reserved", "vm.nr_hugepages"),
        ("too few", |t, _| t.hugepages(1024, 100), "hugepages", "fail", "100 of 1024", "vm.nr_hugepages"),
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
            "a card that is not there",
            |_, c| swap(c, "0000:01:00.0", "0000:05:00.0"),
            "driver",
            "fail",
            "no network card 0000:05:00.0",
            "0000:01:00.0, 0000:02:00.0, 0000:81:00.0",
        ),
        (
            "an interface that is not there",
            |_, c| swap(c, "0000:01:00.0", "net_af_packet0,iface=eth9"),
            "interface",
            "fail",
            "no interface eth9",
            "eno1, ens1",
        ),
        (
            "an interface that is down",
            |t, c| {
                on_interface(c);
                t.file("sys/class/net/ens1/operstate", "down\n");
            },
            "interface",
            "warn",
            "ens1 is down",
            "ip link set ens1 up",
        ),
        (
            "an MTU that is too small",
            |t, c| {
                on_interface(c);
                t.file("sys/class/net/ens1/mtu", "1500\n");
            },
            "mtu",
            "fail",
            "mtu = 9000, but ens1 has 1500",
            "ip link set ens1 mtu 9000",
        ),
        (
            "a driver that is not installed",
            |_, c| swap(c, "0000:01:00.0", "net_af_xdp0,iface=ens1"),
            "dpdk-driver",
            "fail",
            "net_af_xdp is not installed",
            "librte-net-af-xdp",
        ),
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
        (
            "a program on the port",
            |t, _| {
                t.file("proc/net/udp", "  sl  local_address\n   1: 0100007F:4024 00000000:0000 07\n");
            },
            "udp-port",
            "warn",
            "UDP port 16420",
            "ss -lunp",
        ),
        (
            "an IPv6 program on another port that is the appliance's",
            |t, c| {
                swap(c, "[dataplane]", "udp_port = 255\n[dataplane]");
                t.file(
                    "proc/net/udp6",
                    "  sl  local_address\n   1: 00000000000000000000000000000000:00FF 0 07\n",
                );
            },
            "udp-port",
            "warn",
            "UDP port 255",
            "ss -lunp",
        ),
        (
            "a program on the last of the appliance's ports",
            |t, c| {
                swap(c, "[dataplane]", "udp_port = 16448\nudp_ports = 64\n[dataplane]");
                t.file("proc/net/udp", "  sl  local_address\n   1: 0100007F:407F 00000000:0000 07\n");
            },
            "udp-port",
            "warn",
            "UDP port 16511",
            "ss -lunp",
        ),
        (
            "the kernel's address",
            |t, _| {
                t.file("proc/net/fib_trie", "           |-- 10.77.0.254\n              /32 host LOCAL\n");
            },
            "addresses",
            "fail",
            "10.77.0.254",
            "an address of its own",
        ),
        (
            "the kernel's IPv6 address",
            |t, _| {
                t.file("proc/net/if_inet6", "fd000000000000000000000000000254 02 40 00 80 ens1\n");
            },
            "addresses",
            "fail",
            "fd00::254",
            "an address of its own",
        ),
        (
            "a firewall that is closed",
            |t, _| t.program("usr/sbin/nft", "chain input { type filter hook input priority 0; policy drop;"),
            "firewall",
            "warn",
            "is not named",
            "udp dport 16420 accept",
        ),
        (
            "a firewall against the port",
            |t, _| t.program("usr/sbin/iptables-save", "-A INPUT -p udp -m udp --dport 16420 -j DROP"),
            "firewall",
            "warn",
            "has a rule against UDP port 16420",
            "udp dport 16420 accept",
        ),
        (
            "a firewall that nobody can read",
            |t, _| {
                t.file("proc/modules", "nf_tables 327680 0 - Live 0x0\n");
            },
            "firewall",
            "unknown",
            "no program to read them",
            "nft list ruleset",
        ),
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
    ];
    for (what, spoil, check, status, detail, remedy) in cases {
        let tree = Tree::server();
        let mut config = CONFIG.to_owned();
        spoil(&tree, &mut config);
        let ended = doctor(&tree, &config);
        let found = finding(&ended, check, detail);
        assert_eq!(found["status"], *status, "{what}: {found}");
        let says = found["remedy"].as_str().unwrap();
        assert!(says.contains(remedy), "{what}: the remedy lacks {remedy:?}: {found}");
        assert_eq!(ended.code, Some(i32::from(*status == "fail")), "{what}: {ended:?}");
        assert_eq!(ended.json()["ok"], *status != "fail", "{what}");
    }
}
