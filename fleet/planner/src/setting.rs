//! The settings of ARO's section IV.A, from a seed.

use crate::model::{Instance, Job, Network, PortMap, Task};

/// A leaf-spine network whose adding switches, and whose workers, are drawn at random.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Leaves, and as many spines.
    pub side: usize,
    /// Servers at each leaf.
    pub servers: usize,
    /// The part of all switches that add.
    pub adding: f64,
    /// Input pipelines of each.
    pub pipelines: u16,
    /// How their ports are wired, which the paper does not specify.
    pub map: PortMap,
    /// Workers of each job.
    pub workers: usize,
    /// The number of jobs.
    pub jobs: usize,
    /// Tasks of each job; they share its workers.
    pub tasks: usize,
}

impl Default for Setting {
    /// The paper's default: 576 servers, 24 leaves, 24 spines, 20 % adding, 4 pipelines, one task of 200.
    fn default() -> Self {
        Self {
            side: 24,
            servers: 24,
            adding: 0.2,
            pipelines: 4,
            map: PortMap::Block,
            workers: 200,
            jobs: 1,
            tasks: 1,
        }
    }
}

impl Setting {
    /// The instance of a seed: the parameter server of task i is the first server of leaf i, which adds; jobs
    /// have different workers.
    pub fn instance(&self, seed: u64) -> Instance {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut network = Network::leaf_spine(self.side, self.side, self.servers, 100.0);
        let (tasks, switches) = (self.jobs * self.tasks, 2 * self.side);
        let mut others: Vec<usize> = (tasks..switches).collect();
        random.shuffle(&mut others);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a small number"
        )]
        let adding = (switches as f64 * self.adding + 1e-9) as usize;
        let adding = (0..tasks).chain(others.into_iter().take(adding.saturating_sub(tasks)));
        adding.for_each(|switch| network.aggregate(switch, self.pipelines, self.map));
        let server = |task: usize| task * self.servers;
        let mut workers: Vec<usize> = (0..self.side * self.servers).collect();
        workers.retain(|&at| !(0..tasks).any(|task| server(task) == at));
        random.shuffle(&mut workers);
        let mut workers = workers.into_iter();
        let mut instance =
            Instance { name: format!("seed {seed}"), network, mu: 0.001, ..Instance::default() };
        for job in 0..self.jobs {
            let own: Vec<usize> = workers.by_ref().take(self.workers).collect();
            instance.jobs.push(Job { name: format!("job {job}"), weight: 1.0 });
            instance.tasks.extend((0..self.tasks).map(|task| Task {
                name: format!("task {job}.{task}"),
                job,
                server: server(job * self.tasks + task),
                workers: own.clone(),
            }));
        }
        instance
    }
}
