//! A machine made of files: what `doctor` and `init` look at, below a directory of the test's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::Files;

/// The root directory of a machine. It is gone afterwards.
#[derive(Debug)]
pub(crate) struct Tree(Files);

impl Tree {
    /// A machine without anything.
    pub(crate) fn empty() -> Self {
        Self(Files::new())
    }

    pub(crate) fn root(&self) -> String {
        self.path("").to_str().unwrap().to_owned()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path(path)
    }

    /// Writes a file, and the directories that it needs. Returns where it is.
    pub(crate) fn file(&self, path: &str, text: &str) -> String {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A program that prints this.
    pub(crate) fn program(&self, path: &str, prints: &str) {
        let path = self.file(path, &format!("#!/bin/sh\ncat <<'EOF'\n{prints}\nEOF\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn directory(&self, path: &str) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    /// A symbolic link to something that need not be there.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // It may be there: the newer one counts.
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    /// Removes a file or a directory with all that is in it.
    pub(crate) fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// A network card: address, vendor and device, driver, NUMA node.
    pub(crate) fn card(&self, address: &str, identity: (&str, &str), driver: &str, node: i32) {
        let path = format!("sys/bus/pci/devices/{address}");
        self.file(&format!("{path}/class"), "0x020000\n");
        self.file(&format!("{path}/vendor"), &format!("{}\n", identity.0));
        self.file(&format!("{path}/device"), &format!("{}\n", identity.1));
        self.file(&format!("{path}/numa_node"), &format!("{node}\n"));
        self.link(&format!("{path}/driver"), &format!("../../../bus/pci/drivers/{driver}"));
    }

    /// An interface of the kernel's, on a card if one is given.
    pub(crate) fn interface(&self, name: &str, card: Option<&str>, mtu: u32) {
        let device =
            card.map_or_else(|| "virtual".to_owned(), |card| format!("pci0000:00/0000:00:01.1/{card}"));
        // The kernel's own layout: a link, and behind it the files.
        self.file(&format!("sys/devices/{device}/net/{name}/mtu"), &format!("{mtu}\n"));
        self.file(&format!("sys/devices/{device}/net/{name}/operstate"), "up\n");
        self.link(&format!("sys/class/net/{name}"), &format!("../../devices/{device}/net/{name}"));
    }

    /// The interface of the default route.
    pub(crate) fn default_route(&self, interface: &str) {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
        let routes = format!(
            "{head}\n{interface}\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
             {interface}\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        );
        self.file("proc/net/route", &routes);
    }

    /// The interface of the default route of IPv6.
    pub(crate) fn default_route_6(&self, interface: &str) {
        let (any, via) = ("0".repeat(32), format!("fe80{}1", "0".repeat(27)));
        let route = |destination: &str, length, via: &str, interface| {
            format!(
                "{destination} {length} {any} 00 {via} 00000400 00000002 00000000 00000003 {interface:>8}\n"
            )
        };
        let link = format!("fe80{}", "0".repeat(28));
        let routes = [
            route(&link, "40", &any, "ens1"),
            route(&any, "00", &via, interface),
            route(&any, "00", &any, "lo"),
        ];
        self.file("proc/net/ipv6_route", &routes.concat());
    }

    /// An interface made of others.
    pub(crate) fn above(&self, name: &str, below: &[&str]) {
        self.interface(name, None, 1500);
        for lower in below {
            let path = format!("sys/devices/virtual/net/{name}/lower_{lower}");
            self.link(&path, &format!("../../../net/{lower}"));
        }
    }

    /// Hugepages of 2 MiB, on the machine and on node 0.
    pub(crate) fn hugepages(&self, reserved: u32, free: u32) {
        for place in ["sys/kernel/mm/hugepages", "sys/devices/system/node/node0/hugepages"] {
            self.file(&format!("{place}/hugepages-2048kB/nr_hugepages"), &format!("{reserved}\n"));
            self.file(&format!("{place}/hugepages-2048kB/free_hugepages"), &format!("{free}\n"));
        }
    }

    /// A server that is well prepared: two nodes with eight threads each, cores 2 to 5 isolated, a card for
    /// DPDK on node 0 (`0000:01:00.0`), one for the login (`eno1`), and a spare one on node 1 (`ens1`).
    pub(crate) fn server() -> Self {
        let tree = Self::empty();
        tree.hugepages(1024, 1000);
        tree.file("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
        tree.file("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
        tree.file(
            "proc/mounts",
            "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n",
        );
        tree.file("proc/cmdline", "quiet intel_iommu=on iommu=pt isolcpus=2-5 nohz_full=2-5 rcu_nocbs=2-5\n");
        tree.file(
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max locked memory         unlimited            unlimited            bytes     \n",
        );
        tree.file("proc/self/status", "Name:\tpascaline\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
        tree.file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc avx512f\n");
        tree.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        for (node, cores) in [(0, "0-3,8-11"), (1, "4-7,12-15")] {
            tree.file(&format!("sys/devices/system/node/node{node}/cpulist"), &format!("{cores}\n"));
        }
        let cpu = "sys/devices/system/cpu";
        tree.file(&format!("{cpu}/online"), "0-15\n");
        tree.file(&format!("{cpu}/isolated"), "2-3,10-11\n");
        tree.file(&format!("{cpu}/nohz_full"), "2-3,10-11\n");
        for core in 0..16 {
            let first = core % 8;
            tree.file(
                &format!("{cpu}/cpu{core}/topology/thread_siblings_list"),
                &format!("{first},{}\n", first + 8),
            );
            tree.file(&format!("{cpu}/cpu{core}/cpufreq/scaling_governor"), "performance\n");
        }
        tree.directory("sys/kernel/iommu_groups/7");
        tree.directory("sys/module/vfio_pci");
        tree.card("0000:01:00.0", ("0x8086", "0x1572"), "vfio-pci", 0);
        tree.card("0000:02:00.0", ("0x8086", "0x1521"), "igb", 0);
        tree.card("0000:81:00.0", ("0x8086", "0x10fb"), "ixgbe", 1);
        // A bridge to the old bus is no card.
        tree.file("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
        tree.interface("lo", None, 65536);
        tree.interface("eno1", Some("0000:02:00.0"), 1500);
        tree.interface("ens1", Some("0000:81:00.0"), 9000);
        tree.default_route("eno1");
        tree.file(
            "proc/net/udp",
            "  sl  local_address rem_address   st\n   1: 00000000:0044 00000000:0000 07\n",
        );
        tree.file(
            "proc/net/fib_trie",
            "Main:\n  +-- 0.0.0.0/0 3 0 5\n           |-- 10.0.2.5\n              /32 host LOCAL\n",
        );
        tree.file("usr/lib/x86_64-linux-gnu/librte_eal.so.23", "");
        tree.file("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_af_packet.so.23", "");
        tree
    }
}
