//! Plans and their proofs.

use std::collections::HashMap;

use crate::model::{Channel, Flows, Instance};

/// The proof that no plan is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The bound is reached: none is better.
    Optimal,
    /// The search ended, by its time limit or by its method, before bound and plan met. The gap is stated.
    Gap,
    /// The method proves nothing.
    None,
}

/// The limit that keeps a plan from being better.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Binding {
    /// The kind, in one word: `local_pipes` (workers beside the parameter server), `capacity` (links, with
    /// whatever choice of pipelines), `worker_link`, or `unknown`.
    pub kind: &'static str,
    /// The limit, in a sentence.
    pub why: String,
    /// The limiting links, if known.
    pub channels: Vec<Channel>,
}

/// One task's part of a plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskPlan {
    /// The rate of each of its flows, Gbit/s.
    pub rate: f64,
    /// How many of its flows each channel carries, ascending by channel; channels without any are left out.
    pub flows: Flows,
    /// Each worker's path, in the order of [`crate::model::Task::workers`]: channels from the worker to the
    /// parameter server.
    pub paths: Vec<Vec<Channel>>,
}

/// Routes and rates for every task of an instance, which [`crate::replay`] has accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its solver.
    pub solver: &'static str,
    /// Each task's routes, in the order of the instance.
    pub tasks: Vec<TaskPlan>,
    /// The largest number of flows on a channel, all tasks together.
    pub k: u32,
    /// The maximised objective, Gbit/s ([`Instance::objective`]).
    pub objective: f64,
    /// No plan has a larger objective, Gbit/s. Infinite if the method gives no bound.
    pub bound: f64,
    /// The proof.
    pub proof: Proof,
    /// The limit that keeps it from being better.
    pub binding: Binding,
    /// How long the search took, s.
    pub seconds: f64,
    /// The time limit ended the search.
    pub timed_out: bool,
}

impl Plan {
    /// How far the objective may be below the best possible: 0.02 for 2 %.
    pub fn gap(&self) -> f64 {
        if self.bound > 0.0 { ((self.bound - self.objective) / self.bound).max(0.0) } else { 0.0 }
    }

    /// The load of each channel, Gbit/s.
    pub fn loads(&self) -> HashMap<Channel, f64> {
        let mut loads = HashMap::new();
        for task in &self.tasks {
            for &(channel, flows) in &task.flows {
                *loads.entry(channel).or_insert(0.0) += f64::from(flows) * task.rate;
            }
        }
        loads
    }
}

impl Instance {
    /// The objective: of one task its rate, of one job's tasks the sum of their rates, of several jobs the
    /// smallest weighted sum and μ times their total (ARO, equations 1 to 3).
    pub fn objective(&self, rates: impl IntoIterator<Item = f64>) -> f64 {
        let mut jobs = vec![0.0; self.jobs.len()];
        for (task, rate) in self.tasks.iter().zip(rates) {
            jobs[task.job] += rate * self.jobs[task.job].weight;
        }
        match jobs.as_slice() {
            [one] => one / self.jobs[0].weight,
            all => all.iter().copied().fold(f64::INFINITY, f64::min) + self.mu * all.iter().sum::<f64>(),
        }
    }
}
