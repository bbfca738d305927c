//! One rank of a synchronous job whose packets never see the kernel: they go through a DPDK port.
//!
//! Start an appliance whose job 1 has two ranks, then one process for each rank, as root. The device is a
//! NIC's PCI address or one of DPDK's virtual devices; the address is the rank's own, which the host must not
//! use otherwise:
//!
//! ```sh
//! cargo run --release --example allreduce_dpdk -- 10.77.0.254:16420 0 2 0000:01:00.0 10.77.0.1
//! cargo run --release --example allreduce_dpdk -- 10.77.0.254:16420 1 2 net_af_packet0,iface=eth1 10.77.0.2
//! ```

use std::net::SocketAddr;

use pascaline_worker::{Config, Hints, Op};
use pascaline_worker_dpdk::{DpdkConfig, DpdkWorker};

/// As configured at the appliance.
const JOB: u16 = 1;
const ELEMENTS: usize = 1 << 18;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [appliance, rank, ranks, device, address] = &arguments[..] else {
        return Err("usage: allreduce_dpdk ADDRESS:PORT RANK RANKS DEVICE OWN-ADDRESS".into());
    };
    let appliance: SocketAddr = appliance.parse()?;
    let (rank, ranks): (u16, u16) = (rank.parse()?, ranks.parse()?);

    // Starts DPDK, which this process can do only once, and binds this thread to core 0. With a core of its
    // own, a worker is fastest if it never sleeps: then set `nap` to zero.
    let port = DpdkConfig::new(device, address.parse()?);
    let mut worker = DpdkWorker::join(Config::new(appliance, JOB, rank, ranks), &port)?;

    // From here on as over a socket: the tensor goes out once, and the mean comes back into the same memory.
    let mut tensor = vec![f32::from(rank); ELEMENTS];
    let report = worker.allreduce_with(&mut tensor, Op::Mean, Hints::default())?;

    let mean = f32::from(ranks - 1) / 2.0;
    if tensor.iter().any(|&value| value != mean) {
        return Err("the mean is wrong".into());
    }
    println!("rank {rank}: mean of {ranks} ranks right, {} bytes in {:.1?}", report.bytes, report.elapsed);
    let _ = worker.leave();
    Ok(())
}
