//! A member of a job, by whichever driver.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use pascaline_worker::masked::Key;
use pascaline_worker::{
    AllreduceError, Appliances, Collective, Config, CongestionControl, Counters, Element, Hints, Narrowing,
    Report, TreeReport, Worker,
};
use pascaline_worker_dpdk::{Dpdk, DpdkConfig, DpdkWorker};
use zerocopy::IntoBytes as _;

use super::failed::Failed;
use super::parse;
use super::placed::{ControllerArgs, Placed};
use super::sample::Sample;

/// Up to this MTU a packet's buffer has two kilobytes.
const LONGEST_PLAIN: u16 = 1900;

/// Which rank of which job, and where its appliance is.
#[derive(Debug, Clone, Args)]
pub(crate) struct RankArgs {
    /// Address of the appliance; the port is 16420 unless given. Behind a comma, others with the same job
    /// that stand in for it; behind a semicolon, the appliance of a further tree, with the job of the next
    /// number: A,B;C,D. The same list at all ranks.
    #[arg(
        long,
        value_name = "HOST[:PORT][,HOST[:PORT]…][;…]",
        required_unless_present = "controller",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) appliance: String,
    /// The job, as configured at the appliance.
    #[arg(long)]
    pub(crate) job: u16,
    /// This worker's rank, counted from 0.
    #[arg(long)]
    pub(crate) rank: u16,
    /// How many ranks the job has.
    #[arg(long, required_unless_present = "controller", default_value_t = 0, hide_default_value = true)]
    pub(crate) ranks: u16,
    /// The DSCP of this worker's packets, 0 to 63, and of those that come back: for switches on the way, and
    /// for appliances that take no others for their own (`dscp` there).
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..64))]
    pub(crate) dscp: u8,
    #[command(flatten)]
    pub(crate) by: ControllerArgs,
}

impl RankArgs {
    /// The configuration of its worker.
    pub(super) fn config(&self, appliances: Appliances) -> Config {
        let config = Config::new(appliances.appliance, self.job, self.rank, self.ranks);
        Config { dscp: self.dscp, ..config.among(appliances) }
    }
}

impl RankArgs {
    /// Who it is and its appliances, as a controller says if there is one.
    pub(super) fn found(&self) -> Result<(Self, Appliances), Failed> {
        let who = self.placed().map_err(|error| Failed::from(&error))?.who;
        let appliances = parse::appliances(&who.appliance);
        let wrong = |error: anyhow::Error| Failed::by_arguments(&format_args!("{error:#}"));
        appliances.map_err(wrong).map(|appliances| (who, appliances))
    }
}

/// How packets get to the appliance.
#[derive(Debug, Clone, Args)]
pub(crate) struct DriverArgs {
    /// What moves the packets: a UDP socket of the kernel's, or a DPDK port, which the kernel knows nothing
    /// of.
    #[arg(long, value_enum, default_value_t = Driver::Kernel)]
    pub(crate) driver: Driver,
    /// With --driver dpdk: the port, as a PCI address or a virtual device:
    /// net_memif0,role=client,socket=PATH,socket-abstract=no or net_af_xdp0,iface=eth1.
    #[arg(long, value_name = "DEVICE", required_if_eq("driver", "dpdk"))]
    port: Option<String>,
    /// With --driver dpdk: this worker's IP address on the port.
    #[arg(long, value_name = "ADDR", required_if_eq("driver", "dpdk"))]
    address: Option<IpAddr>,
    /// With --driver dpdk: the router, if the appliance is not in the port's own Ethernet segment.
    #[arg(long, value_name = "ADDR")]
    next_hop: Option<IpAddr>,
    /// With --driver dpdk: the longest IP packet of the port and of the way to the appliance, for jumbo
    /// frames; 1500 by default.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    /// The core to work on: by default whichever the system chooses, with --driver dpdk core 0.
    #[arg(long)]
    core: Option<u16>,
    /// Gone: see `check`.
    #[arg(long, hide = true)]
    threads: bool,
    /// With --driver dpdk: memory for packets in megabytes: 64 by default, 192 for jumbo frames.
    #[arg(long, value_name = "MB")]
    memory_mb: Option<u32>,
    /// With --driver dpdk: poll without ever sleeping, on a dedicated core.
    #[arg(long)]
    spin: bool,
}

impl DriverArgs {
    /// Whether it is the kernel's UDP socket.
    pub(super) fn is_kernel(&self) -> bool {
        self.driver == Driver::Kernel
    }

