//! The cores that the packets are processed on.

use std::collections::BTreeSet;

use pascaline_dpdk::Device;
use pascaline_pipelines::IdlePolicy;

use super::devices::find;
use super::finding::Finding;
use super::nic::Nic;
use crate::config::Config;
use crate::host::{Host, format_cores, parse_cores};

const CPU: &str = "sys/devices/system/cpu";

pub(super) fn examine(host: &Host, nics: &[Nic], config: Option<&Config>) -> Vec<Finding> {
    let Some(config) = config else {
        let mut findings = vec![isolated_cores(host)];
        findings.extend(governor(host, &host.cores(format!("{CPU}/online")).unwrap_or_default()));
        findings.extend(clock(host));
        return findings;
    };
    let lcores: BTreeSet<usize> = config.cores.value.iter().copied().collect();
    let mut findings = vec![online(host, config, &lcores)];
    findings.extend(siblings(host, config, &lcores));
    findings.push(isolation(host, config, &lcores));
    findings.extend(numa(host, nics, config, &lcores));
    findings.extend(governor(host, &lcores));
    findings.extend(clock(host));
    findings
}

fn online(host: &Host, config: &Config, lcores: &BTreeSet<usize>) -> Finding {
    let check = "cores";
    let Some(online) = host.cores(format!("{CPU}/online")) else {
        return Finding::unknown(check, "the kernel does not say which cores there are", "`lscpu`");
    };
    let mut wanted = lcores.clone();
    wanted.insert(config.main_core.value);
    let missing: BTreeSet<usize> = wanted.difference(&online).copied().collect();
    if missing.is_empty() {
        let main = config.main_core.value;
        return Finding::ok(
            check,
            format!("lcores {}, main core {main}; online: {}", format_cores(lcores), format_cores(&online)),
        );
    }
    Finding::fail(
        check,
        format!("cores {} are not there; online: {}", format_cores(&missing), format_cores(&online)),
        "correct `cores` and `main_core` in [dataplane]",
    )
}

/// Two lcores on one physical core get half of it each.
fn siblings(host: &Host, config: &Config, lcores: &BTreeSet<usize>) -> Option<Finding> {
    let check = "hyperthreads";
    let shared: Vec<String> = lcores
        .iter()
        .filter_map(|&core| {
            let threads = host.cores(format!("{CPU}/cpu{core}/topology/thread_siblings_list"))?;
            let busy: BTreeSet<usize> = threads.intersection(lcores).copied().collect();
            // Each pair once.
            (busy.len() > 1 && busy.first() == Some(&core)).then(|| format_cores(&busy))
        })
        .collect();
    if shared.is_empty() {
        return (lcores.len() > 1).then(|| Finding::ok(check, "every lcore has a physical core of its own"));
    }
    let main = config.main_core.value;
    Some(Finding::warn(
        check,
        format!("lcores share a physical core: {}", shared.join("; ")),
        format!("use one thread of each core, and put other work (main_core = {main}) on the second ones"),
    ))
}

fn isolated_cores(host: &Host) -> Finding {
    let isolated = host.cores(format!("{CPU}/isolated")).unwrap_or_default();
    if isolated.is_empty() {
        // All but the first one, which everything else needs.
        let mut spare = host.cores(format!("{CPU}/online")).unwrap_or_default();
        spare.pop_first();
        let remedy = match format_cores(&spare).as_str() {
            "" => "more cores: with one there is none to spare".to_owned(),
            list => format!(
                "boot with `isolcpus={list} nohz_full={list} rcu_nocbs={list}`, or fewer of them: those that \
                 `cores` will list"
            ),
        };
        Finding::warn("isolation", "no core is kept free of other work", remedy)
    } else {
        Finding::ok("isolation", format!("isolated cores: {}", format_cores(&isolated)))
    }
}

