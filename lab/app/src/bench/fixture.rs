//! Jobs with all their members on one port, and the frames that they send.

mod frames;
mod load;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::Pool;
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::{Clock, Eal, EalConfig, Mbuf, Mempool, mempool};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{JobSpec, Secret};
use pascaline_pipelines::server::ServerEnd;
use pascaline_pipelines::{
    ControlPlane, ControlRequest, Io, Lcore, LcoreParts, Membership, PortSetup, Ports, Setup,
};
use pascaline_telemetry::{LcoreCounters, LcoreReaders, Surveyor, recorder};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::VlanTags;
use pascaline_wire::header::{self, Element, Header, Kind};
use pascaline_wire::{Address, DEFAULT_PORT, Mac, UdpPorts};

pub(crate) use frames::{Arrival, Frames, JOB};
pub(crate) use load::{L2, Level, Load, PolicyName, Residence};

/// The aggregation.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shape {
    /// Contributions per result
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) fan_in: u16,
    /// Payload bytes per packet
    #[arg(long, default_value_t = 1024, value_parser = payload)]
    pub(crate) payload: u16,
}

pub(crate) fn payload(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(bytes @ 8..=8960) if bytes % 8 == 0 => Ok(bytes),
        _ => Err("a multiple of 8 from 8 to 8960".to_owned()),
    }
}

impl Shape {
    /// Length of a worker's frame: untagged Ethernet, IPv4, UDP, header, payload.
    pub(crate) fn frame_len(&self) -> usize {
        HEADERS + usize::from(self.payload)
    }
}

/// Untagged Ethernet, IPv4, UDP and the aggregation header.
pub(crate) const HEADERS: usize = 64;
/// Packet buffers of a benchmark.
pub(crate) const BUFFERS: u32 = 40_959;
/// Memory of each process, in MB.
pub(crate) const MEMORY_MB: u32 = 240;
/// Packets for the parameter server; emptied after each turn.
const SERVER_QUEUE: usize = 1024;

const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

fn worker_address(rank: u16) -> Address {
    let [high, low] = rank.to_be_bytes();
    Address::from_v4([10, 78, high, low])
}

fn worker_mac(rank: u16) -> Mac {
    let [high, low] = rank.to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}

const WORKER_PORT: u16 = 40_000;

/// The environment of a benchmark.
pub(crate) fn eal(name: &str, main_core: usize, cores: Vec<usize>) -> anyhow::Result<Eal> {
    eal_with(name, main_core, cores, MEMORY_MB)
}

/// The same, with this much memory.
pub(crate) fn eal_with(
    name: &str,
    main_core: usize,
    cores: Vec<usize>,
    memory_mb: u32,
) -> anyhow::Result<Eal> {
    let config = EalConfig {
        program: "pascaline".to_owned(),
        file_prefix: format!("pascaline-{name}-{}", std::process::id()),
        main_core,
        cores,
        // A bench of one core may run on a machine with one core.
        float: false,
        memory_mb,
        ..EalConfig::default()
    };
    Eal::init(&config).context("starting DPDK")
}

/// Bytes of a buffer that holds a frame.
pub(crate) fn room(shape: &Shape) -> anyhow::Result<u16> {
    Ok(u16::try_from(shape.frame_len().next_multiple_of(1024).max(2048))?)
}

/// The packet pools of a benchmark.
pub(crate) fn pools(eal: &Eal, shape: &Shape) -> anyhow::Result<(Mempool, Mempool)> {
    pools_of(eal, "", BUFFERS, room(shape)?)
}

/// Pools of `frames` frames with `room` bytes each, and of headers.
pub(crate) fn pools_of(eal: &Eal, name: &str, frames: u32, room: u16) -> anyhow::Result<(Mempool, Mempool)> {
    let pool = |kind: &str, count, room| mempool::PoolConfig {
        name: format!("{kind}{name}"),
        count,
        cache: 512,
        room,
    };
    let frames = Mempool::new(eal, &pool("frames", frames, room))?;
    let headers = Mempool::latest_first(eal, &pool("headers", 8191, u16::try_from(HEADER_ROOM)?))?;
    Ok((frames, headers))
}

/// A pool of whole frames to receive into.
pub(crate) fn receive_pool(eal: &Eal, shape: &Shape) -> anyhow::Result<Mempool> {
    let config =
        mempool::PoolConfig { name: "received".to_owned(), count: 8191, cache: 512, room: room(shape)? };
    Ok(Mempool::new(eal, &config)?)
}

/// An lcore of the real packet path with one port, and jobs whose ranks have all joined.
pub(crate) struct Bench<I: Io<Buf = Mbuf>, const WORDS: usize = 1> {
    pub(crate) lcore: Lcore<I, WORDS>,
    pub(crate) counters: Arc<LcoreCounters>,
    pub(crate) readers: LcoreReaders,
}

/// The shared state of a bench's lcores.
pub(crate) struct Common {
    pub(crate) plane: ControlPlane,
    /// Packets for the parameter server.
    pub(crate) to_server: Arc<ArrayQueue<Mbuf>>,
}

/// The epoch of a job that every rank has joined once, at an appliance that starts with 1.
pub(crate) const EPOCH: u16 = 1;

