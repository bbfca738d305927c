//! Trees found by `pascaline-fleet plan --json`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::config::Job;
use crate::network::Network;
use crate::tree::{Planner, Refusal, Tree};

const BESIDE: &str = "'s appliance";

/// The keys read from a plan: each worker's way, with the appliances on it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Plan {
    tasks: Vec<Task>,
}

#[derive(Debug, Clone, Deserialize)]
struct Task {
    job: String,
    routes: BTreeMap<String, Vec<String>>,
}

impl Plan {
    /// Reads the output of `pascaline-fleet plan --json`.
    pub(crate) fn read(text: &str) -> Result<Self, Refusal> {
        serde_json::from_str(text).map_err(|error| {
            let message = format!("this is no output of `pascaline-fleet plan --json`: {error}");
            Refusal::new(message, "write it anew: pascaline-fleet plan FILE --json > PLAN")
        })
    }

    /// The appliances on the way of each rank's gradients.
    fn ways(&self, network: &Network, job: &Job) -> Result<Vec<Vec<usize>>, Refusal> {
        let mut tasks = self.tasks.iter().filter(|task| task.job == job.name);
        let (Some(task), None) = (tasks.next(), tasks.next()) else {
            let message = format!("the plan does not have one task of a job {:?}", job.name);
            return Err(Refusal::new(message, "give the job the plan's name, and one task there"));
        };
        let way = |&host: &usize| {
            let name = &network.hosts[host].name;
            let route = task.routes.get(name).ok_or_else(|| {
                let message = format!("the plan has no route of host {name:?}");
                Refusal::new(message, "plan for all hosts of the job, under the names that they have here")
            })?;
            let switches = route.iter().filter_map(|hop| hop.strip_suffix(BESIDE));
            let way: Vec<usize> = switches.map(|switch| beside(network, switch)).collect::<Result<_, _>>()?;
            if way.is_empty() {
                let message = format!("in the plan no appliance is on the way of host {name:?}");
                return Err(Refusal::new(message, "plan with appliances beside switches (appliance_gbps)"));
            }
            Ok(way)
        };
        job.ranks.iter().map(way).collect()
    }
}

fn beside(network: &Network, switch: &str) -> Result<usize, Refusal> {
    let here = |at: &usize| {
        let appliance = &network.appliances[*at];
        !appliance.spare && network.switches[appliance.at].name == switch
    };
    (0..network.appliances.len()).find(here).ok_or_else(|| {
        let message = format!("the plan uses an appliance at switch {switch:?}, and there is none here");
        Refusal::new(message, "give [[appliances]] the plan's switch as `at`")
    })
}

impl Planner for Plan {
    fn plan(&self, network: &Network, job: &Job, may: &dyn Fn(usize) -> bool) -> Result<Tree, Refusal> {
        let ways = self.ways(network, job)?;
        if let Some(&down) = ways.iter().flatten().find(|&&at| !may(at)) {
            let message = format!("appliance {:?} of the plan is not there", network.appliances[down].name);
            let remedy = "start it, add one with spare = true, or plan anew without it";
            return Err(Refusal::new(message, remedy));
        }
        let edges: BTreeSet<(usize, usize)> =
            ways.iter().flat_map(|way| way.windows(2).map(|pair| (pair[0], pair[1]))).collect();
        let places: Vec<usize> = ways.iter().map(|way| way[0]).collect();
        Tree::build(network, &edges, &places)
    }
}
