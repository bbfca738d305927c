//! Who takes the part of an appliance that has failed.

use std::time::Duration;

use super::{Core, Health, Note};

impl Core {
    /// Finds appliances that have been silent for too long, and somebody for their parts.
    pub(super) fn watch(&mut self, now: Duration) {
        let leads = self.leads(now);
        for at in 0..self.seen.len() {
            let seen = &mut self.seen[at];
            if seen.health != Health::Down && now.saturating_sub(seen.heard) >= self.down_after {
                seen.health = Health::Down;
                seen.queue.clear();
                seen.in_force.clear();
                seen.rate = 0.0;
                let (name, silent) = (&self.network.appliances[at].name, self.down_after);
                let text =
                    format!("appliance {name} has not answered for {}", humantime::format_duration(silent));
                self.moved(now, text);
            }
        }
        // Only now is it known who is left.
        for at in 0..self.seen.len() {
            if leads && self.seen[at].health == Health::Down {
                self.give_away(at, now);
            }
        }
        if leads {
            self.back_up(now);
        }
    }

    /// Every job's part of an appliance goes to another one, or the tree is planned anew without it.
    fn give_away(&mut self, failed: usize, now: Duration) {
        let name = self.network.appliances[failed].name.clone();
        let jobs: Vec<u16> =
            self.trees.iter().filter(|(_, tree)| tree.node(&name).is_some()).map(|(id, _)| *id).collect();
        for job in jobs {
            if let Some(by) = self.standing_by(&name, job).or_else(|| self.stand_in(failed, job)) {
                let by = self.network.appliances[by].name.clone();
                let text = format!("job {job}: {by} takes the part of {name}, every rank as it was");
                self.take_part(job, &name, &by);
                self.changed(job, now, text);
            } else if let Some(tree) = self.without(job) {
                let text =
                    format!("job {job}: planned anew without {name}, over {} appliances", tree.nodes.len());
                self.trees.insert(job, tree);
                self.changed(job, now, text);
            } else if self.waiting.insert((job, name.clone())) {
                self.moved(now, format!("job {job}: nobody can take the part of {name}: it waits for it"));
            }
        }
    }

    /// The nearest appliance that answers and has no part in the job: spare ones first, and at last those
    /// that stand by for others.
    fn stand_in(&self, failed: usize, job: u16) -> Option<usize> {
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

    /// Another tree, of those that are not down.
    fn without(&self, job: u16) -> Option<crate::Tree> {
        let may = |at: usize| self.seen[at].health != Health::Down && !self.network.appliances[at].spare;
        let tree = self.job(job)?.tree(&self.network, &may).ok()?;
        (tree.check_links(&self.network).is_ok() && Some(&tree) != self.trees.get(&job)).then_some(tree)
    }

    /// A job has another tree, or the same one with other backups: everybody is looked at, and told.
    pub(super) fn changed(&mut self, job: u16, now: Duration, text: String) {
        self.waiting.retain(|(waiting, _)| *waiting != job);
        self.moved(now, text);
        for at in 0..self.seen.len() {
            self.seen[at].queue.clear();
            self.seen[at].in_force.remove(&job);
            self.again(at, now);
        }
        self.decided(job);
    }

    /// A job's tree is to be remembered as it is now.
    pub(super) fn decided(&mut self, job: u16) {
        let (Some(job), Some(tree)) = (self.job(job), self.trees.get(&job)) else { return };
        let may = |at: usize| !self.network.appliances[at].spare;
        let Ok(planned) = job.tree(&self.network, &may) else { return };
        let note = Note::Tree(job.id, self.made_for(job, &planned), tree.clone());
        self.notes.push(note);
    }
}
