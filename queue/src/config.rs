//! What a queue is told.

use core::time::Duration;

use thiserror::Error;

/// What an arriving update may do to those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// Nothing: it goes to the tail, or is dropped where there is no room. What Olaf is compared with.
    Fifo,
    /// It replaces, or is combined with, the waiting update of its cluster (Olaf, section 4 and Algorithm 1).
    Olaf,
}

/// What becomes of the values of two updates of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// They are added. An update that says that it stands for `count` of them carries their sum.
    Sum,
    /// They are averaged, each weighted by how many it stands for; an update that stands for `count` of them
    /// carries their mean. Only floats have one: integers are refused.
    Mean,
}

/// A queue's shape and rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// What arriving updates may do.
    pub discipline: Discipline,
    /// Updates that the queue holds at the most, the one that is leaving included: Olaf's Q_max. At least 1.
    pub segments: u16,
    /// The longest payload in bytes that is taken, which is the size of Olaf's memory segments. At least 1.
    pub segment_len: u16,
    /// Clusters are numbered from 0 to one less than this; 1 to 2²⁴. Each takes 8 bytes.
    pub clusters: u32,
    /// How updates of one cluster become one.
    pub combine: Combine,
    /// How far the rewards of two updates may lie apart for them to be combined (Olaf, section 3). Beyond
    /// that the one with the higher reward stays. Infinity lets every update be combined; never negative,
    /// never NaN.
    pub reward_threshold: f32,
    /// How far ahead of the queue's clock an update's time of generation may lie, for senders' clocks are not
    /// exact.
    pub max_lead: Duration,
    /// A cluster is active for at least this long after its last update, and for less than twice as long. At
    /// least a millisecond.
    pub activity: Duration,
}

impl Default for Config {
    /// Olaf with the eight segments of the paper's testbed (section 8.1), each of a jumbo frame's size; sums;
    /// no reward filter; 256 clusters, active for a second; clocks up to a second apart.
    fn default() -> Self {
        Self {
            discipline: Discipline::Olaf,
            segments: 8,
            segment_len: 8960,
            clusters: 256,
            combine: Combine::Sum,
            reward_threshold: f32::INFINITY,
            max_lead: Duration::from_secs(1),
            activity: Duration::from_secs(1),
        }
    }
}

/// The most clusters: 128 MiB of table.
const MOST_CLUSTERS: u32 = 1 << 24;
/// Once in 2³² of these the whole table of clusters is gone through, and that should be rare: here, every 49
/// days.
const LEAST_ACTIVITY: Duration = Duration::from_millis(1);

impl Config {
    /// Checks that there can be a queue like this.
    ///
    /// # Errors
    /// [`ConfigError`] for the first field that is not what its documentation says.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.segments == 0 {
            return Err(ConfigError::Segments);
        }
        if self.segment_len == 0 {
            return Err(ConfigError::SegmentLen);
        }
        if self.clusters == 0 || self.clusters > MOST_CLUSTERS {
            return Err(ConfigError::Clusters(self.clusters));
        }
        if self.reward_threshold.is_nan() || self.reward_threshold < 0.0 {
            return Err(ConfigError::RewardThreshold(self.reward_threshold));
        }
        if self.activity < LEAST_ACTIVITY {
            return Err(ConfigError::Activity(self.activity));
        }
        Ok(())
    }
}

/// Why there cannot be a queue like this.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ConfigError {
    /// No segment.
    #[error("a queue of 0 segments can hold nothing: it needs at least 1")]
    Segments,
    /// Segments without room.
    #[error("segments of 0 bytes can hold nothing: give the longest payload that is expected")]
    SegmentLen,
    /// No cluster, or too many.
    #[error("{0} clusters: the number must be between 1 and 2^24")]
    Clusters(u32),
    /// A threshold that nothing can be compared with.
    #[error("a reward threshold of {0}: it must be 0 or more; infinity turns the filter off")]
    RewardThreshold(f32),
    /// Hardly any time at all.
    #[error("clusters active for {0:?} after an update: it must be at least a millisecond")]
    Activity(Duration),
}
