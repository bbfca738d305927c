//! A job with all its members on one port, and the frames that they send.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use pascaline_aggregator::{Pool, PoolConfig};
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::{Clock, Eal, EalConfig, Mbuf, Mempool, mempool};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::JobSpec;
use pascaline_pipelines::{
    ControlPlane, ControlRequest, Io, Lcore, LcoreParts, Membership, PortSetup, Setup,
};
use pascaline_telemetry::{LcoreCounters, LcoreReaders, Surveyor, recorder};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::VlanTags;
use pascaline_wire::header::{self, Element, Flags, Header, Kind};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{Address, DEFAULT_PORT, Mac};

/// What is aggregated.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shape {
    /// Contributions per result
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) fan_in: u16,
    /// Payload bytes per packet
    #[arg(long, default_value_t = 1024, value_parser = payload)]
    pub(crate) payload: u16,
}

fn payload(text: &str) -> Result<u16, String> {
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
/// Where packets and accumulators are when they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Residence {
    /// PSNs under way at a time, and PSNs' worth of packets in a round.
    pub(crate) psns: u32,
    /// Slots of the pool.
    pub(crate) slots: usize,
}

/// In the second-level cache: a fan-in of 8 makes 300 KB a round.
pub(crate) const L2: Residence = Residence { psns: 32, slots: 64 };
/// In the last-level cache, where NICs put what they receive: 2.5 MB a round.
pub(crate) const LAST_LEVEL: Residence = Residence { psns: 256, slots: 512 };

/// Packet buffers of a benchmark.
const BUFFERS: u32 = 40_959;
/// Memory of each process, in MB.
pub(crate) const MEMORY_MB: u32 = 240;
const JOB: u16 = 1;

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

/// Writes the frames of the job's workers.
#[derive(Debug, Clone)]
pub(crate) struct Frames {
    templates: Vec<Template>,
    epoch: u8,
    payload: Vec<u8>,
}

impl Frames {
    /// Frames towards an appliance port with this MAC.
    pub(crate) fn new(shape: &Shape, appliance: Mac, epoch: u8) -> Self {
        let path = |rank| Path {
            dst_mac: appliance,
            src_mac: worker_mac(rank),
            vlan: VlanTags::NONE,
            dst: Address::from_v4(LOCAL.octets()),
            src: worker_address(rank),
            dst_port: DEFAULT_PORT,
            src_port: WORKER_PORT,
        };
        Self {
            templates: (0..shape.fan_in).map(|rank| Template::new(&path(rank))).collect(),
            epoch,
            payload: ELEMENT.to_le_bytes().repeat(usize::from(shape.payload) / 4),
        }
    }

    /// The payload that every frame carries.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Writes the 64 bytes of headers of a contribution to the start of `out`.
    pub(crate) fn write_headers(&self, out: &mut [u8], rank: u16, psn: u32) -> bool {
        let header = Header {
            kind: Kind::Gradient,
            flags: Flags::NONE,
            element: Element::F32_SUM,
            job: JOB,
            rank,
            psn,
            fan_in: self.fan_in(),
            count: 1,
            priority: 0,
            wnd_cap: u16::MAX,
            tree: 0,
            epoch: self.epoch,
        };
        self.templates
            .get(usize::from(rank))
            .is_some_and(|template| template.write(out, &header, &self.payload) == Ok(HEADERS))
    }

    #[expect(clippy::cast_possible_truncation, reason = "one template per rank, and ranks are 16 bits")]
    pub(crate) fn fan_in(&self) -> u16 {
        self.templates.len() as u16
    }

    /// True if `body`, the UDP payload of a frame, is a right result: fan-in × the element everywhere.
    pub(crate) fn is_right_result(&self, body: &[u8]) -> bool {
        let sum = ELEMENT * f32::from(self.fan_in());
        Header::parse(body).is_ok_and(|(header, payload)| {
            header.kind == Kind::Result
                && header.count == self.fan_in()
                && payload.len() == self.payload.len()
                && payload.as_chunks::<4>().0.iter().all(|bytes| f32::from_le_bytes(*bytes) == sum)
        })
    }
}

/// What every element of every contribution is: small enough that sums of 64 are exact.
const ELEMENT: f32 = 1.5;

/// The order in which contributions arrive: the ranks take turns, and each is a little behind the one before it, as
/// workers are. So at any time some PSNs have been opened by the first rank and wait for the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    fan_in: u16,
    /// PSNs by which a rank is behind the one before it.
    lag: u32,
    step: u32,
    rank: u16,
}

impl Arrival {
    /// From the beginning.
    pub(crate) fn new(shape: &Shape, residence: Residence) -> Self {
        let lag = (residence.psns / u32::from(shape.fan_in)).max(1);
        Self { fan_in: shape.fan_in, lag, step: 0, rank: 0 }
    }

    /// The next contribution: rank and PSN.
    pub(crate) fn next(&mut self) -> (u16, u32) {
        loop {
            let (rank, step) = (self.rank, self.step);
            self.rank += 1;
            if self.rank == self.fan_in {
                self.rank = 0;
                self.step += 1;
            }
            // At the very start, the later ranks have not begun.
            if let Some(psn) = step.checked_sub(u32::from(rank) * self.lag) {
                return (rank, psn);
            }
        }
    }
}

/// The environment of a benchmark.
pub(crate) fn eal(name: &str, main_core: usize, cores: Vec<usize>) -> anyhow::Result<Eal> {
    let config = EalConfig {
        program: "pascaline".to_owned(),
        file_prefix: format!("pascaline-{name}-{}", std::process::id()),
        main_core,
        cores,
        // Benchmarks of one core may run on machines that have no other.
        float: false,
        memory_mb: MEMORY_MB,
        ..EalConfig::default()
    };
    Eal::init(&config).context("starting DPDK")
}

