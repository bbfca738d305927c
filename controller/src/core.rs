//! What the controller decides. It does no I/O: it says what to ask, and is told answers and times.

mod failover;
mod push;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::config::{Config, Job};
use crate::network::Network;
use crate::tree::Tree;

pub(crate) use self::view::ApplianceView;
pub use self::view::{Placement, View};

/// Moves that are remembered.
const MOVES: usize = 200;

/// A request to an appliance's admin API.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Which appliance, by its place in the network.
    pub appliance: usize,
    /// How.
    pub method: Method,
    /// Below the API's address.
    pub path: String,
    /// JSON.
    pub body: Option<Value>,
    purpose: Purpose,
}

/// Of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Look.
    Get,
    /// Make.
    Post,
    /// Change.
    Patch,
    /// Remove.
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Look,
    Load,
    Read(u16),
    Create(u16),
    Change(u16),
    Remove(u16),
}

/// The next request to an appliance.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Ask, and tell [`Core::answered`].
    Ask(Ask),
    /// Nothing before this time.
    Wait(Duration),
}

/// How an appliance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It has not been heard yet.
    Unknown,
    /// It answers.
    Up,
    /// It has been silent for too long.
    Down,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// When, in seconds of the core's clock; before its start they are negative.
    pub at: f64,
    /// What, in words.
    pub text: String,
}

/// What has to be remembered across a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A job's tree; and what it was made for.
    Tree(u16, String, Tree),
    /// What an appliance was told of a job; none if it was told to forget it.
    Pushed(String, u16, Option<Value>),
    /// Something has happened.
    Moved(Move),
}

/// What was remembered.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Of each job: what its tree was made for, and the tree.
    pub trees: BTreeMap<u16, (String, Tree)>,
    /// What each appliance was told of each job.
    pub pushed: BTreeMap<(String, u16), Value>,
    /// The latest moves, oldest first.
    pub moves: Vec<Move>,
}

/// An appliance as it was last seen.
#[derive(Debug)]
struct Seen {
    health: Health,
    /// When it last answered, or the core began.
    heard: Duration,
    look_at: Duration,
    queue: VecDeque<Ask>,
    problem: Option<String>,
    /// Jobs that are there as they should be: state, ranks that have joined.
    in_force: BTreeMap<u16, (String, u64)>,
    packets: Option<(Duration, u64)>,
    /// Packets in a second.
    rate: f64,
}

/// The controller's mind.
#[derive(Debug)]
pub struct Core {
    name: String,
    network: Network,
    jobs: Vec<Job>,
    interval: Duration,
    down_after: Duration,
    trees: BTreeMap<u16, Tree>,
    pushed: BTreeMap<(String, u16), Value>,
    seen: Vec<Seen>,
    /// Jobs and appliances for whose part nobody was found; said once.
    waiting: BTreeSet<(u16, String)>,
    moves: VecDeque<Move>,
    notes: Vec<Note>,
}

impl Core {
    /// Begins with what was remembered: a job that is as it was keeps its tree. Nothing is believed of the
    /// appliances before they have been asked.
    pub fn new(config: &Config, stored: Stored, now: Duration) -> Self {
        let seen = |_| Seen {
            health: Health::Unknown,
            heard: now,
            look_at: now,
            queue: VecDeque::new(),
            problem: None,
            in_force: BTreeMap::new(),
            packets: None,
            rate: 0.0,
        };
        let mut core = Self {
            name: config.name.clone(),
            network: config.network.clone(),
            jobs: config.jobs.clone(),
            interval: config.interval,
            down_after: config.down_after,
            trees: BTreeMap::new(),
            pushed: stored.pushed,
            seen: (0..config.network.appliances.len()).map(seen).collect(),
            waiting: BTreeSet::new(),
            moves: stored.moves.into(),
            notes: Vec::new(),
        };
        for job in &config.jobs {
            let may = |at: usize| !config.network.appliances[at].spare;
            // The file has been checked with the same appliances.
            let Ok(planned) = job.tree(&config.network, &may) else { continue };
            let made_for = core.made_for(job, &planned);
            let kept = stored.trees.get(&job.id).filter(|(known, tree)| {
                *known == made_for
                    && tree.nodes.iter().all(|node| core.network.appliance(&node.appliance).is_some())
            });
            let tree = kept.map_or(planned, |(_, tree)| tree.clone());
            if kept.is_none() {
                core.notes.push(Note::Tree(job.id, made_for, tree.clone()));
                core.moved(now, format!("job {}: planned over {} appliances", job.id, tree.nodes.len()));
            }
            core.trees.insert(job.id, tree);
        }
        core
    }

    /// What a job's tree depends on, as text.
    fn made_for(&self, job: &Job, planned: &Tree) -> String {
        let hosts: Vec<&str> = job.ranks.iter().map(|&host| self.network.hosts[host].name.as_str()).collect();
        // A tree is a list of texts and numbers: it cannot fail.
        serde_json::to_string(&(hosts, planned)).unwrap_or_default()
    }

    /// How many appliances there are.
    pub fn appliances(&self) -> usize {
        self.seen.len()
    }

    /// The notes for the store that were made since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        core::mem::take(&mut self.notes)
    }

    /// What to do for an appliance now.
    pub fn next(&mut self, appliance: usize, now: Duration) -> Next {
        self.watch(now);
        let interval = self.interval;
        let Some(seen) = self.seen.get_mut(appliance) else { return Next::Wait(now + interval) };
        if let Some(ask) = seen.queue.pop_front() {
            return Next::Ask(ask);
        }
        if now < seen.look_at {
            return Next::Wait(seen.look_at);
        }
        seen.look_at = now + interval;
        Next::Ask(Ask::get(appliance, "/api/v1/jobs".to_owned(), Purpose::Look))
    }

    /// What has come of a request: status and JSON, or why there is no answer.
    pub fn answered(&mut self, ask: &Ask, answer: Result<(u16, Value), String>, now: Duration) {
        match answer {
            Err(why) => {
                if let Some(seen) = self.seen.get_mut(ask.appliance) {
                    seen.queue.clear();
                    seen.problem = Some(why);
                }
            }
            Ok((status, body)) => self.heard(ask, status, &body, now),
        }
        self.watch(now);
    }

    fn moved(&mut self, now: Duration, text: String) {
        let moved = Move { at: now.as_secs_f64(), text };
        self.notes.push(Note::Moved(moved.clone()));
        self.moves.push_back(moved);
        if self.moves.len() > MOVES {
            self.moves.pop_front();
        }
    }

    fn job(&self, id: u16) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }
}

impl Ask {
    fn get(appliance: usize, path: String, purpose: Purpose) -> Self {
        Self { appliance, method: Method::Get, path, body: None, purpose }
    }
}
