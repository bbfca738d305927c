//! A tensor's way over trees.

use core::time::Duration;

use pascaline_worker::congestion::{Sample, Signal};

use super::{Packet, Progress, WIRE, What, World};

impl World<'_> {
    /// Sends the packets that a worker's window allows.
    pub(super) fn contribute(&mut self, number: usize, at: usize, worker: usize) {
        let server = self.setting.jobs[number].workers[worker];
        let tree = &mut self.jobs[number].trees[at];
        let window = tree.controls[worker].window();
        while tree.sent[worker] < tree.packets && tree.sent[worker] - tree.got[worker] < window {
            let psn = tree.sent[worker];
            tree.sent[worker] += 1;
            let name = number as u32 * self.per_job + at as u32;
            let packet = Packet { what: What::Up(name, psn, worker as u16), marked: false };
            self.fabric.send(self.setting.clos.up(server), WIRE, packet);
        }
    }

    const fn of(&self, tree: u32) -> (usize, usize) {
        ((tree / self.per_job) as usize, (tree % self.per_job) as usize)
    }

    /// PSNs continue from iteration to iteration, so that none recurs in a slot that still has its result.
    fn name(&self, tree: u32, psn: u32) -> u32 {
        let (job, at) = self.of(tree);
        self.outcome.iterations[job] as u32 * self.jobs[job].trees[at].packets + psn
    }

    pub(super) fn up(&mut self, tree: u32, psn: u32, worker: u16, marked: bool) {
        let (job, at) = self.of(tree);
        let (group, place) = self.jobs[job].places[usize::from(worker)];
        let (leaf, fan_in) = self.jobs[job].groups[usize::from(group)];
        let (now, name) = (self.fabric.now(), self.name(tree, psn));
        let marks = &mut self.jobs[job].trees[at].marks;
        let mark = psn as usize % marks.len();
        marks[mark] |= marked;
        let sum = self.adders[leaf]
            .as_mut()
            .and_then(|adder| adder.add(now, tree, name, place, (fan_in, fan_in), 1));
        let Some(sum) = sum else { return };
        self.outcome.wrong += u64::from(sum != u32::from(fan_in));
        if self.jobs[job].groups.len() == 1 {
            let marked = self.jobs[job].trees[at].marks[mark];
            return self.fan_out(tree, psn, group, marked);
        }
        let spine = self.jobs[job].trees[at].spine;
        let packet = Packet { what: What::Part(tree, psn, group), marked: false };
        self.fabric.send(self.setting.clos.climb(leaf, spine), WIRE, packet);
    }

    pub(super) fn part(&mut self, tree: u32, psn: u32, group: u16, marked: bool) {
        let (job, at) = self.of(tree);
        let (now, name) = (self.fabric.now(), self.name(tree, psn));
        let Progress { groups, trees, .. } = &mut self.jobs[job];
        let spine = trees[at].spine;
        let mark = psn as usize % trees[at].marks.len();
        trees[at].marks[mark] |= marked;
        let (fan_in, inside) = (groups.len() as u16, u32::from(groups[usize::from(group)].1));
        let adder = self.adders[self.setting.clos.leaves + spine].as_mut();
        let Some(sum) = adder.and_then(|adder| adder.add(now, tree, name, group, (fan_in, fan_in), inside))
        else {
            return;
        };
        self.outcome.wrong += u64::from(sum as usize != self.setting.jobs[job].workers.len());
        let marked = trees[at].marks[mark];
        for (group, &(leaf, _)) in (0..).zip(groups.iter()) {
            let packet = Packet { what: What::Sum(tree, psn, group), marked };
            self.fabric.send(self.setting.clos.descend(spine, leaf), WIRE, packet);
        }
    }

    pub(super) fn fan_out(&mut self, tree: u32, psn: u32, group: u16, marked: bool) {
        let (job, _) = self.of(tree);
        let places = (0..).zip(&self.jobs[job].places);
        for (worker, _) in places.filter(|(_, place)| place.0 == group) {
            let server = self.setting.jobs[job].workers[worker as usize];
            let packet = Packet { what: What::Down(tree, psn, worker), marked };
            let late = self.random.below(self.setting.jitter);
            self.fabric.send_to_busy(self.setting.clos.down(server), WIRE, late, packet);
        }
    }

    pub(super) fn down(&mut self, tree: u32, psn: u32, worker: u16, marked: bool) {
        let (number, at) = self.of(tree);
        let now = Duration::from_nanos(self.fabric.now());
        let worker = usize::from(worker);
        self.sample(1, number == 0 && worker == 0);
        let tree = &mut self.jobs[number].trees[at];
        tree.got[worker] += 1;
        let mark = psn as usize % tree.marks.len();
        tree.marks[mark] = false;
        let signal = Signal { marked, ..Signal::default() };
        let limited = tree.sent[worker] < tree.packets;
        tree.controls[worker].on_result(&Sample { now, sent_at: now, ambiguous: false, signal, limited });
        if tree.got[worker] == tree.packets {
            return self.part_done(number);
        }
        self.contribute(number, at, worker);
    }
}
