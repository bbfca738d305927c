//! From a configuration to ports, pools and lcores that are ready to run.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use pascaline_aggregator::Pool;
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::mempool::{Demand, PoolConfig, buffers_needed};
use pascaline_dpdk::port::{Started, StartedPort};
use pascaline_dpdk::{
    Clock, Eal, EalConfig, Lcore as DpdkLcore, Mbuf, Mempool, Port, PortConfig as DpdkPortConfig,
};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::membership::JobSpec;
use pascaline_pipelines::{BURST, ControlPlane, Lcore, LcoreParts, Membership, PortSetup, STAGE, Setup};
use pascaline_telemetry::{LcoreCounters, LcoreHistograms, recorder};
use pascaline_wire::{Address, Mac};
use tracing::{info, warn};

use super::ports::{DpdkIo, Queues};
use crate::config::{Config, Located, PortConfig};

/// An appliance whose lcores have not been launched.
pub(super) struct Appliance {
    pub(super) lcores: Vec<(DpdkLcore, Lcore<DpdkIo>)>,
    pub(super) plane: ControlPlane,
    pub(super) membership: Membership,
    pub(super) setup: Arc<Setup>,
    pub(super) counters: Vec<Arc<LcoreCounters>>,
    pub(super) histograms: Vec<LcoreHistograms>,
    pub(super) ports: Vec<(String, Port<Started>)>,
    pub(super) pools: Vec<Mempool>,
    pub(super) pool_slots: usize,
    pub(super) pool_bytes: usize,
}

/// Packets that a core keeps for itself, so that it need not go to the shared ring for each.
const CACHE: u16 = 512;
/// VLAN tags that may come on top of an Ethernet header.
const ETHERNET: u16 = 14 + 2 * 4;

pub(super) fn bring_up(config: &Config) -> anyhow::Result<Appliance> {
    let eal = start_eal(config)?;
    let kernels = Kernels::detect();
    info!(memory = %eal.memory(), kernels = kernels.isa, "DPDK is up");
    if matches!(eal.memory(), pascaline_dpdk::Memory::Small { .. }) {
        warn!(
            "no hugepages: running on 4 KiB pages, which is slower and unfit for most physical NICs; reserve some with `sysctl -w vm.nr_hugepages=512` and mount hugetlbfs"
        );
    }
    let (frames, headers) = packet_pools(config, &eal)?;
    let clock = Clock::new(&eal);
    let lcores = eal.lcores();
    let mut queues: Vec<Vec<Queues>> = lcores.iter().map(|_| Vec::new()).collect();
    let mut setup = Setup {
        addresses: config.addresses.iter().map(|&address| Address::from(address)).collect(),
        udp_port: config.udp_port,
        ports: Vec::new(),
    };
    let mut ports = Vec::new();
    for port in &config.ports {
        let StartedPort { port: started, rx, tx } = open_port(config, &eal, port, &frames)?;
        let mac =
            Mac(started.mac().with_context(|| format!("port {}: reading the MAC address", port.name))?);
        let multi_segment = started.active().tx_multi_segment;
        info!(
            port = port.name, driver = started.caps().driver, %mac, mtu = started.active().mtu, multi_segment,
            descriptors = ?started.active().descriptors, rss = ?started.active().rss, "port started"
        );
        for (lcore, (rx, tx)) in queues.iter_mut().zip(rx.into_iter().zip(tx)) {
            lcore.push(Queues { rx, tx, multi_segment });
        }
        setup.ports.push(PortSetup { mac, peer: port.peer });
        ports.push((port.name.clone(), started));
    }
    let setup = Arc::new(setup);
    let sessions = Pool::<Mbuf>::sessions(&config.pool, kernels, lcores.len())?;
    let (plane, ends) = ControlPlane::new(lcores.len());
    let mut appliance = Appliance {
        lcores: Vec::new(),
        plane,
        membership: Membership::new(job_specs(config), first_epoch()),
        setup: Arc::clone(&setup),
        counters: Vec::new(),
        histograms: Vec::new(),
        ports,
        pools: vec![frames.clone(), headers.clone()],
        pool_slots: config.pool.slots,
        pool_bytes: Pool::<Mbuf>::memory_bytes(&config.pool),
    };
    for ((((number, lcore), queues), session), end) in
        lcores.into_iter().enumerate().zip(queues).zip(sessions).zip(ends)
    {
        let counters = Arc::new(LcoreCounters::default());
        let (spread, spread_reader) = recorder()?;
        let (service, service_reader) = recorder()?;
        let io = DpdkIo::new(queues, frames.clone(), headers.clone(), clock);
        let setup = Arc::clone(&setup);
        let parts =
            LcoreParts { number, io, session, setup, end, counters: Arc::clone(&counters), spread, service };
        appliance.lcores.push((lcore, Lcore::new(parts)));
        appliance.counters.push(counters);
        appliance.histograms.push(LcoreHistograms { spread: spread_reader, service: service_reader });
    }
    Ok(appliance)
}

