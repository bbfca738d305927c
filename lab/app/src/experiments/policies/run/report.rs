//! The figures of a run.

use super::super::Run;
use super::super::line::NEVER;
use super::super::outcome::JobCounts;
use super::super::server::Host;
use super::super::worker::Worker;
use super::World;

impl World {
    pub(super) fn report(&self) -> Run {
        let ranks = usize::from(self.setting.ranks);
        let jobs: Vec<_> = self.workers.chunks(ranks).zip(self.switch.tally()).collect();
        let mut completion = 0.0;
        let mut utilisation = 0.0;
        for (workers, tally) in &jobs {
            let deeds = || workers.iter().map(Worker::deeds);
            let end = deeds().filter_map(|deeds| deeds.finished).max().unwrap_or(NEVER);
            let began = workers.first().map_or(0, Worker::began);
            completion += (end - began) as f64 / 1e9;
            let first = deeds().filter_map(|deeds| deeds.first_sent).min().unwrap_or(0);
            let last = deeds().map(|deeds| deeds.last_result).max().unwrap_or(0);
            let line = self.setting.line().byte * self.setting.frame();
            let possible = (last - first) as f64 / line as f64 * (ranks - 1).max(1) as f64;
            utilisation += tally.added as f64 / possible.max(1.0);
        }
        let count = jobs.len() as f64;
        let sum = |of: fn(&JobCounts) -> u64| self.switch.tally().iter().map(of).sum::<u64>();
        Run {
            setting: self.setting,
            completion_ms: completion / count,
            utilisation: utilisation / count,
            ps_packets: self.server_packets,
            preemptions: sum(|tally| tally.preemptions),
            pool_completions: sum(|tally| tally.completed),
            ps_completions: self.hosts.iter().map(Host::completions).sum(),
            refused: sum(|tally| tally.refused),
            retransmissions: self.workers.iter().map(|worker| worker.deeds().retransmissions).sum(),
            verified: self.workers.iter().map(|worker| worker.deeds().results).sum(),
        }
    }
}
