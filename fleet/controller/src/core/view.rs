//! The controller's answers: placements for workers, states for people.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::{Core, Health, LeadershipView};

/// The place that a rank of a job sends to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Placement {
    /// The job.
    pub job: u16,
    /// The rank that asked.
    pub rank: u16,
    /// All ranks of the job.
    pub workers: usize,
    /// Its way in the job's first tree.
    #[serde(flatten)]
    pub way: Way,
    /// Its rank there.
    pub local_rank: usize,
    /// The number of ranks of that appliance, including appliances below it.
    pub local_ranks: usize,
    /// The job's other trees, in order: it is the same rank there. For appliances the first of them is the
    /// job with the next number, and so on.
    pub further_trees: Vec<Way>,
}

/// The place that a rank sends to in one of several trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Way {
    /// Its appliance's name.
    pub appliance: String,
    /// The appliance's address and UDP port.
    pub address: String,
    /// Addresses and UDP ports of those that have the same part ready, in the order in which a worker turns
    /// to them where its appliance is silent.
    pub backups: Vec<String>,
}

/// The state at a moment.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct View {
    /// The network's name.
    pub name: String,
    /// Which of several controllers leads.
    pub leadership: LeadershipView,
    /// Its appliances, in the file's order.
    pub appliances: Vec<ApplianceView>,
    /// Its jobs.
    pub jobs: Vec<JobView>,
    /// What happened, latest first.
    pub moves: Vec<MoveView>,
}

/// An appliance.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ApplianceView {
    /// Its name.
    pub name: String,
    /// Its switch.
    pub at: String,
    /// The address of its packets.
    pub address: String,
    /// Has no part until another one fails.
    pub spare: bool,
    /// Its state.
    pub health: Health,
    /// Since its last answer.
    pub silent_seconds: f64,
    /// Packets received per second, lately.
    pub packets_per_second: f64,
    /// Its present error.
    pub problem: Option<String>,
}

/// A job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobView {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub ranks: usize,
    /// Whether every appliance of its trees has its part, and every backup that answers.
    pub in_force: bool,
    /// Its tree; of several, the first.
    pub tree: Vec<NodeView>,
    /// Its other trees, in order.
    pub further_trees: Vec<TreeView>,
}

/// One of several trees of a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TreeView {
    /// The number of the job that it is for its appliances.
    pub id: u16,
    /// Like that of the job.
    pub in_force: bool,
    /// The tree.
    pub tree: Vec<NodeView>,
}

/// An appliance's part in a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeView {
    /// The appliance.
    pub appliance: String,
    /// The one above; none for the root.
    pub parent: Option<String>,
    /// Appliances that have the same part ready.
    pub backups: Vec<String>,
    /// Ranks of the job that send to it.
    pub ranks: Vec<u16>,
    /// Its ranks: these, and the appliances below.
    pub fan_in: usize,
    /// The job's state there: `forming`, `running` and so on; none while it does not have its part.
    pub state: Option<String>,
    /// Ranks that have joined there.
    pub joined: Option<u64>,
}

/// An event.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MoveView {
    /// How long ago.
    pub seconds_ago: f64,
    /// The event, in words.
    pub text: String,
}

impl Core {
    /// The place that a rank of a job sends to; an error in words, with the remedy, and whether asking again
    /// may help.
    ///
    /// # Errors There is no such job or rank, or its appliance does not have its part yet.
    pub fn placement(&self, job: u16, rank: u16) -> Result<Placement, (String, String, bool)> {
        let refuse = |what: String, remedy: &str, again| Err((what, remedy.to_owned(), again));
        if !self.leadership.has_read() {
            let why = self.leadership.problem().map_or(String::new(), |why| format!(": {why}"));
            let what = format!("this controller has not read its store yet{why}");
            return refuse(what, "ask again, or ask another controller", true);
        }
        let (Some(known), Some(tree)) = (self.jobs.iter().find(|own| own.id == job), self.trees.get(&job))
        else {
            return refuse(format!("no job {job}"), "GET /api/v1/status lists the jobs", false);
        };
        let Some((node, local_rank)) = tree.place(rank) else {
            let remedy = format!("it has {}, from 0 on", tree.workers());
            return refuse(format!("job {job} has no rank {rank}"), &remedy, false);
        };
        let ways: Result<Vec<Way>, String> = known.numbers().map(|number| self.way(number, rank)).collect();
        let mut ways = match ways {
            Ok(ways) => ways.into_iter(),
            Err(what) => return refuse(what, "ask again; GET /api/v1/status says what it waits for", true),
        };
        Ok(Placement {
            job,
            rank,
            workers: tree.workers(),
            way: ways.next().unwrap_or_default(),
            local_rank,
            local_ranks: tree.fan_in(node),
            further_trees: ways.collect(),
        })
    }

