//! Which devices and cores to begin with.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::cli::doctor::nic::Nic;
use crate::host::{Host, format_cores, parse_cores};

const CPU: &str = "sys/devices/system/cpu";
const DEFAULT_MTU: u16 = 1500;

/// A port of the appliance's.
#[derive(Debug)]
pub(super) struct Port {
    /// What DPDK is given.
    pub(super) device: String,
    /// Comments above it.
    pub(super) remarks: Vec<String>,
    pub(super) mtu: u16,
    /// Only shown, not in force.
    pub(super) spare: bool,
}

/// What a configuration is made of.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) ports: Vec<Port>,
    pub(super) main_core: usize,
    pub(super) cores: BTreeSet<usize>,
    /// Why these cores.
    pub(super) cores_remark: String,
    /// The lcores are theirs alone: they may poll for ever.
    pub(super) isolated: bool,
    /// There is only one core for everything.
    pub(super) float: bool,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

impl Choice {
    /// Chooses for a machine.
    pub(super) fn make(host: &Host, interface: Option<&str>) -> anyhow::Result<Self> {
        let nics = Nic::all(host);
        let (ports, node, notes) = match interface {
            Some(name) => on_interface(host, name)?,
            None => on_cards(host, &nics)?,
        };
        let mut choice = Self {
            ports,
            main_core: 0,
            cores: BTreeSet::new(),
            cores_remark: String::new(),
            isolated: false,
            float: false,
            notes,
        };
        choice.choose_cores(host, node);
        Ok(choice)
    }

    /// Isolated cores are there for this; else one core of the card's node beside the one with everything
    /// else on it.
    fn choose_cores(&mut self, host: &Host, node: Option<usize>) {
        let online = host.cores(format!("{CPU}/online")).filter(|cores| !cores.is_empty());
        let online = online.unwrap_or_else(|| BTreeSet::from([0]));
        let near = node.and_then(|node| host.cores(format!("sys/devices/system/node/node{node}/cpulist")));
        let near: BTreeSet<usize> = near.map_or_else(|| online.clone(), |near| &near & &online);
        let kept_free = parse_cores(&host.text(format!("{CPU}/isolated")).unwrap_or_default());
        let isolated = one_thread_each(host, &(&kept_free & &near));
        let first = online.first().copied().unwrap_or(0);
        let place = node.map_or_else(String::new, |node| format!(" of NUMA node {node}"));
        if isolated.is_empty() {
            // Not the first core, and not its second thread: interrupts and everybody else are there.
            let busy = threads(host, first);
            let quiet = near.difference(&busy).next().or_else(|| near.iter().find(|&&core| core != first));
            let quiet = quiet.or_else(|| online.iter().find(|&&core| core != first));
            self.cores = BTreeSet::from([quiet.copied().unwrap_or(first)]);
            self.float = quiet.is_none();
            self.cores_remark = format!(
                "{}; keep cores free with isolcpus= and list them all",
                if self.float { "the only core".to_owned() } else { format!("a core{place}") }
            );
        } else {
            self.cores_remark = format!("the isolated cores{place}, one thread of each");
            self.cores = isolated;
            self.isolated = true;
        }
        let free = |cores: &BTreeSet<usize>| {
            cores.difference(&kept_free).find(|core| !self.cores.contains(core)).copied()
        };
        self.main_core = free(&near).or_else(|| free(&online)).unwrap_or(first);
    }
}

/// The threads of a core, itself included.
fn threads(host: &Host, core: usize) -> BTreeSet<usize> {
    let mut threads =
        host.cores(format!("{CPU}/cpu{core}/topology/thread_siblings_list")).unwrap_or_default();
    threads.insert(core);
    threads
}

/// Two lcores on one physical core would get half of it each.
fn one_thread_each(host: &Host, cores: &BTreeSet<usize>) -> BTreeSet<usize> {
    cores.iter().copied().filter(|&core| (&threads(host, core) & cores).first() == Some(&core)).collect()
}

type Chosen = (Vec<Port>, Option<usize>, Vec<String>);

