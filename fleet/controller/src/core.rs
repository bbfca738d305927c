//! The controller's decisions. It does no I/O: requests come out, answers and times go in.

mod backup;
mod failover;
mod leadership;
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

use self::leadership::Leadership;
pub use self::leadership::{LeadershipView, Standing};
pub(crate) use self::view::{ApplianceView, JobView};
pub use self::view::{NodeView, Placement, View, Way};

/// The number of moves remembered.
pub(crate) const MOVES: usize = 200;
/// When to check again whether the store has confirmed a tree.
const SOON: Duration = Duration::from_millis(10);
/// The core is polled several times within this interval; a longer gap means the process was stalled.
const HELD_UP: Duration = Duration::from_millis(250);

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
    /// Send this request, and pass its answer to [`Core::answered`].
    Ask(Ask),
    /// No request before this time.
    Wait(Duration),
}

/// An appliance's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It has not answered yet.
    Unknown,
    /// It answers.
    Up,
    /// It has been silent for too long.
    Down,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// When, in seconds of the core's clock; before its start they are negative.
    pub at: f64,
    /// The event, in words.
    pub text: String,
}

/// A change that has to be remembered across a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A tree by its number, with its inputs.
    Tree(u16, String, Tree),
    /// The part of a job that was pushed to an appliance; none after its removal.
    Pushed(String, u16, Option<Value>),
    /// An event.
    Moved(Move),
}

/// The stored state.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// By a tree's number: its inputs, and the tree.
    pub trees: BTreeMap<u16, (String, Tree)>,
    /// The part of each job that was pushed to each appliance.
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
    /// Jobs that are as configured: state, ranks that have joined.
    in_force: BTreeMap<u16, (String, u64)>,
    packets: Option<(Duration, u64)>,
    /// Packets in a second.
    rate: f64,
}

/// The controller's state and decisions.
#[derive(Debug)]
pub struct Core {
    name: String,
    pub(crate) network: Network,
    jobs: Vec<Job>,
    interval: Duration,
    down_after: Duration,
    /// By their numbers: a job has as many of these as trees, from its own on.
    trees: BTreeMap<u16, Tree>,
    pushed: BTreeMap<(String, u16), Value>,
    seen: Vec<Seen>,
    /// Jobs and appliances whose part no other appliance can take; reported once.
    waiting: BTreeSet<(u16, String)>,
    moves: VecDeque<Move>,
    notes: Vec<Note>,
    leadership: Leadership,
    /// Time of the last call.
    awake: Duration,
    /// Whether an appliance's health or a tree has changed since parts and backups were last checked.
    unsettled: bool,
}

impl Core {
    /// Alone with its store: it leads, from the stored state.
    pub fn new(config: &Config, stored: Stored, now: Duration) -> Self {
        let mut core = Self::following(config, None, now);
        core.lead(stored, Duration::MAX, now);
        core
    }

    /// Begins without leading. `member` is its name among several controllers. The state of appliances is
    /// unknown until they have been asked.
    pub fn following(config: &Config, member: Option<&str>, now: Duration) -> Self {
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
        Self {
            name: config.name.clone(),
            network: config.network.clone(),
            jobs: config.jobs.clone(),
            interval: config.interval,
            down_after: config.down_after,
            trees: BTreeMap::new(),
            pushed: BTreeMap::new(),
            seen: (0..config.network.appliances.len()).map(seen).collect(),
            waiting: BTreeSet::new(),
            moves: VecDeque::new(),
            notes: Vec::new(),
            leadership: Leadership::of(member),
            awake: now,
            unsettled: true,
        }
    }

    /// The inputs of a job's trees, as text.
    fn made_for(&self, job: &Job, planned: &[Tree]) -> String {
        let hosts: Vec<&str> = job.ranks.iter().map(|&host| self.network.hosts[host].name.as_str()).collect();
        // A tree is a list of texts and numbers: it cannot fail. A single one keeps its old form, so that
        // older stores can still be read.
        match planned {
            [one] => serde_json::to_string(&(hosts, one)),
            all => serde_json::to_string(&(hosts, all)),
        }
        .unwrap_or_default()
    }

    /// The number of appliances.
    pub fn appliances(&self) -> usize {
        self.seen.len()
    }

    /// The next request to an appliance.
    pub fn next(&mut self, appliance: usize, now: Duration) -> Next {
        self.watch(now);
        let interval = self.interval;
        let unconfirmed = self.is_unconfirmed();
        let Some(seen) = self.seen.get_mut(appliance) else { return Next::Wait(now + interval) };
        let held = unconfirmed && seen.queue.front().is_some_and(|ask| ask.method != Method::Get);
        if !held && let Some(ask) = seen.queue.pop_front() {
            return Next::Ask(ask);
        }
        if now < seen.look_at {
            return Next::Wait(if held { seen.look_at.min(now + SOON) } else { seen.look_at });
        }
        seen.look_at = now + interval;
        Next::Ask(Ask::get(appliance, "/api/v1/jobs".to_owned(), Purpose::Look))
    }

    /// The answer to a request: status and JSON, or the error.
    pub fn answered(&mut self, ask: &Ask, answer: Result<(u16, Value), String>, now: Duration) {
        match answer {
            Err(why) => {
                if let Some(seen) = self.seen.get_mut(ask.appliance) {
                    seen.queue.clear();
                    seen.problem = Some(why);
                }
            }
            Ok((status, body)) => self.note_answer(ask, status, &body, now),
        }
        self.watch(now);
    }

    /// Notes an event. Only the leader records events: a follower shows the leader's.
    fn moved(&mut self, now: Duration, text: String) {
        if let Some(moved) = self.propose(now, text) {
            self.show(moved);
        }
    }

    /// Proposes a decision. It counts, and is shown, once the store has its tree.
    fn propose(&mut self, now: Duration, text: String) -> Option<Move> {
        let moved = Move { at: now.as_secs_f64(), text };
        self.leadership.leads().then(|| {
            self.notes.push(Note::Moved(moved.clone()));
            moved
        })
    }

    /// Inserts a move in the order of times.
    fn show(&mut self, moved: Move) {
        let place = self.moves.iter().rposition(|other| other.at <= moved.at).map_or(0, |at| at + 1);
        self.moves.insert(place, moved);
        if self.moves.len() > MOVES {
            self.moves.pop_front();
        }
    }

    /// The job that has a tree of this number.
    fn job(&self, number: u16) -> Option<&Job> {
        self.jobs.iter().find(|job| job.numbers().any(|own| own == number))
    }
}

impl Ask {
    fn get(appliance: usize, path: String, purpose: Purpose) -> Self {
        Self { appliance, method: Method::Get, path, body: None, purpose }
    }
}
