//! Ranks of a synchronous job whose packets never see the kernel: they go through DPDK ports, all of them of
//! one process.
//!
//! Start an appliance whose job 1 has two ranks, then this as root. A device is a NIC's PCI address or one of
//! DPDK's virtual devices; an address is the rank's own, which the host must not use otherwise. Or start a
//! process for each rank, and tell each which rank is its first:
//!
//! ```sh
//! cargo run --release --example allreduce_dpdk -- 10.77.0.254:16420 2 0 \
//!     net_af_packet0,iface=eth1 10.77.0.1 net_af_packet1,iface=eth1 10.77.0.2
//! cargo run --release --example allreduce_dpdk -- [fd77::254]:16420 2 1 0000:01:00.0 fd77::1
//! ```

use std::net::SocketAddr;
use std::thread;

use pascaline_worker::{Config, Hints, Op};
use pascaline_worker_dpdk::{Dpdk, DpdkConfig};

/// As configured at the appliance.
const JOB: u16 = 1;
const ELEMENTS: usize = 1 << 18;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ([appliance, ranks, first], ports) = arguments
        .split_first_chunk()
        .ok_or("usage: allreduce_dpdk ADDRESS:PORT RANKS FIRST-RANK (DEVICE OWN-ADDRESS)...")?;
    let appliance: SocketAddr = appliance.parse()?;
    let (ranks, first): (u16, u16) = (ranks.parse()?, first.parse()?);
    let ports = ports
        .chunks_exact(2)
        .map(|port| Ok(DpdkConfig::new(&port[0], port[1].parse()?)))
        .collect::<Result<Vec<_>, std::net::AddrParseError>>()?;

    // A process can do this once. It binds this thread to core 0, and with it those that start below: where
    // ranks have a core each, each thread binds itself, and sets `nap` to zero so as never to sleep.
    let dpdk = Dpdk::start(&ports, 0, 64 + 24 * u32::try_from(ports.len())?)?;
    thread::scope(|scope| {
        let members: Vec<_> = (first..)
            .zip(&ports)
            .map(|(rank, port)| {
                let dpdk = &dpdk;
                scope.spawn(move || one_rank(dpdk, port, Config::new(appliance, JOB, rank, ranks)))
            })
            .collect();
        members.into_iter().try_for_each(|member| member.join().map_err(|_| "a rank panicked")?)
    })
}

fn one_rank(dpdk: &Dpdk, port: &DpdkConfig, config: Config) -> Result<(), Error> {
    let (rank, ranks) = (config.rank, config.ranks);
    let mut worker = dpdk.join(config, port)?;

    // From here on as over a socket: the tensor goes out once, and the mean comes back into the same memory.
    let mut tensor = vec![f32::from(rank); ELEMENTS];
    let report = worker.allreduce_with(&mut tensor, Op::Mean, Hints::default())?;

    let mean = f32::from(ranks - 1) / 2.0;
    if tensor.iter().any(|&value| value != mean) {
        return Err("the mean is wrong".into());
    }
    println!("rank {rank}: {} bytes in {:.1?}, all sums are right", report.bytes, report.elapsed);
    let _ = worker.leave();
    Ok(())
}
