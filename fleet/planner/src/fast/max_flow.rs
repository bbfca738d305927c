//! Largest flow through a small network, by Dinic's algorithm.

use std::collections::VecDeque;

/// A flow network with whole capacities. Arc `2n + 1` is the reverse of arc `2n`.
pub(super) struct MaxFlow {
    arcs: Vec<(usize, u32)>,
    out: Vec<Vec<usize>>,
    level: Vec<usize>,
    next: Vec<usize>,
}

impl MaxFlow {
    pub(super) fn new(nodes: usize) -> Self {
        Self { arcs: Vec::new(), out: vec![Vec::new(); nodes], level: vec![0; nodes], next: vec![0; nodes] }
    }

    /// Adds an arc and returns its number.
    pub(super) fn arc(&mut self, from: usize, to: usize, capacity: u32) -> usize {
        let arc = self.arcs.len();
        self.arcs.extend([(to, capacity), (from, 0)]);
        self.out[from].push(arc);
        self.out[to].push(arc + 1);
        arc
    }

    /// The flow through an arc.
    pub(super) fn flow(&self, arc: usize) -> u32 {
        self.arcs[arc + 1].1
    }

    /// Sends as much as possible, and returns the amount.
    pub(super) fn run(&mut self, source: usize, sink: usize) -> u32 {
        let mut total = 0;
        while self.levels(source, sink) {
            self.next.fill(0);
            loop {
                let sent = self.send(source, sink, u32::MAX);
                if sent == 0 {
                    break;
                }
                total += sent;
            }
        }
        total
    }

    fn levels(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(usize::MAX);
        self.level[source] = 0;
        let mut waiting = VecDeque::from([source]);
        while let Some(node) = waiting.pop_front() {
            for &arc in &self.out[node] {
                let (to, left) = self.arcs[arc];
                if left > 0 && self.level[to] == usize::MAX {
                    self.level[to] = self.level[node] + 1;
                    waiting.push_back(to);
                }
            }
        }
        self.level[sink] != usize::MAX
    }

    /// One augmenting path. As deep as the network has levels, which are few.
    fn send(&mut self, node: usize, sink: usize, most: u32) -> u32 {
        if node == sink {
            return most;
        }
        while let Some(&arc) = self.out[node].get(self.next[node]) {
            let (to, left) = self.arcs[arc];
            if left > 0 && self.level[to] == self.level[node] + 1 {
                let sent = self.send(to, sink, most.min(left));
                if sent > 0 {
                    self.arcs[arc].1 -= sent;
                    self.arcs[arc ^ 1].1 += sent;
                    return sent;
                }
            }
            self.next[node] += 1;
        }
        0
    }
}