fn isolation(host: &Host, config: &Config, lcores: &BTreeSet<usize>) -> Finding {
    let check = "isolation";
    let list = format_cores(lcores);
    if config.float {
        return Finding::warn(
            check,
            format!("float = true: lcores wander over cores {list} with everything else"),
            "outside of tests: float = false and a core of its own for each lcore",
        );
    }
    let isolated = host.cores(format!("{CPU}/isolated")).unwrap_or_default();
    let ticking = parse_cores(&host.text(format!("{CPU}/nohz_full")).unwrap_or_default());
    let boot = format!("boot with `isolcpus={list} nohz_full={list} rcu_nocbs={list}`");
    if !lcores.is_subset(&isolated) {
        let detail = format!("lcores {list} share their cores with whatever the scheduler puts there");
        return Finding::warn(check, detail, boot);
    }
    if !lcores.is_subset(&ticking) {
        return Finding::warn(
            check,
            format!("cores {list} are isolated, but the clock's tick interrupts them"),
            boot,
        );
    }
    if matches!(config.idle, IdlePolicy::Backoff { .. }) {
        let detail =
            format!("cores {list} are isolated and tickless, yet idle = \"backoff\" lets them sleep");
        return Finding::warn(check, detail, "idle = \"spin\": no other thread uses these cores");
    }
    Finding::ok(check, format!("cores {list} are isolated and tickless"))
}

/// A card is on one node's bus; from another node every packet crosses the link between them.
fn numa(host: &Host, nics: &[Nic], config: &Config, lcores: &BTreeSet<usize>) -> Vec<Finding> {
    let check = "numa";
    let port = |port: &crate::config::PortConfig| {
        let Device::Pci(address) = &port.device.value else { return None };
        let node = find(nics, address)?.node?;
        let far: BTreeSet<usize> =
            lcores.iter().copied().filter(|&core| host.node_of(core).is_some_and(|of| of != node)).collect();
        let name = &port.name;
        Some(if far.is_empty() {
            Finding::ok(check, format!("port {name} and all lcores are on node {node}"))
        } else {
            let near = host.text(format!("sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
            Finding::warn(
                check,
                format!("port {name} is on node {node}, but lcores {} are not", format_cores(&far)),
                format!("use cores of node {node}: {near}"),
            )
        })
    };
    config.ports.iter().filter_map(port).collect()
}

fn governor(host: &Host, cores: &BTreeSet<usize>) -> Option<Finding> {
    let check = "governor";
    let governors: BTreeSet<String> = cores
        .iter()
        .filter_map(|core| host.text(format!("{CPU}/cpu{core}/cpufreq/scaling_governor")))
        .collect();
    let names: Vec<&str> = governors.iter().map(String::as_str).collect();
    match names[..] {
        _ if cores.is_empty() => None,
        [] => Some(Finding::unknown(
            check,
            "the kernel does not govern the frequency (a virtual machine, or the firmware does it)",
            "look for a performance profile in the firmware or at the host",
        )),
        ["performance"] => Some(Finding::ok(check, "performance")),
        _ => Some(Finding::warn(
            check,
            format!("{}: cores slow down between packets", names.join(", ")),
            "`cpupower frequency-set -g performance`",
        )),
    }
}

/// DPDK and the appliance tell time by the processor's counter.
fn clock(host: &Host) -> Vec<Finding> {
    let check = "clock";
    let cpu = host.text("proc/cpuinfo").unwrap_or_default();
    let flags = cpu.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|found| found == flag);
    let source = host.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".to_owned());
    let steady = has("constant_tsc") && has("nonstop_tsc");
    vec![if !flags.is_empty() && !steady {
        Finding::warn(
            check,
            format!(
                "clock source {source}; the processor's counter changes its pace (no constant_tsc, \
                    nonstop_tsc)"
            ),
            "switch deep sleep states off in the firmware; in a virtual machine, pass the host's processor \
                through",
        )
    } else if ["hpet", "acpi_pm", "jiffies"].contains(&source.as_str()) {
        Finding::warn(
            check,
            format!("clock source {source}: the kernel does not trust the processor's counter"),
            "find out why in `dmesg | grep -i tsc`; `tsc=reliable` on the command line if the firmware is \
                to blame",
        )
    } else {
        Finding::ok(check, format!("clock source {source}"))
    }]
}
