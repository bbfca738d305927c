//! From numbers of flows to the path of every worker (ARO, section III.D and Algorithm 1).

use std::collections::HashMap;

use crate::PlanError;
use crate::model::{Aggregates, Channel, End, Flows, Instance, Network, Task};
use crate::plan::TaskPlan;
use crate::replay::count;

/// A place where flows meet and become one: from there on all have one way.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum Meeting {
    Pipeline(usize, u16),
    Appliance(usize),
}

/// Budgets of one task: how many flows each switch may still send over each of its channels.
pub(crate) struct Budgets {
    left: HashMap<usize, Flows>,
}

impl Budgets {
    /// Channels between switches, and to appliances, with the flows that a solver found for them.
    pub(crate) fn new(network: &Network, flows: impl IntoIterator<Item = (Channel, u32)>) -> Self {
        let mut left: HashMap<usize, Flows> = HashMap::new();
        for (channel, number) in flows {
            if let (End::Switch { switch, .. }, true) = (network.ends(channel).0, number > 0) {
                left.entry(switch).or_default().push((channel, number));
            }
        }
        Self { left }
    }

    /// The next channel from a switch with a flow left, an appliance's first.
    fn take(&mut self, network: &Network, switch: usize, direct: bool) -> Option<Channel> {
        let channels = self.left.get_mut(&switch)?;
        let appliance = network.to_appliance(switch);
        let at = channels.iter().position(|&(channel, left)| left > 0 && (channel == appliance) != direct)?;
        channels[at].1 -= 1;
        Some(channels[at].0)
    }
}

/// Walks every worker to its parameter server along channels with flows left. A worker that reaches a
/// pipeline or an appliance from which an earlier one left follows its path.
///
/// # Errors
///
/// [`PlanError::Refused`] if the numbers of flows do not lead a worker to its parameter server.
pub(crate) fn routes(
    instance: &Instance,
    task: &Task,
    rate: f64,
    mut budgets: Budgets,
) -> Result<TaskPlan, PlanError> {
    let network = &instance.network;
    let mut known = HashMap::new();
    let paths = (task.workers.iter())
        .map(|&worker| walk(network, task, worker, &mut budgets, &mut known))
        .collect::<Result<_, _>>()?;
    let mut planned = TaskPlan { rate, flows: Vec::new(), paths };
    planned.flows = count(network, task, &planned).map_err(PlanError::Refused)?;
    Ok(planned)
}

fn walk(
    network: &Network,
    task: &Task,
    worker: usize,
    budgets: &mut Budgets,
    known: &mut HashMap<Meeting, Vec<Channel>>,
) -> Result<Vec<Channel>, PlanError> {
    let mut path = vec![network.from_server(worker)];
    let mut met = Vec::new();
    loop {
        let (from, here) = network.ends(path[path.len() - 1]);
        let (switch, meeting) = match here {
            End::Server(_) => break,
            End::Appliance(switch) => (switch, Some(Meeting::Appliance(switch))),
            End::Switch { switch, pipeline } => {
                (switch, network.pipelines(switch).map(|_| Meeting::Pipeline(switch, pipeline)))
            }
        };
        if let Some(meeting) = meeting {
            if let Some(rest) = known.get(&meeting) {
                path.extend_from_slice(rest);
                break;
            }
            met.push((meeting, path.len()));
        }
        let detour = matches!(network.switches[switch].aggregates, Aggregates::Beside { .. })
            && !matches!(from, End::Appliance(_));
        let next = match here {
            End::Appliance(_) => Some(network.from_appliance(switch)),
            _ if detour && budgets.take(network, switch, false).is_some() => {
                Some(network.to_appliance(switch))
            }
            _ if switch == network.servers[task.server].switch => Some(network.to_server(task.server)),
            _ => budgets.take(network, switch, true),
        };
        path.push(next.ok_or_else(|| {
            let (worker, switch) = (&network.servers[worker].name, &network.switches[switch].name);
            PlanError::Refused(format!("the flows of task {} leave {worker} at {switch}", task.name))
        })?);
    }
    for (meeting, from) in met {
        known.insert(meeting, path[from..].to_vec());
    }
    Ok(path)
}