    /// An option that is gone, or that would be ignored: what is for a DPDK port, without one.
    ///
    /// # Errors
    /// Names the first such option.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Self { driver, port, address, next_hop, mtu, memory_mb, spin, core: _, threads } = self;
        if *threads {
            bail!("--threads is gone: one thread serves all trees of a worker; leave it out");
        }
        let given = [
            ("port", port.is_some()),
            ("address", address.is_some()),
            ("next-hop", next_hop.is_some()),
            ("mtu", mtu.is_some()),
            ("memory-mb", memory_mb.is_some()),
            ("spin", *spin),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) if *driver == Driver::Kernel => bail!("--{option} goes with --driver dpdk"),
            _ => Ok(()),
        }
    }

    /// Where a worker goes: one over a DPDK port cannot turn to another appliance.
    pub(super) fn place(&self, placed: Placed) -> Placed {
        if self.is_kernel() { placed } else { placed.at_one() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// A UDP socket.
    Kernel,
    /// A DPDK port.
    Dpdk,
}

/// Why a thread cannot work on a core.
#[derive(Debug, thiserror::Error)]
#[error("--core {core}: {errno}; `nproc` says how many there are, `taskset -p $$` which are allowed")]
pub(super) struct NoCore {
    core: usize,
    errno: Errno,
}

/// Has this thread, and those that it starts from now on, work on one core only.
pub(super) fn stay_on(core: usize) -> Result<(), NoCore> {
    let mut only = CpuSet::new();
    let set = only.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
    set.map_err(|errno| NoCore { core, errno })
}

/// A worker.
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Member {
    Kernel(Worker),
    Dpdk(DpdkWorker),
}

impl Member {
    pub(super) fn join(config: Config, driver: &DriverArgs) -> Result<Self, Failed> {
        match (driver.driver, &driver.port, driver.address) {
            (Driver::Dpdk, Some(port), Some(address)) => {
                let nap = if driver.spin { Duration::ZERO } else { DpdkConfig::new(port, address).nap };
                let (mtu, next_hop) = (driver.mtu, driver.next_hop);
                let port = DpdkConfig { mtu, next_hop, nap, ..DpdkConfig::new(port, address) };
                let memory_mb = if mtu.is_some_and(|mtu| mtu > LONGEST_PLAIN) { 192 } else { 64 };
                let dpdk = Dpdk::start(
                    core::slice::from_ref(&port),
                    driver.core.unwrap_or(0).into(),
                    driver.memory_mb.unwrap_or(memory_mb),
                )
                .map_err(|error| Failed::by(&error))?;
                dpdk.join(config, &port).map(Self::Dpdk).map_err(|error| Failed::from(&error))
            }
            _ => {
                if let Some(core) = driver.core {
                    // Before the worker has memory, which then is that core's.
                    stay_on(core.into()).map_err(|error| Failed::by_arguments(&error))?;
                }
                let joined = Worker::join(config);
                joined.map(Self::Kernel).map_err(|error| Failed::from(&error))
            }
        }
    }

    pub(super) fn collective<T: Element>(
        &mut self,
        collective: &Collective<'_>,
        tensor: &mut [T],
    ) -> Result<Report, AllreduceError> {
        let (tensor, hints) = (tensor.as_mut_bytes(), Hints::default());
        match self {
            Self::Kernel(worker) => worker.collective(collective, T::DTYPE, tensor, hints),
            Self::Dpdk(worker) => worker.collective(collective, T::DTYPE, tensor, hints),
        }
    }

    /// The same, hidden from the appliance if there is a key.
    pub(super) fn hidden<T: Element>(
        &mut self,
        key: Option<&Key>,
        collective: &Collective<'_>,
        tensor: &mut [T],
    ) -> Result<Report, AllreduceError> {
        let Some(key) = key else { return self.collective(collective, tensor) };
        let (tensor, hints) = ((T::DTYPE, tensor.as_mut_bytes()), Hints::default());
        match self {
            Self::Kernel(worker) => worker.collective_masked(key, collective, tensor, hints),
            Self::Dpdk(worker) => worker.collective_masked(key, collective, tensor, hints),
        }
    }

    /// The same of `f32` elements that travel as `T`, which has their values.
    pub(super) fn narrowed<T: Sample>(
        &mut self,
        collective: &Collective<'_>,
        tensor: &mut [T],
        narrowing: Narrowing<'_>,
    ) -> Result<Report, AllreduceError> {
        let (mut wide, hints) = (Vec::with_capacity(tensor.len() * T::NUMBERS), Hints::default());
        tensor.iter().for_each(|element| element.widen(&mut wide));
        let report = match self {
            Self::Kernel(worker) => worker.collective_narrow(collective, &mut wide, narrowing, hints),
            Self::Dpdk(worker) => worker.collective_narrow(collective, &mut wide, narrowing, hints),
        };
        for (place, numbers) in tensor.iter_mut().zip(wide.chunks(T::NUMBERS)) {
            *place = T::narrow(numbers);
        }
        report
    }

    /// Errors show in the next allreduce.
    pub(super) fn tend(&mut self) {
        match self {
            Self::Kernel(worker) => drop(worker.tend()),
            Self::Dpdk(worker) => worker.tend(),
        }
    }

    pub(super) fn leave(self) -> Counters {
        match self {
            Self::Kernel(worker) => worker.leave().counters,
            Self::Dpdk(worker) => worker.leave().counters,
        }
    }

    /// Payload bytes of its full packets.
    pub(super) fn payload(&self) -> u16 {
        match self {
            Self::Kernel(worker) => worker.membership().identity.payload,
            Self::Dpdk(worker) => worker.membership().identity.payload,
        }
    }

    pub(super) fn control(&self) -> CongestionControl {
        match self {
            Self::Kernel(worker) => worker.control(),
            Self::Dpdk(worker) => worker.control(),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        match self {
            Self::Kernel(worker) => worker.counters(),
            Self::Dpdk(worker) => worker.counters(),
        }
    }

    /// What went over each tree; nothing over a DPDK port, which has one.
    pub(super) fn trees(&self) -> Vec<TreeReport> {
        match self {
            Self::Kernel(worker) => worker.trees().collect(),
            Self::Dpdk(_) => Vec::new(),
        }
    }
}
