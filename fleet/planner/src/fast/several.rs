//! Several tasks at one common rate. A refused rate is impossible; a found one is possible; others are
//! unknown.

use std::time::Instant;

use super::decide::{Admitted, Verdict, admitted, one, usable};
use super::max_flow::MaxFlow;
use super::sets;
use super::view::{Caps, View};
use crate::model::Flows;
use crate::plan::Binding;

/// How many choices of pipelines are tried.
const ATTEMPTS: usize = 8;

pub(super) fn decide(view: &View<'_>, caps: &Caps, deadline: Instant) -> Verdict {
    let mut masks = Vec::new();
    for task in 0..view.demands.len() {
        if let no @ Verdict::No(_) = one(view, caps, task, deadline) {
            return no;
        }
        match admitted(view, caps, task) {
            Ok(Admitted { masks: mut admitted, .. }) => {
                // Those that admit most adding spines first.
                admitted.sort_by_key(|&mask| std::cmp::Reverse(usable(view, caps, task, mask).0.len()));
                masks.push(admitted);
            }
            Err(binding) => return Verdict::No(binding),
        }
    }
    if let Some(binding) = crowded(view, caps) {
        return Verdict::No(binding);
    }
    let found = (0..ATTEMPTS).find_map(|attempt| Attempt::new(view, caps, &masks, attempt).run());
    found.map_or(Verdict::Unknown, Verdict::Yes)
}

/// Whether the links do not carry all tasks together, whatever the pipelines: flows of a leaf beyond its
/// links to adding spines go over the others, which have a limit to each parameter server's leaf.
fn crowded(view: &View<'_>, caps: &Caps) -> Option<Binding> {
    let (leaves, tasks) = (view.leaves.len(), view.demands.len());
    let (source, sink) = (leaves + tasks, leaves + tasks + 1);
    let (adding, plain): (Vec<usize>, Vec<usize>) =
        (0..view.spines.len()).partition(|&spine| view.adds(spine));
    let mut network = MaxFlow::new(sink + 1);
    let mut excess = 0;
    for leaf in 0..leaves {
        let flows: u32 = view.demands.iter().map(|demand| demand.flows[leaf]).sum();
        let up =
            |spines: &[usize]| spines.iter().map(|&spine| caps.up(leaf, spine)).fold(0, u32::saturating_add);
        let over = flows.saturating_sub(up(&adding));
        excess += over;
        network.arc(source, leaf, over.min(up(&plain)));
        for (task, demand) in view.demands.iter().enumerate().filter(|(_, demand)| demand.flows[leaf] > 0) {
            network.arc(leaf, leaves + task, demand.flows[leaf]);
        }
    }
    for task in 0..tasks {
        let room = plain.iter().map(|&spine| caps.down(task, spine)).fold(0, u32::saturating_add);
        network.arc(leaves + task, sink, room);
    }
    let sent = network.run(source, sink);
    (sent < excess).then(|| Binding {
        kind: "capacity",
        why: format!(
            "at {:.3} Gbit/s the leaves have {excess} flows more than their links to the {} adding spines \
             carry, and the {} other spines carry {sent} of them",
            caps.rate,
            adding.len(),
            plain.len()
        ),
        channels: Vec::new(),
    })
}

/// A task's adding spines with the pipelines chosen, and its other spines.
type Ways = (Vec<(usize, u64)>, Vec<usize>);

/// One choice of pipelines, and what the links carry with it.
struct Attempt<'a, 'b> {
    view: &'a View<'b>,
    caps: &'a Caps,
    spines: Vec<Ways>,
    up: Vec<u32>,
    flows: Vec<Flows>,
    into: Vec<Vec<u32>>,
}

