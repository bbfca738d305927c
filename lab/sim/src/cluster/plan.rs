//! The plan of an asynchronous job.

use core::num::NonZeroU64;
use core::time::Duration;
use std::sync::Arc;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_ps::asynchronous::{Rule, Settings as Training};
use pascaline_seal::Protection;
use pascaline_worker::asynchronous::Policy;

use crate::host::Host;
use crate::plan::{MICRO, MILLI};
use crate::random::Random;

/// How long a worker may take: on a bad network most updates get lost, and one at a time may be outstanding,
/// for a second each. If a part is stopped for a while, lost updates take as long.
const DEADLINE: u64 = 60_000 * MILLI;
const LATE_DEADLINE: u64 = 200_000 * MILLI;

/// An asynchronous job and what its workers do.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlan {
    pub(crate) id: u16,
    pub(crate) ranks: u16,
    pub(super) floats: u16,
    pub(super) outstanding: u16,
    /// Acknowledged updates after which a worker leaves.
    pub(super) wanted: u64,
    /// The longest time between two updates of a worker.
    pub(super) pace: u64,
    pub(super) policy: Policy,
    queue: PortQueue,
    /// The appliance restarts: workers that have left do not come back, so the others cannot finish.
    pub(crate) forsaken: bool,
    /// For what a worker does, in nanoseconds.
    pub(super) deadline: u64,
    /// How its packets are protected, if they are sealed.
    pub(crate) sealed: Option<Protection>,
}

impl ClusterPlan {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let olaf = Policy::Olaf {
            slope: pascaline_worker::Slope::Urgency,
            threshold: Duration::from_millis(random.between(1, 100)),
        };
        let rate = random.pick(&[0, 5_000_000, 50_000_000]);
        let mut queue = PortQueue { rate: NonZeroU64::new(rate), ..PortQueue::default() };
        queue.queue.clusters = 512;
        queue.queue.segments = random.pick(&[1, 2, 8]);
        queue.queue.reward_threshold = if random.chance(500_000) { f32::INFINITY } else { 2.0 };
        Self {
            // No other job has it.
            id: 300,
            ranks: random.pick(&[1, 2, 3, 5]),
            floats: random.pick(&[8, 10, 16]),
            outstanding: random.pick(&[1, 1, 4]),
            wanted: random.between(1, 12),
            pace: random.pick(&[200 * MICRO, 2 * MILLI, 10 * MILLI]),
            policy: if random.chance(700_000) { Policy::AtWill } else { olaf },
            queue,
            forsaken: false,
            deadline: DEADLINE,
            sealed: None,
        }
    }

    /// Parts will be stopped.
    pub(crate) const fn wait(&mut self) {
        self.deadline = LATE_DEADLINE;
    }

    /// Its hosts: one for each rank, and the parameter server's.
    pub(crate) const fn hosts(&self) -> usize {
        self.ranks as usize + 1
    }

    /// A queue in front of each of this many ports.
    pub(crate) fn queues(&self, ports: usize) -> Vec<PortQueue> {
        vec![self.queue; ports]
    }

    pub(super) const fn payload(&self) -> u16 {
        self.floats * 4
    }

    /// How the server trains. Rewards count if the queue compares them as well; otherwise every update
    /// counts.
    pub(super) fn training(&self) -> Training {
        let all = self.queue.queue.reward_threshold.is_infinite();
        let rule = Rule::Staleness { rate: 0.001, half: Duration::from_secs(1) };
        Training { rule: if all { rule } else { Rule::default() }, ..Training::default() }
    }

    /// The job's configuration in the appliance. The last host is the server's.
    pub(crate) fn spec(&self, hosts: &[Host], admitted: bool) -> JobSpec {
        let (server, workers) = hosts.split_last().unzip();
        let listed = workers.unwrap_or_default().iter().map(|host: &Host| host.address).collect();
        let server = server.map_or(ServerMode::None, |&Host { address, udp_port, .. }| {
            ServerMode::External { address, udp_port }
        });
        JobSpec {
            kind: JobKind::Updates { server },
            dead_after: None,
            admitted: admitted.then_some(listed),
            keys: self.keys().map(Arc::new),
            ..JobSpec::new(self.id, self.ranks)
        }
    }
}