    /// The place that a rank sends to in the tree of this number; or why there is none yet.
    fn way(&self, number: u16, rank: u16) -> Result<Way, String> {
        let place = self.trees.get(&number).and_then(|tree| tree.place(rank));
        let (node, _) = place.ok_or_else(|| format!("rank {rank} has no place in job {number} yet"))?;
        let has = |&at: &usize| self.seen[at].in_force.contains_key(&number);
        let at = self.network.appliance(&node.appliance).filter(has);
        let at = at.ok_or_else(|| format!("appliance {} does not have job {number} yet", node.appliance))?;
        Ok(Way {
            appliance: node.appliance.clone(),
            address: self.network.appliances[at].address.to_string(),
            backups: node.backups.iter().filter_map(|name| self.address(name)).collect(),
        })
    }

    fn address(&self, appliance: &str) -> Option<String> {
        self.network.named(appliance).map(|it| it.address.to_string())
    }

    /// The state at this moment.
    pub fn view(&self, now: Duration) -> View {
        let appliances =
            self.network.appliances.iter().zip(&self.seen).map(|(appliance, seen)| ApplianceView {
                name: appliance.name.clone(),
                at: self.network.switches[appliance.at].name.clone(),
                address: appliance.address.to_string(),
                spare: appliance.spare,
                health: seen.health,
                silent_seconds: now.saturating_sub(seen.heard).as_secs_f64(),
                packets_per_second: seen.rate,
                problem: seen.problem.clone(),
            });
        let moves = self.moves.iter().rev();
        let moves =
            moves.map(|it| MoveView { seconds_ago: now.as_secs_f64() - it.at, text: it.text.clone() });
        View {
            name: self.name.clone(),
            leadership: self.leadership.view(),
            appliances: appliances.collect(),
            jobs: self.jobs.iter().map(|job| self.job_view(job)).collect(),
            moves: moves.collect(),
        }
    }

    fn job_view(&self, job: &crate::Job) -> JobView {
        let mut trees = job.numbers().map(|number| self.tree_view(number));
        let (in_force, tree) = trees.next().map_or((false, Vec::new()), |first| (first.in_force, first.tree));
        let further_trees: Vec<TreeView> = trees.collect();
        let in_force = in_force && further_trees.iter().all(|tree| tree.in_force);
        JobView { id: job.id, name: job.name.clone(), ranks: job.ranks.len(), in_force, tree, further_trees }
    }

    fn tree_view(&self, id: u16) -> TreeView {
        let tree = self.trees.get(&id).cloned().unwrap_or_default();
        let node = |node: &crate::Node| {
            let at = self.network.appliance(&node.appliance);
            let found = at.and_then(|at| self.seen[at].in_force.get(&id));
            NodeView {
                appliance: node.appliance.clone(),
                parent: node.parent.clone(),
                backups: node.backups.clone(),
                ranks: node.ranks.clone(),
                fan_in: tree.fan_in(node),
                state: found.map(|(state, _)| state.clone()),
                joined: found.map(|(_, joined)| *joined),
            }
        };
        let nodes: Vec<NodeView> = tree.nodes.iter().map(node).collect();
        let ready = |name: &String| {
            let ready =
                |at: usize| self.seen[at].health != Health::Up || self.seen[at].in_force.contains_key(&id);
            self.network.appliance(name).is_none_or(ready)
        };
        let backed = nodes.iter().flat_map(|node| &node.backups).all(ready);
        let in_force = backed && !nodes.is_empty() && nodes.iter().all(|node| node.state.is_some());
        TreeView { id, in_force, tree: nodes }
    }

    /// The host of a rank.
    pub(crate) fn host_of(&self, job: u16, rank: u16) -> Option<usize> {
        self.job(job)?.ranks.get(usize::from(rank)).copied()
    }
}
