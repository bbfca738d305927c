//! A queue's configuration.

use core::time::Duration;

use thiserror::Error;

/// The effect of an arriving update on those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// None: it goes to the tail, or is dropped if the queue is full. The comparison to Olaf.
    Fifo,
    /// Replace its cluster's waiting update, or be combined with it (Olaf, section 4 and Algorithm 1).
    Olaf,
}

/// How two updates of a cluster are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// They are added. An update that stands for `count` of them carries their sum.
    Sum,
    /// They are averaged, each weighted by its count. An update that stands for `count` of them carries their
    /// mean. Integers are rejected.
    Mean,
}

/// A queue's shape and rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The effect of arriving updates.
    pub discipline: Discipline,
    /// The most updates in the queue, the departing one included: Olaf's Q_max. At least 1.
    pub segments: u16,
    /// The longest payload, in bytes: the size of Olaf's memory segments. At least 1.
    pub segment_len: u16,
    /// Clusters, numbered from 0; 1 to 2²⁴ of 8 bytes each.
    pub clusters: u32,
    /// How updates of one cluster are combined.
    pub combine: Combine,
    /// How far the rewards of two updates may differ for them to be combined (Olaf, section 3). Beyond that
    /// the higher one stays. 0 or more, up to infinity.
    pub reward_threshold: f32,
    /// How far ahead of the queue's clock an update's time of generation may lie.
    pub max_lead: Duration,
    /// How long a cluster stays active after its last update, or up to twice as long. At least a millisecond.
    pub activity: Duration,
}

impl Default for Config {
    /// Olaf with the eight segments of the paper's testbed (section 8.1), each as long as a jumbo frame.
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
/// The whole table of clusters is swept once in 2³² of these: every 49 days.
const LEAST_ACTIVITY: Duration = Duration::from_millis(1);

impl Config {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] for the first field outside its documented range.
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

/// Why a configuration is invalid.
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
    /// A threshold that is negative or NaN.
    #[error("a reward threshold of {0}: it must be 0 or more; infinity turns the filter off")]
    RewardThreshold(f32),
    /// Less than a millisecond.
    #[error("clusters active for {0:?} after an update: it must be at least a millisecond")]
    Activity(Duration),
}
