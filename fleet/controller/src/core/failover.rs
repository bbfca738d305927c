//! Giving the parts of failed appliances to others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Core, HELD_UP, Health, Note};
use crate::tree::Tree;

impl Core {
    /// Finds appliances that have been silent for too long, and replacements for their parts.
    pub(super) fn watch(&mut self, now: Duration) {
        self.wakes(now);
        let leads = self.leads(now);
        for at in 0..self.seen.len() {
            let seen = &mut self.seen[at];
            if seen.health != Health::Down && now.saturating_sub(seen.heard) >= self.down_after {
                seen.health = Health::Down;
                self.unsettled = true;
                seen.queue.clear();
                seen.in_force.clear();
                seen.rate = 0.0;
                let silent = humantime::format_duration(self.down_after);
                let name = &self.network.appliances[at].name;
                self.moved(now, format!("appliance {name} has not answered for {silent}"));
            }
        }
        // Each thread calls this many times a second; the rest walks all jobs and all appliances.
        if !leads || !core::mem::take(&mut self.unsettled) {
            return;
        }
        // Only now are the remaining appliances known.
        for at in 0..self.seen.len() {
            if self.seen[at].health == Health::Down {
                self.reassign_parts(at, now);
            }
        }
        self.back_up(now);
    }

    /// A stalled process has received no answers meanwhile: that is no silence of the appliances.
    pub(super) fn wakes(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.awake);
        self.awake = self.awake.max(now);
        for seen in self.seen.iter_mut().filter(|_| gap > HELD_UP) {
            seen.heard = now.min(seen.heard + gap);
        }
    }

    /// Every job's part of an appliance goes to another one, or the tree is planned anew without it.
    fn reassign_parts(&mut self, failed: usize, now: Duration) {
        let name = self.network.appliances[failed].name.clone();
        let jobs: Vec<u16> =
            self.trees.iter().filter(|(_, tree)| tree.node(&name).is_some()).map(|(id, _)| *id).collect();
        for job in jobs {
            // Another tree of the same job may have been the reason to plan this one anew.
            if self.trees.get(&job).is_none_or(|tree| tree.node(&name).is_none()) {
                continue;
            }
            if let Some(by) = self.standing_by(&name, job).or_else(|| self.replacement(failed, job)) {
                let by = self.network.appliances[by].name.clone();
                self.take_part(job, &name, &by);
                self.propose(now, format!("job {job}: {by} takes the part of {name}, every rank as it was"));
                self.changed(job, now);
            } else if let Some(trees) = self.without(job) {
                let over = trees.values().map(|tree| tree.nodes.len()).max().unwrap_or(0);
                self.propose(now, format!("job {job}: planned anew without {name}, over {over} appliances"));
                for (number, tree) in trees {
                    self.trees.insert(number, tree);
                    self.changed(number, now);
                }
            } else if self.waiting.insert((job, name.clone())) {
                self.moved(now, format!("job {job}: no appliance can take the part of {name}: it waits"));
            }
        }
    }

    /// The nearest appliance that answers and has no part in the job: spare ones first, and last those that
    /// stand by for others.
    fn replacement(&self, failed: usize, job: u16) -> Option<usize> {
        let (network, tree) = (&self.network, self.trees.get(&job)?);
        let node = tree.node(&network.appliances[failed].name)?;
        let may = |at: usize| {
            let name = &network.appliances[at].name;
            let up = self.seen[at].health == Health::Up;
            up && tree.node(name).is_none() && self.can_take(tree, node, at)
        };
        let free = |at: usize| may(at) && tree.part(&network.appliances[at].name).is_none();
        let switch = network.appliances[failed].at;
        let spare = network.nearest(switch, |at| free(at) && network.appliances[at].spare);
        spare.or_else(|| network.nearest(switch, free)).or_else(|| network.nearest(switch, may))
    }

    /// Other trees for all of a job, of appliances that are not down: a worker has one rank for all of them.
    fn without(&self, job: u16) -> Option<BTreeMap<u16, Tree>> {
        let may = |at: usize| self.seen[at].health != Health::Down && !self.network.appliances[at].spare;
        let known = self.job(job)?;
        let trees = known.all_trees(&self.network, &may).ok()?;
        let linked = trees.iter().all(|tree| tree.check_links(&self.network).is_ok());
        let trees: BTreeMap<u16, Tree> = known.numbers().zip(trees).collect();
        (linked && trees.get(&job) != self.trees.get(&job)).then_some(trees)
    }

    /// A job has another tree, or the same one with other backups: all appliances are checked and updated.
    pub(super) fn changed(&mut self, job: u16, now: Duration) {
        self.unsettled = true;
        self.waiting.retain(|(waiting, _)| *waiting != job);
        for at in 0..self.seen.len() {
            self.seen[at].queue.clear();
            self.seen[at].in_force.remove(&job);
            self.again(at, now);
        }
        self.decided(job);
    }

    /// Notes a job's present tree for the store.
    pub(super) fn decided(&mut self, number: u16) {
        let (Some(job), Some(tree)) = (self.job(number), self.trees.get(&number)) else { return };
        let may = |at: usize| !self.network.appliances[at].spare;
        let Ok(planned) = job.all_trees(&self.network, &may) else { return };
        self.notes.push(Note::Tree(number, self.made_for(job, &planned), tree.clone()));
    }
}
