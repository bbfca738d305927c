//! Checks beyond any format: whether an instance can be planned at all.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Aggregates, Channel, Instance, Job, Task};
use crate::PlanError;

/// Capacities in Gbit/s and weights that solvers can distinguish: they calculate with some fifteen digits.
const SOLVABLE: RangeInclusive<f64> = 1e-4..=1e6;

/// Rates and numbers of flows are in one program, whose coefficients are quotients of capacities and of
/// weights: beyond this it cannot be solved.
const RATIO: f64 = 1e8;

/// The text for [`SOLVABLE`].
struct Solvable;

impl fmt::Display for Solvable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", SOLVABLE.start(), SOLVABLE.end())
    }
}

fn carries(gbps: f64) -> Result<(), String> {
    match gbps {
        _ if SOLVABLE.contains(&gbps) => Ok(()),
        _ if gbps > 0.0 => Err(format!("a capacity of {gbps} Gbit/s is not in {Solvable}")),
        _ => Err(format!("a capacity of {gbps} Gbit/s carries nothing")),
    }
}

impl Instance {
    /// Checks that an instance can be planned; errors name their place.
    ///
    /// # Errors
    ///
    /// [`PlanError::Input`] for a capacity that is not in 0.0001..=1000000, for a link that does not join
    /// neighbouring tiers, a pipeline that its switch does not have, tasks without workers, a parameter
    /// server that is its own worker, a worker that is named twice, capacities and weights that are too far
    /// apart for a program, and numbers μ and β that are
    /// out of their ranges.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_network()?;
        if self.tasks.is_empty() {
            return Err(PlanError::input("jobs", "there is no task", "give at least one job with one task"));
        }
        if let Some(job) = self.jobs.iter().find(|job| !SOLVABLE.contains(&job.weight)) {
            return Err(PlanError::input(
                format!("job {}: weight", job.name),
                format!("{} is not in {}", job.weight, Solvable),
                "1 makes all jobs equal",
            ));
        }
        if !(self.mu.is_finite() && (0.0..1.0).contains(&self.mu)) {
            return Err(PlanError::input("mu", format!("{} is not in 0..1", self.mu), "0.001 is usual"));
        }
        self.check_ratios()?;
        self.tasks.iter().try_for_each(|task| self.check_task(task))
    }

    /// Checks that capacities and job weights fit into one program.
    fn check_ratios(&self) -> Result<(), PlanError> {
        let network = &self.network;
        let by_size = |&a: &Channel, &b: &Channel| network.capacity(a).total_cmp(&network.capacity(b));
        let used = || (0..network.channels()).filter(|&channel| network.capacity(channel) > 0.0);
        let (Some(least), Some(most)) = (used().min_by(by_size), used().max_by(by_size)) else {
            return Ok(());
        };
        let (small, large) = (network.capacity(least), network.capacity(most));
        if large / small > RATIO {
            return Err(PlanError::input(
                network.channel_name(least),
                format!(
                    "it carries {small} Gbit/s, and {} carries {large}: more than {RATIO} times as much",
                    network.channel_name(most)
                ),
                "leave out the link that carries next to nothing, or give the large one what is of use",
            ));
        }
        let by_weight = |a: &&Job, b: &&Job| a.weight.total_cmp(&b.weight);
        let (Some(light), Some(heavy)) =
            (self.jobs.iter().min_by(by_weight), self.jobs.iter().max_by(by_weight))
        else {
            return Ok(());
        };
        if heavy.weight / light.weight * (large / small) > RATIO {
            return Err(PlanError::input(
                format!("job {}: weight", light.name),
                format!(
                    "it is {}, that of job {} is {}, and capacities are from {small} to {large} Gbit/s: \
                     together more than {RATIO} times as much",
                    light.weight, heavy.name, heavy.weight
                ),
                "give jobs weights that are nearer to each other",
            ));
        }
        Ok(())
    }

    fn check_task(&self, task: &Task) -> Result<(), PlanError> {
        let place = format!("task {}: workers", task.name);
        if task.workers.is_empty() {
            return Err(PlanError::input(place, "there are none", "name at least one server"));
        }
        let mut seen = vec![false; self.network.servers.len()];
        seen[task.server] = true;
        for &worker in &task.workers {
            if std::mem::replace(&mut seen[worker], true) {
                let name = &self.network.servers[worker].name;
                return Err(if worker == task.server {
                    PlanError::input(
                        place,
                        format!("{name} is the parameter server"),
                        "a server sends nothing to itself: leave it out",
                    )
                } else {
                    PlanError::input(place, format!("{name} is there twice"), "name each worker once")
                });
            }
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), PlanError> {
        let network = &self.network;
        // Places are formatted only for errors: a network may have a million links.
        let gbps = |place: &dyn Fn() -> String, gbps: f64| {
            carries(gbps).map_err(|problem| {
                PlanError::input(place(), problem, "give what it carries in Gbit/s, or leave the link out")
            })
        };
        let pipeline = |place: &dyn Fn() -> String, switch: usize, pipeline: u16| {
            let Some(pipelines) = network.pipelines(switch).filter(|&pipelines| pipeline >= pipelines) else {
                return Ok(());
            };
            let name = &network.switches[switch].name;
            let problem = format!("pipeline {pipeline} of {name}, which has {pipelines}");
            Err(PlanError::input(place(), problem, "pipelines count from 0"))
        };
        for switch in &network.switches {
            match switch.aggregates {
                Aggregates::Beside { gbps: capacity } => {
                    gbps(&|| format!("the appliance of {}", switch.name), capacity)?;
                }
                Aggregates::Inside { pipelines: 0 } => {
                    let remedy = "a switch that aggregates has at least 1";
                    return Err(PlanError::input(&switch.name, "it has 0 pipelines", remedy));
                }
                _ => {}
            }
        }
        for link in &network.links {
            let (lower, upper) = (&network.switches[link.lower], &network.switches[link.upper]);
            let place = || format!("link {} - {}", lower.name, upper.name);
            if lower.tier.checked_add(1) != Some(upper.tier) {
                return Err(PlanError::input(
                    place(),
                    format!("it joins tiers {} and {}", lower.tier, upper.tier),
                    "links join a tier and the next one: the network must be a Clos network",
                ));
            }
            gbps(&place, link.up_gbps)?;
            gbps(&place, link.down_gbps)?;
            pipeline(&place, link.lower, link.lower_pipeline)?;
            pipeline(&place, link.upper, link.upper_pipeline)?;
        }
        for server in &network.servers {
            let place = || format!("server {}", server.name);
            gbps(&place, server.gbps)?;
            pipeline(&place, server.switch, server.pipeline)?;
        }
        Ok(())
    }
}
