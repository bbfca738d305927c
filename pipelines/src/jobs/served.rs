//! What a parameter server in this process has to serve.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pascaline_aggregator::Order;

use super::Job;

/// A job's generation, as a parameter server has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedJob {
    /// The job's number.
    pub job: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// Its generation.
    pub epoch: u16,
    /// Contributions that complete a PSN: fewer than the fan-in where ranks are lost.
    pub needed: u16,
    /// In which order contributions are added.
    pub order: Order,
    /// Bytes of a full packet's payload.
    pub payload: u16,
}

impl Job {
    /// The job for its parameter server; `None` if it has none, or nobody has joined.
    #[must_use]
    pub fn served(&self) -> Option<ServedJob> {
        let &Self { id, fan_in, epoch, needed, payload, .. } = self;
        let job = ServedJob { job: id, fan_in, epoch, needed, order: self.policy.order, payload };
        (self.has_server() && payload > 0 && needed > 0).then_some(job)
    }
}

/// The list of jobs to serve, shared between the control plane and a parameter server. The control plane
/// replaces it before lcores get the table that it belongs to.
#[derive(Debug, Clone, Default)]
pub struct ServedJobs {
    list: Arc<ArcSwap<Vec<ServedJob>>>,
}

impl ServedJobs {
    /// The list in force.
    #[must_use]
    pub fn latest(&self) -> Arc<Vec<ServedJob>> {
        self.list.load_full()
    }

    /// The list in force, if it is another one than `seen`.
    #[must_use]
    pub fn newer(&self, seen: &Arc<Vec<ServedJob>>) -> Option<Arc<Vec<ServedJob>>> {
        // The pointer alone is compared first: a parameter server asks at each of its turns.
        let same = Arc::ptr_eq(&self.list.load(), seen);
        (!same).then(|| self.latest())
    }

    /// Replaces the list.
    pub fn publish(&self, jobs: Vec<ServedJob>) {
        self.list.store(Arc::new(jobs));
    }
}
