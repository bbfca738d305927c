//! What a server of asynchronous jobs has done.

use pascaline_ps::asynchronous::{AsyncCounters, AsyncOutcome};
use pascaline_telemetry::{Gauge, JOB_ID};
use serde_json::{Map, Value};

use super::{Samples, by, float, single};

/// The state of a server of asynchronous jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct AsyncSnapshot {
    pub(crate) counters: AsyncCounters,
    pub(crate) clusters: Vec<ClusterSnapshot>,
    /// Jain's index of the clusters' average ages.
    pub(crate) fairness: f64,
    /// Files of models written, and not written; `None` if none are kept.
    pub(crate) checkpoints: Option<(u64, u64)>,
}

/// One of these jobs.
#[derive(Debug, Clone)]
pub(crate) struct ClusterSnapshot {
    pub(crate) job: u16,
    /// How often its weights have changed.
    pub(crate) version: u64,
    pub(crate) reward: Option<f32>,
    /// None before the first packet.
    pub(crate) age: Option<Ages>,
}

/// Ages-of-Model, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ages {
    pub(crate) average: f64,
    pub(crate) mean_peak: f64,
    pub(crate) highest_peak: f64,
    pub(crate) current: f64,
}

impl AsyncSnapshot {
    pub(super) fn metrics(&self) -> Vec<Gauge> {
        let counter = |name, help, samples| Gauge { name, help, counter: true, samples };
        let gauge = |name, help, samples| Gauge { name, help, counter: false, samples };
        let outcomes = AsyncOutcome::ALL.map(|outcome| (outcome.name(), self.counters.outcome(outcome)));
        let replies = [("sent", self.counters.replies), ("lost", self.counters.replies_lost)];
        let (written, failed) = self.checkpoints.unwrap_or_default();
        let labelled = |pick: &dyn Fn(&ClusterSnapshot) -> Option<f64>| -> Samples {
            let label = |job: u16| vec![(JOB_ID, job.to_string())];
            self.clusters.iter().filter_map(|one| Some((label(one.job), pick(one)?))).collect()
        };
        let age = |pick: fn(&Ages) -> f64| labelled(&|one| one.age.as_ref().map(pick));
        vec![
            counter(
                "ps_updates",
                "Updates of asynchronous workers, by what became of them.",
                by("verdict", outcomes),
            ),
            counter(
                "ps_update_contributions",
                "Contributions in the updates that were handled: a combined one has several.",
                single(self.counters.contributions),
            ),
            counter("ps_acknowledgements", "Answers to updates, by what became of them.", by("how", replies)),
            counter(
                "ps_checkpoints",
                "Files of models, by what became of them.",
                by("how", [("written", written), ("failed", failed)]),
            ),
            gauge(
                "ps_model_version",
                "How often a cluster's weights have changed.",
                labelled(&|one| Some(float(one.version))),
            ),
            gauge(
                "ps_reward",
                "The highest reward of an update that has changed the weights.",
                labelled(&|one| one.reward.map(f64::from)),
            ),
            gauge("aom_seconds", "Age-of-Model of a cluster: its average over time.", age(|age| age.average)),
            gauge("aom_current_seconds", "Age-of-Model of a cluster now.", age(|age| age.current)),
            gauge(
                "aom_peak_seconds",
                "Age-of-Model of a cluster just before a newer update arrived: the mean.",
                age(|age| age.mean_peak),
            ),
            gauge("aom_highest_peak_seconds", "The same: the highest.", age(|age| age.highest_peak)),
            gauge(
                "aom_jain",
                "Jain's fairness index of the clusters' average Age-of-Model: 1 if all are equal.",
                vec![(vec![], self.fairness)],
            ),
        ]
    }

    /// What a report has besides the counters.
    pub(super) fn report(&self) -> Value {
        let clusters = self.clusters.iter().filter_map(|one| {
            let Ages { average, mean_peak, highest_peak, .. } = one.age?;
            let ms = |seconds: f64| 1e3 * seconds;
            let value = serde_json::json!({
                "aom_ms": ms(average), "peak_ms": ms(mean_peak), "highest_peak_ms": ms(highest_peak),
                "version": one.version, "reward": one.reward,
            });
            Some((one.job.to_string(), value))
        });
        let clusters: Map<String, Value> = clusters.collect();
        serde_json::json!({"clusters": clusters, "jain": self.fairness})
    }
}
