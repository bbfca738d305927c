//! One rank of a synchronous job: sums a tensor with the other ranks and checks the sum.
//!
//! Start an appliance whose job 1 has two ranks, then one process for each rank, on any hosts that reach it:
//!
//! ```sh
//! cargo run --release --example allreduce -- 10.77.0.254:16420 0 2
//! cargo run --release --example allreduce -- 10.77.0.254:16420 1 2
//! ```

use std::net::SocketAddr;

use pascaline_worker::{Config, Worker};

/// As configured at the appliance.
const JOB: u16 = 1;
/// Elements of the tensor: 128 KiB of `f32`.
const ELEMENTS: u16 = 1 << 15;
const STEPS: u16 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [appliance, rank, ranks] = &arguments[..] else {
        return Err("usage: allreduce ADDRESS:PORT RANK RANKS".into());
    };
    let appliance: SocketAddr = appliance.parse()?;
    let (rank, ranks): (u16, u16) = (rank.parse()?, ranks.parse()?);

    // Waits until every rank of the job has joined. All must agree on job, rank count and payload.
    let mut worker = Worker::join(Config::new(appliance, JOB, rank, ranks))?;

    for step in 0..STEPS {
        // In training, this is the gradient of a step.
        let mut tensor: Vec<f32> = (0..ELEMENTS).map(|index| gradient(rank, step, index)).collect();

        // Sends the tensor once and receives the sum once, into the same memory.
        let report = worker.allreduce(&mut tensor)?;

        // Small integers, which `f32` adds exactly in any order.
        let sum = |index| (0..ranks).map(|rank| gradient(rank, step, index)).sum::<f32>();
        let wrong = (0..ELEMENTS).zip(&tensor).filter(|&(index, &value)| value != sum(index)).count();
        if wrong > 0 {
            return Err(format!("step {step}: {wrong} of {ELEMENTS} elements are wrong").into());
        }
        let (bytes, elapsed) = (report.bytes, report.elapsed);
        println!("step {step}: {bytes} bytes summed over {ranks} ranks in {elapsed:.1?}");
    }

    // A rank that leaves helps the others until they have all results, too.
    let departure = worker.leave();
    let again = departure.counters.retransmissions;
    println!("rank {rank}: all sums are right; {again} packets sent again");
    Ok(())
}

/// What a rank contributes: every rank can compute it for all others, so that each can check the sum.
fn gradient(rank: u16, step: u16, index: u16) -> f32 {
    f32::from((index % 251) + rank + step)
}