/// The packet pools of a benchmark.
pub(crate) fn pools(eal: &Eal, shape: &Shape) -> anyhow::Result<(Mempool, Mempool)> {
    let room = u16::try_from(shape.frame_len().next_power_of_two().max(2048))?;
    let pool =
        |name: &str, count, room| mempool::PoolConfig { name: name.to_owned(), count, cache: 512, room };
    let frames = Mempool::new(eal, &pool("frames", BUFFERS, room))?;
    let headers = Mempool::new(eal, &pool("headers", 8191, u16::try_from(HEADER_ROOM)?))?;
    Ok((frames, headers))
}

/// A pool of whole frames to receive into.
pub(crate) fn receive_pool(eal: &Eal, shape: &Shape) -> anyhow::Result<Mempool> {
    let room = u16::try_from(shape.frame_len().next_power_of_two().max(2048))?;
    let config = mempool::PoolConfig { name: "received".to_owned(), count: 8191, cache: 512, room };
    Ok(Mempool::new(eal, &config)?)
}

/// An lcore of the real packet path, its job complete, with one port of this MAC.
pub(crate) struct Bench<I: Io<Buf = Mbuf>> {
    pub(crate) lcore: Lcore<I>,
    pub(crate) counters: Arc<LcoreCounters>,
    pub(crate) readers: LcoreReaders,
    pub(crate) plane: ControlPlane,
    pub(crate) membership: Membership,
    pub(crate) setup: Arc<Setup>,
}

/// What else there is in the appliance, beside the lcore and the job that are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Jobs in all.
    pub(crate) jobs: u16,
    /// Lcores that jobs are counted by.
    pub(crate) lcores: usize,
}

/// The generation of a job that every rank has joined once, at an appliance that starts with generation 1.
pub(crate) const EPOCH: u8 = 1;

/// Puts an lcore together and lets all ranks join.
pub(crate) fn lcore<I: Io<Buf = Mbuf>>(
    shape: &Shape,
    residence: Residence,
    io: I,
    mac: Mac,
) -> anyhow::Result<Bench<I>> {
    lcore_in(Crowd { jobs: 1, lcores: 1 }, shape, residence, io, mac)
}

/// The same among others.
pub(crate) fn lcore_in<I: Io<Buf = Mbuf>>(
    crowd: Crowd,
    shape: &Shape,
    residence: Residence,
    io: I,
    mac: Mac,
) -> anyhow::Result<Bench<I>> {
    let config = PoolConfig { slots: residence.slots, ways: 4, ..PoolConfig::default() };
    let session = Pool::sessions(&config, Kernels::detect(), 1)?.pop().context("one session")?;
    let local = Address::from_v4(LOCAL.octets());
    let setup =
        Setup { addresses: vec![local], udp_port: DEFAULT_PORT, ports: vec![PortSetup { mac, peer: None }] };
    let setup = Arc::new(setup);
    let spec =
        |job| JobSpec { window: 32, max_payload: shape.payload, ..JobSpec::new(JOB + job, shape.fan_in) };
    let mut membership = Membership::new((0..crowd.jobs).map(spec).collect(), EPOCH).counted_by(crowd.lcores);
    for rank in 0..shape.fan_in {
        let status = join(&mut membership, shape, rank);
        let expected = if rank + 1 == shape.fan_in { Status::Ok } else { Status::Pending };
        ensure!(status == Some(expected), "rank {rank} could not join: {status:?}");
    }
    let (mut plane, mut ends) = ControlPlane::new(1);
    plane.publish(membership.table(|_| mac));
    let counters = Arc::new(LcoreCounters::default());
    let (spread, spread_reader) = recorder()?;
    let (service, service_reader) = recorder()?;
    let (surveyor, census) = Surveyor::new(session.sets());
    let readers = LcoreReaders { spread: spread_reader, service: service_reader, census };
    let lcore = Lcore::new(LcoreParts {
        number: 0,
        io,
        session,
        setup: Arc::clone(&setup),
        end: ends.pop().context("one end")?,
        server: None,
        updates: None,
        counters: Arc::clone(&counters),
        spread,
        service,
        surveyor,
    });
    Ok(Bench { lcore, counters, readers, plane, membership, setup })
}

fn join(membership: &mut Membership, shape: &Shape, rank: u16) -> Option<Status> {
    let header = Header {
        kind: Kind::Control,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job: JOB,
        rank,
        psn: 0,
        fan_in: shape.fan_in,
        count: 0,
        priority: 0,
        wnd_cap: u16::MAX,
        tree: 0,
        epoch: 0,
    };
    let from = Endpoint {
        port: 0,
        mac: worker_mac(rank),
        vlan: VlanTags::NONE,
        address: worker_address(rank),
        udp_port: WORKER_PORT,
        local: Address::from_v4(LOCAL.octets()),
        local_udp_port: DEFAULT_PORT,
    };
    let control = Control { payload: shape.payload, ..Control::request(Action::Join, 1) };
    let request = ControlRequest { lcore: 0, from, header, control };
    membership.handle(Duration::ZERO, &request).map(|answer| answer.control.status)
}

const _: () = assert!(HEADERS == 14 + 20 + 8 + header::LEN);

/// The median of some measurements; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A clock for benches: DPDK's.
pub(crate) fn clock(eal: &Eal) -> Clock {
    Clock::new(eal)
}