fn on_cards(host: &Host, nics: &[Nic]) -> anyhow::Result<Chosen> {
    let login = host.login();
    let (held, usable): (Vec<&Nic>, Vec<&Nic>) =
        nics.iter().partition(|nic| !nic.is_ready() && nic.carries(&login));
    let Some(first) = usable.iter().find(|nic| nic.is_ready()).or_else(|| usable.first()) else {
        return beside_the_kernel(host, &held);
    };
    let mut notes = Vec::new();
    let any_ready = first.is_ready();
    let mut ports: Vec<Port> = Vec::new();
    for nic in &usable {
        let spare = if any_ready { !nic.is_ready() } else { nic.address != first.address };
        let mut remarks = vec![described(nic)];
        if !nic.is_ready() {
            let how = format!("dpdk-devbind.py --bind=vfio-pci {}", nic.address);
            remarks.push(format!("Still the kernel's. Before the start: {how}"));
            if !spare {
                notes.push(format!("{} is still bound to the kernel; before the start: {how}", nic.address));
            }
        }
        ports.push(Port {
            device: nic.address.clone(),
            remarks,
            mtu: mtu(host, nic.interfaces.first()),
            spare,
        });
    }
    // What is in force stands first.
    ports.sort_by_key(|port| port.spare);
    notes.extend(held.iter().map(|nic| {
        format!("{} carries this machine's default route and is left to the kernel", nic.address)
    }));
    Ok((ports, first.node, notes))
}

/// No card to be had: an interface that is there anyway.
fn beside_the_kernel(host: &Host, held: &[&Nic]) -> anyhow::Result<Chosen> {
    let names = || host.names("sys/class/net").into_iter().filter(|name| name != "lo");
    let held_name = held.iter().find_map(|nic| nic.interfaces.first().cloned());
    // What is above a held card, as a bond, has all of the traffic.
    let route = host.default_routes().into_iter().next();
    let Some(name) = route.or(held_name).or_else(|| names().next()) else {
        bail!(
            "this machine has no network card and no interface but lo\n  \
             remedy: name the interface that there will be with --interface"
        );
    };
    let (ports, node, mut notes) = on_interface(host, &name)?;
    notes.insert(
        0,
        if held.is_empty() {
            "this machine has no network card on a PCI bus".to_owned()
        } else {
            "the only network card carries this machine's default route and is left to the kernel".to_owned()
        },
    );
    Ok((ports, node, notes))
}

fn on_interface(host: &Host, name: &str) -> anyhow::Result<Chosen> {
    if name.is_empty() || name.contains([',', '"', '\\', '/', ' ']) {
        bail!("{name:?} is no name of an interface\n  remedy: `ip link` lists them");
    }
    let there = host.has(format!("sys/class/net/{name}"));
    let mtu = mtu(host, Some(&name.to_owned()));
    let remarks = vec![
        format!("The kernel's interface {name}, shared through packet sockets: for trying out."),
        "The kernel keeps its own addresses there; the appliance needs others.".to_owned(),
    ];
    let device = format!("net_kernel0,iface={name}");
    let mut notes = vec![format!(
        "port p0 is the kernel's interface {name} (net_kernel): for trying out, slower than a card of DPDK's"
    )];
    if !there {
        notes.push(format!("there is no interface {name} yet: make it before the start"));
    }
    Ok((vec![Port { device, remarks, mtu, spare: false }], None, notes))
}

fn described(nic: &Nic) -> String {
    let Nic { identity, driver, interfaces, node, .. } = nic;
    let mut text = format!("[{identity}], driver {}", driver.as_deref().unwrap_or("none"));
    if !interfaces.is_empty() {
        text += &format!(", interface {}", interfaces.join(", "));
    }
    if let Some(node) = node {
        text += &format!(", NUMA node {node}");
    }
    text
}

/// The interface's MTU where the appliance can use it.
fn mtu(host: &Host, interface: Option<&String>) -> u16 {
    let read = interface.and_then(|name| host.number::<u16>(format!("sys/class/net/{name}/mtu")));
    read.filter(|mtu| (128..=9702).contains(mtu)).unwrap_or(DEFAULT_MTU)
}

/// The cores as an array of TOML.
pub(super) fn listed(cores: &BTreeSet<usize>) -> String {
    let numbers: Vec<String> = cores.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

/// The cores as `isolcpus=` takes them.
pub(super) fn ranges(cores: &BTreeSet<usize>) -> String {
    format_cores(cores)
}