impl<'a, 'b> Attempt<'a, 'b> {
    fn new(view: &'a View<'b>, caps: &'a Caps, masks: &[Vec<u64>], attempt: usize) -> Self {
        let spines = masks.iter().enumerate().map(|(task, masks)| {
            // The first attempt takes the best set for every task, later ones spread the tasks.
            let mask = masks[if attempt == 0 { 0 } else { (attempt + task) % masks.len() }];
            let (mut adding, plain) = usable(view, caps, task, mask);
            if !adding.is_empty() {
                let by = (task + attempt) % adding.len();
                adding.rotate_left(by);
            }
            let restricted = adding
                .iter()
                .any(|&spine| sets::classes(view, task, spine).count_ones() > caps.down(task, spine));
            let chosen = if restricted {
                sets::choose(view, caps, task, &adding).0
            } else {
                sets::Chosen::everything(&adding)
            };
            (chosen.spines().collect(), plain)
        });
        let count = view.spines.len();
        let up = (0..view.leaves.len()).flat_map(|leaf| (0..count).map(move |spine| caps.up(leaf, spine)));
        let tasks = masks.len();
        Self {
            view,
            caps,
            spines: spines.collect(),
            up: up.collect(),
            flows: vec![Vec::new(); tasks],
            into: vec![vec![0; count]; tasks],
        }
    }

    fn run(mut self) -> Option<Vec<Flows>> {
        let mut left: Vec<Vec<u32>> = Vec::new();
        for leaf in 0..self.view.leaves.len() {
            left.push(self.absorb(leaf));
        }
        self.spread(left)?;
        for (task, demand) in self.view.demands.iter().enumerate() {
            for (spine, &number) in self.into[task].iter().enumerate().filter(|(_, number)| **number > 0) {
                let (link, _) = self.view.link(demand.leaf, spine)?;
                self.flows[task].push((self.view.instance.network.down(link), number));
            }
        }
        Some(self.flows)
    }

    fn send(&mut self, leaf: usize, task: usize, spine: usize, number: u32) {
        if let (Some((link, _)), true) = (self.view.link(leaf, spine), number > 0) {
            self.flows[task].push((self.view.instance.network.up(link), number));
            self.into[task][spine] += number;
            self.up[leaf * self.view.spines.len() + spine] -= number;
        }
    }

    /// Sends as many of a leaf's flows to adding spines as possible; returns the rest of each task.
    fn absorb(&mut self, leaf: usize) -> Vec<u32> {
        let (tasks, spines) = (self.spines.len(), self.view.spines.len());
        let (source, sink) = (tasks + spines, tasks + spines + 1);
        let mut network = MaxFlow::new(sink + 1);
        let mut arcs = Vec::new();
        let mut left: Vec<u32> = self.view.demands.iter().map(|demand| demand.flows[leaf]).collect();
        for (task, (adding, _)) in self.spines.iter().enumerate().filter(|(task, _)| left[*task] > 0) {
            network.arc(source, task, left[task]);
            for &(spine, mask) in adding {
                if mask >> self.view.enters(leaf, spine) & 1 == 1 && self.caps.up(leaf, spine) > 0 {
                    arcs.push((task, spine, network.arc(task, tasks + spine, left[task])));
                }
            }
        }
        for spine in 0..spines {
            network.arc(tasks + spine, sink, self.caps.up(leaf, spine));
        }
        network.run(source, sink);
        for (task, spine, arc) in arcs {
            let number = network.flow(arc);
            left[task] -= number;
            self.send(leaf, task, spine, number);
        }
        left
    }

    /// Sends the rest over the spines that do not add, always over the one with most room.
    fn spread(&mut self, mut left: Vec<Vec<u32>>) -> Option<()> {
        let (count, tasks) = (self.view.spines.len(), self.spines.len());
        let mut down: Vec<u32> = (0..tasks)
            .flat_map(|task| (0..count).map(move |spine| (task, spine)))
            .map(|(t, s)| self.caps.down(t, s))
            .collect();
        let mut order: Vec<(usize, usize)> =
            (0..left.len()).flat_map(|l| (0..tasks).map(move |t| (l, t))).collect();
        order.retain(|&(leaf, task)| left[leaf][task] > 0);
        order.sort_by_key(|&(leaf, task)| std::cmp::Reverse(left[leaf][task]));
        for (leaf, task) in order {
            while left[leaf][task] > 0 {
                let room = |spine: usize| self.up[leaf * count + spine].min(down[task * count + spine]);
                let &best = self.spines[task].1.iter().max_by_key(|&&spine| room(spine))?;
                let number = room(best).min(left[leaf][task]);
                if number == 0 {
                    return None;
                }
                left[leaf][task] -= number;
                down[task * count + best] -= number;
                self.send(leaf, task, best, number);
            }
        }
        Some(())
    }
}
