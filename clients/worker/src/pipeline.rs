//! Asynchronous training without a server (iSwitch, section 4.1 and Algorithm 1).
//!
//! The appliance completes an iteration with the gradients of H of N workers (a job with a `threshold`), and
//! all workers get the same result. Each of them keeps the weights itself, and because all apply the same
//! results in the same order, they agree. Three stages run at the same time:
//!
//! ```text
//! compute     a gradient from the newest weights, and the next one as soon as that is handed over
//! aggregate   offer it, if it is not too stale; every iteration's result passes here, contributed to or not
//! update      w ← w − γ · mean of the gradients inside
//! ```
//!
//! A gradient computed from the weights of iteration t_w is offered in iteration t only if t − t_w ≤ S. A
//! slow worker finds iterations complete without it. It takes their results at once and offers the same
//! gradient again, until an iteration takes it in or it is too stale.
//!
//! A worker may fall behind by the job's window, for which the appliance and the other workers cache results.
//! Each of its gradients moves it on by S + 1 iterations at most: one that is several times slower than the
//! others falls behind further and further, until the appliance reports that they have continued without it.
//! Models of several packets are aggregated packet by packet: a gradient that was in time for some of them
//! only is offered again, and counts in those twice.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::Op;
use crate::allreduce::Partial;
use crate::priority::Hints;
use crate::udp::{AllreduceError, Worker};

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PipelineConfig {
    /// Iterations in all, the same for all workers.
    pub iterations: u64,
    /// S: by how many iterations a gradient may be older than the one that it is offered in; 3 in the paper.
    pub bound: u64,
    /// γ.
    pub rate: f32,
}

/// A worker's results.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineReport {
    /// The weights after the last iteration: the same at all workers, bit by bit.
    pub weights: Vec<f32>,
    /// Iterations that this worker's gradients are part of.
    pub contributed: u64,
    /// Iterations that were complete without it.
    pub missed: u64,
    /// Gradients that were too stale to be offered (again).
    pub stale: u64,
    /// The largest t − t_w of a gradient that was offered.
    pub most_stale: u64,
}

#[derive(Debug)]
struct Weights {
    values: Vec<f32>,
    /// Results applied: t_s.
    iteration: u64,
}

#[derive(Debug)]
struct Gradient {
    values: Vec<f32>,
    /// t_w.
    iteration: u64,
}

/// Trains for all iterations with a worker that [accepts partial results](crate::Config::accept_partial),
/// from `weights`, which must be the same at all workers. `compute` gets the number of results that its
/// weights have seen, and these weights, and writes its gradient into the last argument, which is as long.
///
/// # Errors As [`Worker::allreduce_with`]; the training so far is lost then.
///
/// # Panics
/// If `compute` does.
pub fn train(
    worker: &mut Worker,
    config: &PipelineConfig,
    weights: Vec<f32>,
    compute: impl FnMut(u64, &[f32], &mut [f32]) + Send,
) -> Result<PipelineReport, AllreduceError> {
    let shared = Mutex::new(Weights { values: weights, iteration: 0 });
    let (hand_over, gradients) = sync_channel(0);
    let (apply, results) = sync_channel(1);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| compute_gradients(&shared, hand_over, compute));
        scope.spawn(|| update_weights(&shared, results, config.rate));
        // Both other stages end when their channels, which this one owns, are gone.
        aggregate(worker, config, gradients, apply)
    })?;
    let weights = shared.into_inner().unwrap_or_else(PoisonError::into_inner).values;
    Ok(PipelineReport { weights, ..outcome })
}

/// The first stage; ends when the second no longer takes gradients.
fn compute_gradients(
    shared: &Mutex<Weights>,
    hand_over: SyncSender<Gradient>,
    mut compute: impl FnMut(u64, &[f32], &mut [f32]),
) {
    let mut copy = Vec::new();
    loop {
        let iteration = {
            let weights = shared.lock().unwrap_or_else(PoisonError::into_inner);
            weights.values.clone_into(&mut copy);
            weights.iteration
        };
        let mut values = vec![0.0; copy.len()];
        compute(iteration, &copy, &mut values);
        if hand_over.send(Gradient { values, iteration }).is_err() {
            return;
        }
    }
}

/// The second stage: iteration after iteration.
fn aggregate(
    worker: &mut Worker,
    config: &PipelineConfig,
    gradients: Receiver<Gradient>,
    apply: SyncSender<Vec<f32>>,
) -> Result<PipelineReport, AllreduceError> {
    let rank = worker.membership().identity.rank;
    let mut report =
        PipelineReport { weights: Vec::new(), contributed: 0, missed: 0, stale: 0, most_stale: 0 };
    let mut iteration = 0;
    let mut held: Option<Gradient> = None;
    while iteration < config.iterations {
        let Some(gradient) = held.take().or_else(|| gradients.recv().ok()) else { break };
        let staleness = iteration - gradient.iteration;
        if staleness > config.bound {
            report.stale += 1;
            continue;
        }
        report.most_stale = report.most_stale.max(staleness);
        let mut result = gradient.values.clone();
        let partial = worker.allreduce_with(&mut result, Op::Mean, Hints::default())?.partial;
        iteration += 1;
        if contains(partial.as_ref(), rank) {
            report.contributed += 1;
        } else {
            report.missed += 1;
            held = Some(gradient);
        }
        if apply.send(result).is_err() {
            break;
        }
    }
    Ok(report)
}

fn contains(partial: Option<&Partial>, rank: u16) -> bool {
    partial.is_none_or(|partial| !partial.missing.contains(rank))
}

/// The third stage; ends when there are no more results.
fn update_weights(shared: &Mutex<Weights>, results: Receiver<Vec<f32>>, rate: f32) {
    while let Ok(result) = results.recv() {
        let mut weights = shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (weight, gradient) in weights.values.iter_mut().zip(&result) {
            *weight -= rate * gradient;
        }
        weights.iteration += 1;
    }
}
