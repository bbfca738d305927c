//! Interfaces, ports, addresses and the firewall.

use super::{Defect, on_interface, swap};

/// Ports on interfaces of the kernel.
pub(super) fn interfaces() -> Vec<Defect> {
    vec![
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
    ]
}

/// UDP ports and addresses that the kernel has.
pub(super) fn ports() -> Vec<Defect> {
    vec![
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
    ]
}

/// What the firewall lets in.
pub(super) fn firewall() -> Vec<Defect> {
    vec![
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
    ]
}
