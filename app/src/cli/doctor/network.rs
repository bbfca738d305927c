//! What else on this machine has to do with the appliance's address and port.

use std::net::IpAddr;

use pascaline_wire::{DEFAULT_PORT, UdpPorts};

use super::finding::Finding;
use crate::config::Config;
use crate::host::Host;

pub(super) fn examine(host: &Host, config: Option<&Config>) -> Vec<Finding> {
    let ports = config.map_or(UdpPorts::single(DEFAULT_PORT), |config| config.udp_ports);
    let mut findings = vec![socket(host, ports), firewall(host, ports.first())];
    if let Some(config) = config {
        findings.push(addresses(host, &config.addresses));
    }
    findings
}

/// A socket of the kernel on the same port hears what net_af_packet's ports hear, and answers.
fn socket(host: &Host, ports: UdpPorts) -> Finding {
    let check = "udp-port";
    let port_of = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    // The first of ours that somebody has.
    let bound = |file: &str| {
        let table = host.text(file)?;
        Some(table.lines().skip(1).filter_map(port_of).find(|&port| ports.has(port)))
    };
    let port = ports.first();
    match (bound("proc/net/udp"), bound("proc/net/udp6")) {
        (None, None) => Finding::unknown(check, "the kernel's sockets cannot be read", "`ss -lun`"),
        (Some(Some(port)), _) | (_, Some(Some(port))) => Finding::warn(
            check,
            format!("a program of this machine has UDP port {port}"),
            format!("find it with `ss -lunp 'sport = :{port}'`; a parameter server has a port of its own"),
        ),
        _ if ports.count() == 1 => {
            Finding::ok(check, format!("UDP port {port}: no program of this machine has it"))
        }
        _ => {
            let last = port + (ports.count() - 1);
            Finding::ok(check, format!("UDP ports {port} to {last}: no program of this machine has them"))
        }
    }
}

/// The appliance's addresses are DPDK's alone: where the kernel has them as well, both answer.
fn addresses(host: &Host, own: &[IpAddr]) -> Finding {
    let check = "addresses";
    let kernels = kernel_addresses(host);
    let both: Vec<String> =
        own.iter().filter(|address| kernels.contains(address)).map(ToString::to_string).collect();
    if both.is_empty() {
        return Finding::ok(check, "the kernel has none of the appliance's addresses");
    }
    Finding::fail(
        check,
        format!("the kernel has the appliance's address {}, too, and answers for it", both.join(", ")),
        "give the appliance an address of its own in the same network",
    )
}

fn kernel_addresses(host: &Host) -> Vec<IpAddr> {
    let trie = host.text("proc/net/fib_trie").unwrap_or_default();
    let lines: Vec<&str> = trie.lines().map(str::trim).collect();
    let local = lines.windows(2).filter(|pair| pair[1] == "/32 host LOCAL");
    let v4 = local.filter_map(|pair| pair[0].strip_prefix("|-- ")?.parse().ok());
    let table = host.text("proc/net/if_inet6").unwrap_or_default();
    let v6 = table.lines().filter_map(|line| {
        let digits = line.split_whitespace().next()?;
        u128::from_str_radix(digits, 16).ok().map(|bits| IpAddr::V6(bits.into()))
    });
    v4.chain(v6).collect()
}

/// Ports of DPDK's pass by the firewall. Workers and an external parameter server on this machine do not.
fn firewall(host: &Host, port: u16) -> Finding {
    let check = "firewall";
    let nft = host.output(&["usr/sbin/nft", "sbin/nft"], &["list", "ruleset"]);
    let iptables = host.output(&["usr/sbin/iptables-save", "sbin/iptables-save"], &[]);
    if nft.is_none() && iptables.is_none() {
        let tables = host.text("proc/net/ip_tables_names");
        let modules = host.text("proc/modules").unwrap_or_default();
        // ip_tables alone is no rule: systemd loads it at every boot.
        let loaded = |name: &str| modules.lines().any(|line| line.starts_with(name));
        let quiet = match tables {
            Some(tables) => tables.is_empty() && !loaded("nf_tables "),
            None => !loaded("nf_tables ") && !loaded("ip_tables "),
        };
        return if quiet {
            Finding::ok(check, "none in the kernel")
        } else {
            let remedy = format!("as root: `nft list ruleset`, `iptables-save`; look for UDP port {port}");
            Finding::unknown(
                check,
                "there may be rules, and no program to read them (or no right to)",
                remedy,
            )
        };
    }
    let rules = [nft, iptables].map(Option::unwrap_or_default).join("\n");
    let remedy = format!(
        "for workers or a parameter server on this machine: `nft add rule inet filter input udp dport {port} \
         accept`, and `udp sport {port} accept` where they hear from the appliance"
    );
    match judge(&rules, port) {
        Verdict::Open => Finding::ok(check, format!("lets UDP port {port} in")),
        Verdict::Refuses => Finding::warn(
            check,
            format!("has a rule against UDP port {port} (DPDK's ports pass it by)"),
            remedy,
        ),
        Verdict::NotMentioned => Finding::warn(
            check,
            format!("lets in only what it names, and UDP port {port} is not named (DPDK's ports pass it by)"),
            remedy,
        ),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A rule lets the port in, or everything is let in.
    Open,
    /// A rule keeps it out.
    Refuses,
    /// Nothing about it, where everything else is kept out.
    NotMentioned,
}

/// Reads the rules of nft and iptables as far as they name the port.
fn judge(rules: &str, port: u16) -> Verdict {
    let number = port.to_string();
    let about_it = |line: &&str| {
        let words = || line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != ':');
        let named = |word: &str| {
            let range = word.split_once(['-', ':']).and_then(|(first, last)| {
                Some((first.parse::<u16>().ok()?..=last.parse().ok()?).contains(&port))
            });
            word == number || range.unwrap_or(false)
        };
        words().any(|word| word == "udp") && words().any(named)
    };
    let verdict = |line: &str, words: &[&str]| {
        line.split_whitespace().any(|word| words.contains(&word.to_ascii_lowercase().as_str()))
    };
    let lines: Vec<&str> = rules.lines().filter(about_it).collect();
    if let Some(first) = lines.iter().find(|line| verdict(line, &["accept", "drop", "reject"])) {
        return if verdict(first, &["accept"]) { Verdict::Open } else { Verdict::Refuses };
    }
    let closed = rules.lines().map(str::trim).any(|line| {
        line.contains("hook input") && line.contains("policy drop") || line.starts_with(":INPUT DROP")
    });
    if closed { Verdict::NotMentioned } else { Verdict::Open }
}

#[cfg(test)]
mod tests;
