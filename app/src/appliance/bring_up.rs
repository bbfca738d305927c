//! From a configuration to ports, pools and lcores that are ready to run.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::{Pool, RankSet};
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::mempool::{PoolConfig, PoolError};
use pascaline_dpdk::port::{Active, Started, StartedPort, Steer, Steering};
use pascaline_dpdk::{
    Clock, Device, Eal, Lcore as DpdkLcore, Mbuf, Mempool, OpenError, Port, PortConfig as DpdkPortConfig,
};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::jobs::ServedJobs;
use pascaline_pipelines::{
    Bridge, ControlPlane, IdlePolicy, Lcore, LcoreEnd, LcoreParts, PortSetup, QueueCounts, ServerEnd, Setup,
    UpdateEnd,
};
use pascaline_telemetry::{LcoreCounters, LcoreReaders, Surveyor, recorder};
use pascaline_wire::{Address, Mac};
use tracing::{info, warn};

use super::ports::{self, DpdkIo, Queues};
use super::verify::Verifier;
use super::{fits, in_line, jobs};
use crate::config::packets::{CACHE, SERVER_QUEUE};
use crate::config::{Config, Located, PortConfig};
use crate::host::{Host, RIGHTS};
use crate::parameter_server::embedded::EmbeddedServer;

/// An appliance whose lcores have not been launched.
pub(crate) struct Appliance {
    pub(crate) lcores: Vec<(DpdkLcore, Machine)>,
    pub(crate) plane: ControlPlane,
    pub(crate) counters: Vec<Arc<LcoreCounters>>,
    pub(crate) readers: Vec<LcoreReaders>,
    pub(crate) ports: Vec<(String, Port<Started>)>,
    pub(crate) pools: Vec<Mempool>,
    pub(crate) pool_slots: usize,
    pub(crate) pool_bytes: usize,
    pub(crate) server: Option<EmbeddedServer>,
    /// Of the queue of updates in front of each port; none if no job sends any.
    pub(crate) queues: Vec<Arc<QueueCounts>>,
    pub(crate) clock: Clock,
}

/// An lcore whose contribution bitmaps are wide enough for the job with the most ranks.
#[derive(Debug)]
pub(crate) enum Machine {
    /// For up to 64 ranks.
    Narrow(Lcore<DpdkIo, 1>),
    /// For up to 1,024 ranks.
    Wide(Lcore<DpdkIo, 16>),
}

impl Machine {
    /// Runs until the control plane wants it to end.
    pub(crate) fn run(&mut self, policy: IdlePolicy) {
        match self {
            Self::Narrow(lcore) => lcore.run(policy),
            Self::Wide(lcore) => lcore.run(policy),
        }
    }
}

pub(super) fn bring_up(config: &Config) -> anyhow::Result<Appliance> {
    let eal = start_eal(config)?;
    let kernels = Kernels::detect();
    let telemetry =
        eal.telemetry_socket().map(|socket| tracing::field::display(socket.display().to_string()));
    info!(memory = %eal.memory(), kernels = kernels.isa, telemetry, "DPDK is up");
    let (frames, headers) = packet_pools(config, &eal)?;
    let clock = Clock::new(&eal);
    let lcores = eal.lcores();
    let mut queues: Vec<Vec<Queues>> = lcores.iter().map(|_| Vec::new()).collect();
    let mut setup = as_configured(config);
    let mut started_ports = Vec::new();
    for port in &config.ports {
        let StartedPort { port: started, rx, tx } = open_port(config, &eal, port, &frames)?;
        let mac = started.mac().with_context(|| format!("port {}: reading the MAC address", port.name));
        let mac = Mac(mac?);
        let multi_segment = started.active().tx_multi_segment;
        info!(
            port = port.name, driver = started.caps().driver, %mac, mtu = started.active().mtu, multi_segment,
            descriptors = ?started.active().descriptors, rss = ?started.active().rss, "port started"
        );
        let verifier = Verifier::of(port, started.caps(), started.active());
        verifier.tell(&port.name);
        tell_spread(config, port, started.active());
        tell_steering(config, &port.name, started.active().steering);
        ports::deal(&mut queues, rx, tx, (multi_segment, verifier.in_software(mac)));
        setup.ports.push(PortSetup { mac, beyond: port.beyond, mtu: started.active().mtu });
        started_ports.push((port.name.clone(), started));
    }
    let setup = Arc::new(setup);
    let membership = jobs::membership(config)?.counted_by(lcores.len());
    let (plane, ends) = ControlPlane::new(membership, Arc::clone(&setup), lcores.len());
    let (server, server_end) = embed(config, &frames, plane.served_jobs())?;
    let (updates, queue_counts) = match config.port_queues() {
        Some(queues) => {
            UpdateEnd::connect(&queues, lcores.len(), &kernels).context("making the queues of updates")?
        }
        None => Default::default(),
    };
    let wide = config.most_ranks() > RankSet::<1>::CAPACITY;
    let mut appliance = Appliance {
        lcores: Vec::new(),
        plane,
        counters: Vec::new(),
        readers: Vec::new(),
        ports: started_ports,
        pools: vec![frames.clone(), headers.clone()],
        pool_slots: config.pool.slots,
        pool_bytes: 0,
        server,
        queues: queue_counts,
        clock,
    };
    let ios = queues.into_iter().map(|queues| DpdkIo::new(queues, frames.clone(), headers.clone(), clock));
    let parts = Parts { setup, server: server_end, kernels };
    if wide {
        parts.put_together::<16>(config, &mut appliance, lcores, ios, (ends, updates), Machine::Wide)?;
    } else {
        parts.put_together::<1>(config, &mut appliance, lcores, ios, (ends, updates), Machine::Narrow)?;
    }
    Ok(appliance)
}

