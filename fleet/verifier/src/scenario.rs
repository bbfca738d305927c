//! The scenario: clusters in front of one queue, for a time, and the objectives.

use num_rational::BigRational;
use num_traits::Zero as _;

use crate::error::VerifyError;

pub use pascaline_queue::Discipline;

/// A time in nanoseconds, or any other number, without rounding.
pub type Exact = BigRational;

/// A number that is known, or known to lie between two (both included).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The lowest.
    pub low: Exact,
    /// The highest.
    pub high: Exact,
}

impl Span {
    /// A number that is known.
    #[must_use]
    pub fn known(value: Exact) -> Self {
        Self { low: value.clone(), high: value }
    }

    /// True if it is a single value.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.low == self.high
    }
}

/// The queue and the line behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// OlafQueue, or FIFO.
    pub discipline: Discipline,
    /// Q_max: the most updates in it.
    pub length: u16,
    /// p/C: how long one update takes on the line, in ns.
    pub service: Exact,
    /// True if an update keeps its segment, locked, until it has been sent (Olaf, section 12.1); false if it
    /// gives it up when its sending begins, as in the appliance.
    pub held: bool,
}

impl Queue {
    /// True if updates of one cluster meet in it, which a proof depends on.
    pub(crate) const fn merges(&self) -> bool {
        match self.discipline {
            Discipline::Olaf => true,
            Discipline::Fifo => false,
        }
    }
}

/// How the updates of a cluster's workers are spread in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Evenly over the period.
    Even,
    /// All at once.
    Together,
}

/// The outcomes of transmission control's coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coins {
    /// Any outcome with a probability above 0.
    Any,
    /// The outcomes of this seed.
    Seed(u64),
}

/// Transmission control (Olaf, section 5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Δ_T in ns.
    pub threshold: Exact,
    /// V: the slope, per ns.
    pub slope: Exact,
    /// The coins.
    pub coins: Coins,
}

/// Workers whose updates may be combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name in queries and reports.
    pub name: String,
    /// How many send.
    pub workers: u16,
    /// How their updates are spread in time.
    pub spread: Spread,
    /// From one update of a worker to its next, in ns.
    pub period: Span,
    /// When the first worker has its first update, in ns.
    pub phase: Span,
    /// Transmission control, if any.
    pub control: Option<Control>,
}

/// The measure of each cluster's age, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The average over time.
    Mean,
    /// The average of the peaks, the paper's avg(Δ_p); the age at the horizon is one if that makes it higher.
    Peak,
    /// The highest, at a peak or at the horizon.
    Highest,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Peak, Self::Highest];

    /// The name in files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Peak => "peak",
            Self::Highest => "highest",
        }
    }
}

/// The condition on the measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objective {
    /// Any two differ by at most this, in ns.
    Difference(Exact),
    /// Each is at most this, in ns.
    Bound(Exact),
    /// Jain's index of them is at least this.
    Jain(Exact),
}

/// The behaviours for which an objective has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// All.
    ForAll,
    /// At least one.
    Exists,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its name in reports.
    pub name: String,
    /// The measure.
    pub measure: Measure,
    /// The condition.
    pub objective: Objective,
    /// Of which clusters, by index.
    pub clusters: Vec<usize>,
    /// For which behaviours.
    pub quantifier: Quantifier,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The queue.
    pub queue: Queue,
    /// From an update's arrival at the server to its acknowledgement's at the workers: R, in ns.
    pub reply: Exact,
    /// From when on the age is measured, in ns.
    pub from: Exact,
    /// Until when, in ns. Updates are generated until then.
    pub horizon: Exact,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// The questions.
    pub queries: Vec<Query>,
}

/// One update that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The worker in its cluster.
    pub(crate) worker: u16,
    /// Periods from the cluster's phase to the update: a whole number and a fraction of `workers`.
    pub(crate) numerator: u64,
    pub(crate) denominator: u16,
}

impl Place {
    pub(crate) fn factor(self) -> Exact {
        Exact::new(self.numerator.into(), self.denominator.into())
    }
}

impl Cluster {
    /// All updates, in order of time whatever phase and period are.
    pub(crate) fn endless(&self) -> impl Iterator<Item = Place> {
        let (workers, spread) = (self.workers, self.spread);
        (0..).map(move |index: u64| {
            let (period, worker) = (index / u64::from(workers), index % u64::from(workers));
            let worker = u16::try_from(worker).unwrap_or(u16::MAX);
            match spread {
                Spread::Even => Place { worker, numerator: index, denominator: workers },
                Spread::Together => Place { worker, numerator: period, denominator: 1 },
            }
        })
    }

    /// Those that may come up to the horizon.
    pub(crate) fn places(&self, horizon: &Exact) -> Vec<Place> {
        self.endless().take(usize::try_from(self.expected(horizon)).unwrap_or(usize::MAX)).collect()
    }

    /// How many updates may come up to the horizon.
    pub(crate) fn expected(&self, horizon: &Exact) -> u64 {
        let time = horizon - &self.phase.low;
        if time < Exact::zero() {
            return 0;
        }
        let (periods, workers) = (time / &self.period.low, u64::from(self.workers));
        let first = |of: Exact| u64::try_from(of.to_integer()).unwrap_or(u64::MAX).saturating_add(1);
        match self.spread {
            Spread::Even => first(periods * Exact::from_integer(workers.into())),
            Spread::Together => first(periods).saturating_mul(workers),
        }
    }
}

impl Scenario {
    /// True if all values are known: then one evaluation answers every query.
    #[must_use]
    pub fn is_determined(&self) -> bool {
        self.clusters.iter().all(|cluster| {
            let coins = self.tosses(cluster).is_none_or(|control| control.coins != Coins::Any);
            cluster.period.is_known() && cluster.phase.is_known() && coins
        })
    }

    /// An error if more updates than these may come up to the horizon.
    pub(crate) fn at_most(&self, most: u64) -> Result<(), VerifyError> {
        let expected = self.clusters.iter().map(|cluster| cluster.expected(&self.horizon));
        let updates = expected.fold(0_u64, u64::saturating_add);
        if updates > most { Err(VerifyError::TooMany { updates, most }) } else { Ok(()) }
    }

    /// The cluster's control, if it ever has a coin to toss: there are more clusters than places.
    pub(crate) fn tosses<'a>(&self, cluster: &'a Cluster) -> Option<&'a Control> {
        cluster.control.as_ref().filter(|_| usize::from(self.queue.length) < self.clusters.len())
    }

    /// Q_max / N, the probability that is certain.
    pub(crate) fn share(&self) -> Exact {
        Exact::new(self.queue.length.into(), self.clusters.len().into())
    }
}