/// Builds one lcore and lets all ranks of all jobs join.
pub(crate) fn lcore<I: Io<Buf = Mbuf>, const WORDS: usize>(
    load: &Load,
    io: I,
    mac: Mac,
) -> anyhow::Result<(Bench<I, WORDS>, Common)> {
    lcore_counted_by(load, io, mac, 1)
}

/// The same, with memory for the counts of `counting` lcores.
pub(crate) fn lcore_counted_by<I: Io<Buf = Mbuf>, const WORDS: usize>(
    load: &Load,
    io: I,
    mac: Mac,
    counting: usize,
) -> anyhow::Result<(Bench<I, WORDS>, Common)> {
    let (mut lcores, common) = lcores(load, vec![io], mac, counting)?;
    Ok((lcores.pop().context("one lcore")?, common))
}

/// Builds one lcore for each end of the port and lets all ranks of all jobs join, with memory for the counts
/// of `counting` lcores.
pub(crate) fn lcores<I: Io<Buf = Mbuf>, const WORDS: usize>(
    load: &Load,
    ios: Vec<I>,
    mac: Mac,
    counting: usize,
) -> anyhow::Result<(Vec<Bench<I, WORDS>>, Common)> {
    let sessions = Pool::sessions(&load.pool_config(), Kernels::detect(), ios.len())?;
    let local = Address::from_v4(LOCAL.octets());
    let setup = Setup::new(
        vec![local],
        UdpPorts::single(DEFAULT_PORT),
        vec![PortSetup { mac, beyond: Ports::NONE, mtu: u16::MAX }],
    );
    let setup = Arc::new(setup);
    let membership = join_all(load, counting)?;
    let (plane, ends) = ControlPlane::new(membership, Arc::clone(&setup), ios.len());
    let queue = || Arc::new(ArrayQueue::new(SERVER_QUEUE));
    let server = ServerEnd { to: queue(), from: queue() };
    let common = Common { plane, to_server: Arc::clone(&server.to) };
    let mut benches = Vec::new();
    for (number, ((io, session), end)) in ios.into_iter().zip(sessions).zip(ends).enumerate() {
        let counters = Arc::new(LcoreCounters::default());
        let (spread, spread_reader) = recorder()?;
        let (service, service_reader) = recorder()?;
        let (surveyor, census) = Surveyor::new(session.sets());
        let readers = LcoreReaders { spread: spread_reader, service: service_reader, census };
        let lcore = Lcore::new(LcoreParts {
            number,
            io,
            session,
            setup: Arc::clone(&setup),
            end,
            server: load.kind.has_server().then(|| server.clone()),
            updates: None,
            counters: Arc::clone(&counters),
            spread,
            service,
            surveyor,
        });
        benches.push(Bench { lcore, counters, readers });
    }
    Ok((benches, common))
}

/// The jobs, complete.
fn join_all(load: &Load, counting: usize) -> anyhow::Result<Membership> {
    let spec = |id| JobSpec {
        // All packets of a load may be in flight.
        window: u16::MAX,
        // Results that may lack ranks need room for a bitmap.
        max_payload: load.shape.payload + if load.kind.is_early() { NAMES } else { 0 },
        kind: load.kind,
        dead_after: None,
        ..JobSpec::new(id, load.shape.fan_in)
    };
    let jobs = (0..load.jobs).map(|number| JOB + number);
    let mut membership =
        Membership::new(jobs.clone().map(spec).collect(), Secret::NONE, EPOCH).counted_by(counting);
    // Joins are rate-limited.
    let mut now = Duration::ZERO;
    for job in jobs {
        for rank in 0..load.shape.fan_in {
            now += Duration::from_millis(20);
            let status = join(&mut membership, &load.shape, now, job, rank);
            let last = rank + 1 == load.shape.fan_in;
            let expected = if last { Status::Ok } else { Status::Pending };
            ensure!(status == Some(expected), "rank {rank} could not join: {status:?}");
        }
    }
    Ok(membership)
}

fn join(membership: &mut Membership, shape: &Shape, now: Duration, job: u16, rank: u16) -> Option<Status> {
    let header =
        Header { rank, fan_in: shape.fan_in, ..Header::about(Kind::Control, Element::F32_SUM, job, 0) };
    let from = Endpoint {
        port: 0,
        mac: worker_mac(rank),
        vlan: VlanTags::NONE,
        address: worker_address(rank),
        udp_port: WORKER_PORT,
        local: Address::from_v4(LOCAL.octets()),
        local_udp_port: DEFAULT_PORT,
        dscp: 0,
    };
    let control =
        Control { payload: shape.payload, window: u16::MAX, cookie: 1, ..Control::request(Action::Join, 1) };
    let request = ControlRequest { lcore: 0, at_ns: 0, from, header, control, padding: 0, operations: None };
    membership.handle(now, &request).map(|answer| answer.control.status)
}

/// The longest bitmap behind a payload, in whole elements.
const NAMES: u16 = 136;

const _: () = assert!(HEADERS == 14 + 20 + 8 + header::LEN);

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A clock for benches: DPDK's.
pub(crate) fn clock(eal: &Eal) -> Clock {
    Clock::new(eal)
}