fn start_eal(config: &Config) -> anyhow::Result<Eal> {
    let pci_allow = config.ports.iter().filter_map(|port| match &port.device.value {
        pascaline_dpdk::Device::Pci(address) => Some(address.clone()),
        pascaline_dpdk::Device::Vdev(_) => None,
    });
    let eal = EalConfig {
        program: "pascaline".to_owned(),
        file_prefix: format!("{}-{}", config.name, std::process::id()),
        main_core: config.main_core,
        cores: config.cores.value.clone(),
        float: config.float,
        hugepages: config.hugepages,
        memory_mb: config.memory_mb.value,
        pci_allow: pci_allow.collect(),
        ..EalConfig::default()
    };
    Eal::init(&eal).map_err(|error| {
        let at: &dyn Fn() -> crate::config::ConfigError = match error {
            pascaline_dpdk::eal::EalError::NoHugepages { .. } => {
                &|| config.error(&config.memory_mb, &error, "see above, or hugepages = \"auto\"")
            }
            _ => {
                &|| config.error(&config.cores, &error, "correct main_core, cores or what the message names")
            }
        };
        at().into()
    })
}

/// The pool of whole frames, which slots keep, and the pool of headers, which results are sent with.
fn packet_pools(config: &Config, eal: &Eal) -> anyhow::Result<(Mempool, Mempool)> {
    let most = |descriptors: fn(&PortConfig) -> u16| {
        usize::from(config.ports.iter().map(descriptors).max().unwrap_or(0))
    };
    let lcores = config.cores.value.len();
    let stages = STAGE * lcores * config.ports.len();
    let demand = Demand {
        ports: config.ports.len(),
        queues: lcores,
        rx_desc: most(|port| port.rx_descriptors),
        tx_desc: most(|port| port.tx_descriptors),
        lcores: lcores + 1,
        burst: BURST,
        cache: usize::from(CACHE),
        slots: config.pool.slots + stages,
    };
    let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
    let frames = PoolConfig {
        name: "frames".to_owned(),
        count: count(buffers_needed(&demand))?,
        cache: u32::from(CACHE),
        room: room(mtu),
    };
    let headers = PoolConfig {
        name: "headers".to_owned(),
        count: count(buffers_needed(&Demand { rx_desc: 0, slots: stages + BURST * lcores, ..demand }))?,
        cache: u32::from(CACHE),
        room: u16::try_from(HEADER_ROOM)?,
    };
    let make = |pool: &PoolConfig| {
        Mempool::new(eal, pool).map_err(|error| {
            let message = format!(
                "{error} (the configuration needs {} packet buffers of {} bytes for rings, slots and lcores)",
                pool.count, pool.room
            );
            config.error(
                &config.memory_mb,
                message,
                "raise memory_mb, or use fewer slots, descriptors or ports",
            )
        })
    };
    Ok((make(&frames)?, make(&headers)?))
}

/// Room for a whole frame. At least DPDK's usual 2 KiB, and a power of two, since drivers that copy from a ring of the
/// kernel's demand room for a whole slot of that ring, whatever the MTU.
fn room(mtu: u16) -> u16 {
    mtu.saturating_add(ETHERNET).checked_next_power_of_two().unwrap_or(u16::MAX / 64 * 64).max(2048)
}

fn count(buffers: usize) -> anyhow::Result<u32> {
    u32::try_from(buffers).with_context(|| format!("{buffers} packet buffers are more than DPDK can count"))
}

fn open_port(config: &Config, eal: &Eal, port: &PortConfig, frames: &Mempool) -> anyhow::Result<StartedPort> {
    let device: &Located<_> = &port.device;
    let opened = Port::open(eal, &device.value)
        .map_err(|error| config.error(device, &error, "correct `device`, or make what it names available"))?;
    let lcores = u16::try_from(config.cores.value.len())?;
    let caps = opened.caps();
    let offered = caps.max_rx_queues.min(caps.max_tx_queues);
    if offered < lcores {
        let message = format!(
            "port {:?} offers {offered} queue pairs, but every one of the {lcores} lcores needs one",
            port.name
        );
        let remedy = "list fewer cores, or give the device more queues (e.g. `qpairs=` for net_af_packet)";
        return Err(config.error(device, message, remedy).into());
    }
    let wanted = DpdkPortConfig {
        rx_queues: lcores,
        tx_queues: lcores,
        rx_desc: port.rx_descriptors,
        tx_desc: port.tx_descriptors,
        mtu: Some(port.mtu),
        rss: lcores > 1,
        promiscuous: port.peer.is_some(),
    };
    opened
        .start(&wanted, std::slice::from_ref(frames))
        .map_err(|failure| config.error(device, &failure.error, "correct this port's keys").into())
}

fn job_specs(config: &Config) -> Vec<JobSpec> {
    let spec = |job: &crate::config::JobConfig| JobSpec {
        id: job.id,
        fan_in: job.fan_in,
        window: job.window,
        max_payload: config.max_payload(),
        admitted: job
            .members
            .as_ref()
            .map(|members| members.iter().map(|&address| Address::from(address)).collect()),
    };
    config.jobs.iter().map(spec).collect()
}

/// Where generations begin: different from one start of the appliance to the next, so that packets of workers that
/// joined an earlier one are recognised.
#[expect(clippy::cast_possible_truncation, reason = "any eight bits that change will do")]
fn first_epoch() -> u8 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since.as_millis() / 100) as u8)
}