/// What does not change, without ports so far.
fn as_configured(config: &Config) -> Setup {
    let addresses = config.addresses.iter().map(|&address| Address::from(address)).collect();
    let mut setup = Setup::new(addresses, config.udp_ports, Vec::new()).known_by(config.dscp);
    (setup.passing, setup.marks) = (config.in_line.passing, config.marks);
    if config.ports.iter().any(|port| port.bridge.is_some() && port.peer.is_none()) {
        setup.bridge = Arc::new(Bridge::new(config.in_line.addresses as usize, config.in_line.age));
    }
    setup
}

/// What all lcores have in common.
struct Parts {
    setup: Arc<Setup>,
    server: Option<ServerEnd<Mbuf>>,
    kernels: Kernels,
}

impl Parts {
    /// Makes the lcores, with bitmaps of this width.
    fn put_together<const WORDS: usize>(
        &self,
        config: &Config,
        appliance: &mut Appliance,
        lcores: Vec<DpdkLcore>,
        ios: impl Iterator<Item = DpdkIo>,
        (ends, updates): (Vec<LcoreEnd>, Vec<UpdateEnd<Mbuf>>),
        machine: fn(Lcore<DpdkIo, WORDS>) -> Machine,
    ) -> anyhow::Result<()> {
        appliance.pool_bytes = Pool::<Mbuf, WORDS>::memory_bytes(&config.pool, lcores.len());
        let sessions = Pool::<Mbuf, WORDS>::sessions(&config.pool, self.kernels, lcores.len())?;
        let mut updates = updates.into_iter();
        for ((((number, lcore), io), session), end) in
            lcores.into_iter().enumerate().zip(ios).zip(sessions).zip(ends)
        {
            let counters = Arc::new(LcoreCounters::default());
            let (spread, spread_reader) = recorder()?;
            let (service, service_reader) = recorder()?;
            let (surveyor, census) = Surveyor::new(session.sets());
            let parts = LcoreParts {
                number,
                io,
                session,
                setup: Arc::clone(&self.setup),
                end,
                server: self.server.clone(),
                updates: updates.next(),
                counters: Arc::clone(&counters),
                spread,
                service,
                surveyor,
            };
            appliance.lcores.push((lcore, machine(Lcore::new(parts))));
            appliance.counters.push(counters);
            appliance.readers.push(LcoreReaders { spread: spread_reader, service: service_reader, census });
        }
        Ok(())
    }
}

/// Starts the parameter server in the appliance itself, if the configuration wants one, and gives the lcores'
/// ends of its queues.
fn embed(
    config: &Config,
    frames: &Mempool,
    jobs: ServedJobs,
) -> anyhow::Result<(Option<EmbeddedServer>, Option<ServerEnd<Mbuf>>)> {
    if !config.embeds_server() {
        return Ok((None, None));
    }
    let queue = || Arc::new(ArrayQueue::new(SERVER_QUEUE));
    let end = ServerEnd { to: queue(), from: queue() };
    let frames = frames.clone();
    let alloc =
        move |bytes: &[u8]| frames.alloc().and_then(|mut packet| packet.write(bytes).then_some(packet));
    let server = EmbeddedServer::spawn(end.clone(), jobs, alloc, config.ps.limits)
        .context("starting the parameter server")?;
    Ok((Some(server), Some(end)))
}

fn start_eal(config: &Config) -> anyhow::Result<Eal> {
    let eal = Eal::init(&fits::eal_config(config)).map_err(|error| fits::refused(config, &error))?;
    if matches!(eal.memory(), pascaline_dpdk::Memory::Small { .. }) {
        warn!(
            "no hugepages: running on 4 KiB pages, which is slower and unfit for most physical NICs; \
                reserve some with `sysctl -w vm.nr_hugepages=512` and mount hugetlbfs"
        );
    }
    Ok(eal)
}

