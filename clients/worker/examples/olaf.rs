//! One worker of an asynchronous job (Olaf): sends updates at its own pace and takes in weights as they come.
//!
//! Start an appliance whose job 2 has `mode = "olaf"` and two ranks, and its parameter server
//! (`pascaline ps`), then:
//!
//! ```sh
//! cargo run --release --example olaf -- 10.77.0.254:16420 0 2
//! cargo run --release --example olaf -- 10.77.0.254:16420 1 2
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pascaline_worker::asynchronous::{Policy, Slope};
use pascaline_worker::{AsyncConfig, AsyncWorker, Initial, Push};

/// As configured at the appliance.
const JOB: u16 = 2;
/// The whole model travels in one packet: at most 356 floats with an MTU of 1,500 bytes.
const FLOATS: usize = 256;
const UPDATES: u32 = 100;
/// How long this worker computes for an update. Others may be faster or slower: no worker waits for them.
const COMPUTING: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [appliance, rank, ranks] = &arguments[..] else {
        return Err("usage: olaf ADDRESS:PORT RANK RANKS".into());
    };
    let appliance: SocketAddr = appliance.parse()?;

    // Transmission control skips updates while the queue before the server is congested.
    let policy = Policy::Olaf { slope: Slope::Fairness, threshold: Duration::from_millis(400) };
    let config =
        AsyncConfig { policy, ..AsyncConfig::new(appliance, JOB, rank.parse()?, ranks.parse()?, FLOATS) };

    // The server starts from the first weights that any worker offers, and tells them all.
    let mut worker = AsyncWorker::join(&config, Initial::Weights(&[1.0; FLOATS]))?;

    for number in 0..UPDATES {
        // The model's loss is the squared distance from zero: its gradient is the weights themselves.
        let gradient = worker.poll().0.to_vec();
        let reward = -gradient.iter().map(|weight| weight * weight).sum::<f32>();
        compute(&mut worker)?;

        // Returns at once. An update that gets lost is not repeated: the next one is newer.
        if worker.push(&gradient, reward)? == Push::Skipped {
            println!("update {number}: held back, the queue is congested");
        }
    }

    let (weights, versions) = worker.poll();
    println!("weights came {versions} times; the first one is now {:?}", weights.first());
    let (_, counters) = worker.leave();
    println!(
        "of {} updates {} were sent and {} acknowledged",
        counters.pushed, counters.sent, counters.acks_own
    );
    Ok(())
}

/// Stands for the computation of a gradient. What arrives meanwhile is taken in.
fn compute(worker: &mut AsyncWorker) -> std::io::Result<()> {
    let end = Instant::now() + COMPUTING;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        worker.wait(left)?;
    }
    Ok(())
}
