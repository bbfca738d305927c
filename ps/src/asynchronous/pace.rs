//! The server's transmission control: pauses that make the clusters' models equally old.
//!
//! Workers alone cannot: each cluster sees its own age and the state of the queue, and thinning all of them
//! by the same factor, as Olaf's P_s does, leaves a cluster that sends rarely behind one that sends often.
//! The server sees the age of every cluster. So its acknowledgements ask each to send nothing for a time;
//! meanwhile its place in the queue is free for those that are behind.
//!
//! With A_i the recent average age of cluster i and A̅ their mean, each update that arrives moves its
//! cluster's pause by p_i ← p_i + [`GAIN`] · (A̅ − A_i). Then the least pause is subtracted from all of them:
//! the cluster that is furthest behind never pauses, so that the line stays as busy as before.

use std::collections::BTreeMap;

use core::time::Duration;

use pascaline_wire::header::PAUSE_UNIT;

/// The part of the difference that each update corrects.
pub const GAIN: f64 = 0.05;
/// Averages cover about this many updates of the cluster.
const MEMORY: f64 = 16.0;
/// The longest pause, in seconds: the most that fits into 16 bits of units.
const LONGEST: f64 = 6.5535;

/// One cluster. Times in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Cluster {
    /// When the last update came, and the model's age then.
    last: Option<(f64, f64)>,
    /// The area under the age, and the time between updates: both smoothed.
    area: f64,
    time: f64,
    pause: f64,
}

impl Cluster {
    fn age(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.area / self.time)
    }
}

/// The pauses of all clusters.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    clusters: BTreeMap<u16, Cluster>,
}

impl Pace {
    /// An update of a cluster has arrived at `now` (from any origin), `age` after it was generated. Returns
    /// for how long the cluster is to pause, in [`PAUSE_UNIT`]s. Takes time in proportion to the number of
    /// clusters.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn on_update(&mut self, cluster: u16, now: Duration, age: Duration) -> u16 {
        let (now, age) = (now.as_secs_f64(), age.as_secs_f64());
        let one = self.clusters.entry(cluster).or_default();
        let Some((at, before)) = one.last else {
            one.last = Some((now, age));
            return 0;
        };
        let width = (now - at).max(0.0);
        // The first tooth counts in full.
        let share = if one.time > 0.0 { 1.0 / MEMORY } else { 1.0 };
        one.area += share * (width * (before + width / 2.0) - one.area);
        one.time += share * (width - one.time);
        one.last = Some((now, age.min(before + width)));
        let ages = || self.clusters.values().filter_map(Cluster::age);
        #[expect(clippy::cast_precision_loss, reason = "a count of clusters")]
        let mean = ages().sum::<f64>() / ages().count().max(1) as f64;
        if let Some(one) = self.clusters.get_mut(&cluster)
            && let Some(own) = one.age()
        {
            one.pause += GAIN * (mean - own);
        }
        let least = self.clusters.values().map(|one| one.pause).fold(f64::INFINITY, f64::min);
        for one in self.clusters.values_mut() {
            one.pause = (one.pause - least).clamp(0.0, LONGEST);
        }
        let pause = self.clusters.get(&cluster).map_or(0.0, |one| one.pause);
        (pause / PAUSE_UNIT.as_secs_f64()).round() as u16
    }

    /// Forgets a cluster.
    pub fn remove(&mut self, cluster: u16) {
        self.clusters.remove(&cluster);
    }
}

#[cfg(test)]
mod tests;