/// The pool of whole frames, which slots keep, and the pool of headers, which results are sent with.
fn packet_pools(config: &Config, eal: &Eal) -> anyhow::Result<(Mempool, Mempool)> {
    let needed = config.packet_buffers();
    let frames = PoolConfig {
        name: "frames".to_owned(),
        count: count(needed.frames)?,
        cache: u32::from(CACHE),
        room: needed.frame_room,
    };
    let headers = PoolConfig {
        name: "headers".to_owned(),
        count: count(needed.headers)?,
        cache: u32::from(CACHE),
        room: u16::try_from(HEADER_ROOM)?,
    };
    let made = |pool: &PoolConfig, made: Result<Mempool, PoolError>| {
        made.map_err(|error| {
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
    let whole = made(&frames, Mempool::new(eal, &frames))?;
    // A fan-out to many takes more than an lcore keeps at hand.
    Ok((whole, made(&headers, Mempool::latest_first(eal, &headers))?))
}

/// What devices are asked to bring to the lcores' queues: each of several UDP ports to the lcore at which its
/// PSNs are at home.
fn steer(config: &Config) -> Option<Steer> {
    let ports = config.udp_ports;
    (ports.count() > 1 && config.cores.value.len() > 1).then(|| Steer {
        first: ports.first(),
        count: ports.count(),
        ipv4: config.addresses.iter().any(IpAddr::is_ipv4),
        ipv6: config.addresses.iter().any(IpAddr::is_ipv6),
    })
}

/// Warns of a card whose packets all come to one lcore. The kernel and memif spread by themselves.
fn tell_spread(config: &Config, port: &PortConfig, active: &Active) {
    let (lcores, is_card) = (config.cores.value.len(), matches!(port.device.value, Device::Pci(_)));
    if is_card && lcores > 1 && active.rss.is_none() && active.steering == Steering::None {
        warn!(
            port = port.name,
            lcores,
            "the card spreads packets over no queues: all of this port's come to one lcore, which hands them \
                over; with one core in `cores` nothing is handed over"
        );
    }
}

/// Says how a port steers, where it was asked to.
fn tell_steering(config: &Config, port: &str, steering: Steering) {
    let lcores = config.cores.value.len();
    match (steer(config), steering) {
        (None, _) => {}
        (Some(Steer { count, .. }), _) if usize::from(count) % lcores != 0 => warn!(
            port, udp_ports = count, lcores, %steering,
            "udp_ports is no multiple of the lcores: their PSNs cannot all be steered, and are handed over \
                between lcores"
        ),
        (Some(_), Steering::None) => warn!(
            port, %steering,
            "the device cannot steer by UDP port: packets that reach another lcore than their PSN's are \
                handed over"
        ),
        (Some(_), _) => info!(port, %steering, "each PSN's packets come to its lcore"),
    }
}

fn count(buffers: usize) -> anyhow::Result<u32> {
    u32::try_from(buffers).with_context(|| format!("{buffers} packet buffers are more than DPDK can count"))
}

/// A device that does not open, and what to do: drivers of network interfaces say no more than "not
/// permitted" where rights are missing.
fn refused(config: &Config, device: &Located<Device>, error: &OpenError) -> anyhow::Error {
    let on_interface = matches!(&device.value, Device::Vdev(name) if name.contains("iface="));
    let missing = Host::below(Path::new("/")).missing_rights().filter(|_| on_interface);
    match (error, missing) {
        (OpenError::Probe { .. }, Some(missing)) => {
            let message = format!("{error}; this process is without {missing}, which the device needs");
            config.error(device, message, RIGHTS).into()
        }
        _ => {
            let refused = config.error(device, error, "correct `device`, or make what it names available");
            let wrong = matches!(
                error,
                OpenError::BadName { .. } | OpenError::UnknownDriver { .. } | OpenError::AlreadyOpen { .. }
            );
            if wrong { refused.into() } else { refused.not_yet().into() }
        }
    }
}

/// Refuses a start without the interfaces that ports are on, before DPDK takes seconds for its own.
pub(super) fn interfaces(config: &Config) -> anyhow::Result<()> {
    let device = |port: &PortConfig| {
        let (device, interface) = (&port.device, port.device.value.missing_interface()?.to_owned());
        let missing = OpenError::NoSuchInterface { device: device.value.clone(), interface };
        Some(refused(config, device, &missing))
    };
    config.ports.iter().find_map(device).map_or(Ok(()), Err)
}

fn open_port(config: &Config, eal: &Eal, port: &PortConfig, frames: &Mempool) -> anyhow::Result<StartedPort> {
    in_line::tell(port);
    let device: &Located<_> = &port.device;
    let opened = Port::open(eal, &device.value).map_err(|error| refused(config, device, &error))?;
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
        steer: steer(config),
        promiscuous: port.in_line(),
    };
    Ok(in_line::start(config, port, opened, &wanted, frames)?)
}
