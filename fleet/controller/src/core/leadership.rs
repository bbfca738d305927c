//! Which of several controllers leads, and what followers must not do.
//!
//! The leader leads until a time that its store names. Then it stops by itself, even if it has not learned
//! that another one leads by now: a controller that was held up checks the clock first.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::{Core, Method, Note, Stored};
use crate::tree::Tree;

/// This controller's standing among others, by its store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Until when it leads. None: it follows.
    pub leads_until: Option<Duration>,
    /// The number of the term: no two terms have the same.
    pub term: i64,
    /// The leader, if known.
    pub leader: Option<String>,
    /// Why the store cannot be used now.
    pub problem: Option<String>,
}

/// The leader of several controllers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeadershipView {
    /// This controller's name among those with the same store; none if it is the only one.
    pub member: Option<String>,
    /// Whether it leads: pushes parts to appliances, and gives the parts of those that fail to others.
    pub leads: bool,
    /// The leader, if known.
    pub leader: Option<String>,
    /// Why its store cannot be used now.
    pub problem: Option<String>,
}

/// The core's state of leadership.
#[derive(Debug, Clone, Default)]
pub(super) struct Leadership {
    member: Option<String>,
    standing: Standing,
    /// Until when it leads.
    until: Option<Duration>,
    /// Whether the stored state has been read.
    read: bool,
    /// A tree was passed to the store, which has not confirmed it.
    unconfirmed: bool,
}

impl Leadership {
    pub(super) fn of(member: Option<&str>) -> Self {
        Self { member: member.map(str::to_owned), ..Self::default() }
    }

    pub(super) fn leads(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn has_read(&self) -> bool {
        self.read
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.standing.problem.as_deref()
    }

    pub(super) fn view(&self) -> LeadershipView {
        let leader = if self.leads() { &self.member } else { &self.standing.leader };
        LeadershipView {
            member: self.member.clone(),
            leads: self.leads(),
            leader: leader.clone(),
            problem: self.standing.problem.clone(),
        }
    }
}

impl Core {
    /// The leader, as far as is known.
    pub fn leadership(&self) -> LeadershipView {
        self.leadership.view()
    }

    /// Whether it leads now.
    pub fn leads(&mut self, now: Duration) -> bool {
        if self.leadership.until.is_some_and(|until| now >= until) {
            self.follow();
        }
        self.leadership.leads()
    }

    /// Notes its standing. Returns whether it has to read the stored state, and call [`Core::lead`], to keep
    /// leading.
    pub fn set_standing(&mut self, standing: Standing, now: Duration) -> bool {
        // The other threads may be waiting for silent appliances.
        self.wakes(now);
        let same = standing.term == self.leadership.standing.term;
        let until = standing.leads_until.filter(|&until| now < until);
        self.leadership.standing = standing;
        match until {
            // The state of an earlier term must not be taken for this one's.
            Some(until) if same && self.leads(now) => self.leadership.until = Some(until),
            Some(_) => {
                self.follow();
                return true;
            }
            None => self.follow(),
        }
        false
    }

    /// Leads from the stored state. An unchanged job keeps its tree.
    pub fn lead(&mut self, stored: Stored, until: Duration, now: Duration) {
        self.follow();
        self.leadership.until = Some(until);
        self.waiting.clear();
        self.settle(stored, now);
    }

    /// Takes over the state that another one has stored, without leading.
    pub fn learn(&mut self, stored: Stored, now: Duration) {
        if !self.leadership.leads() {
            self.settle(stored, now);
        }
    }

    /// Takes over the stored state, and plans missing trees.
    fn settle(&mut self, Stored { trees, pushed, moves }: Stored, now: Duration) {
        let leads = self.leadership.leads();
        self.leadership.read = true;
        self.unsettled = true;
        (self.pushed, self.moves) = (pushed, moves.into());
        if let Some(member) = self.leadership.member.as_ref().filter(|_| leads) {
            self.moved(now, format!("controller {member} leads"));
        }
        for job in self.jobs.clone() {
            let may = |at: usize| !self.network.appliances[at].spare;
            // The file has been checked with the same appliances.
            let Ok(planned) = job.all_trees(&self.network, &may) else { continue };
            let made_for = self.made_for(&job, &planned);
            let known = |number: u16| {
                let (known, tree) = trees.get(&number)?;
                // A follower may have a newer file: the leader's trees are in force.
                let holds = (*known == made_for || !leads)
                    && tree.nodes.iter().all(|node| self.network.appliance(&node.appliance).is_some());
                holds.then(|| tree.clone())
            };
            // All trees or none: a worker has the same rank in each.
            let kept: Option<Vec<Tree>> = job.numbers().map(known).collect();
            let is_new = kept.is_none() && leads;
            if kept.is_none() && !leads {
                // The pushed parts belong to another tree than the one planned here.
                self.pushed.retain(|(_, number), _| job.numbers().all(|own| own != *number));
            }
            for (number, mut tree) in job.numbers().zip(kept.unwrap_or(planned)) {
                for node in tree.nodes.iter_mut().filter(|_| leads) {
                    // The file may have changed.
                    node.backups.retain(|name| job.backups && self.network.appliance(name).is_some());
                    node.gathering &= job.backups;
                }
                if is_new {
                    self.notes.push(Note::Tree(number, made_for.clone(), tree.clone()));
                    self.propose(now, format!("job {number}: planned over {} appliances", tree.nodes.len()));
                }
                if self.trees.get(&number) != Some(&tree) {
                    self.seen.iter_mut().for_each(|seen| drop(seen.in_force.remove(&number)));
                    self.trees.insert(number, tree);
                }
            }
        }
        for at in 0..self.seen.len() {
            self.again(at, now);
        }
        if leads {
            self.back_up(now);
        }
    }

    /// Stops pushing. Decisions that are not stored were never made.
    fn follow(&mut self) {
        self.leadership.until = None;
        self.leadership.unconfirmed = false;
        self.notes.clear();
        for seen in &mut self.seen {
            seen.queue.retain(|ask| ask.method == Method::Get);
        }
    }

    /// The notes for the store that were made since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.leadership.unconfirmed |= self.notes.iter().any(is_tree);
        core::mem::take(&mut self.notes)
    }

    /// The store has all notes that were taken: these.
    pub fn remembered(&mut self, notes: &[Note]) {
        self.leadership.unconfirmed = false;
        for note in notes {
            if let Note::Moved(decided) = note
                && !self.moves.contains(decided)
            {
                self.show(decided.clone());
            }
        }
    }

    /// Whether a tree is not in the store yet. Nothing is pushed before: the next leader must know it.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.leadership.unconfirmed || self.notes.iter().any(is_tree)
    }
}

fn is_tree(note: &Note) -> bool {
    matches!(note, Note::Tree(..))
}
