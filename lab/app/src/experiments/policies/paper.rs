//! The statements of DSA's Figures 8 to 11 (section VII.B and C), in its setting: 8 jobs of 8 workers, 100
//! Gbit/s, 5 MB, packets of 306 bytes. Its text gives factors, not curves.

use super::experiment::Row;
use super::setting::{Mix, Policy, ResultsAt, Setting};

/// The measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// How many times shorter jobs are.
    Speedup,
    /// How many times better the pool is used.
    Utilisation,
}

impl Measure {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Speedup => "speedup",
            Self::Utilisation => "utilisation",
        }
    }
}

/// A system under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// The policy of conflicts.
    pub(crate) policy: Policy,
    /// The place where the paper's system makes results.
    pub(crate) results_at: ResultsAt,
}

/// The axis of a figure. The text does not give its range; the factors here are all over the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Nothing.
    None,
    /// The number of jobs; the greatest factor counts.
    Jobs,
    /// The number of workers per job; the least factor counts.
    Workers,
}

impl Sweep {
    /// The varied parameter.
    #[must_use]
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Jobs => Some("jobs"),
            Self::Workers => Some("workers"),
        }
    }

    /// Number of jobs and of workers per job.
    pub(super) const fn points(self) -> &'static [(u16, u16)] {
        match self {
            Self::None => &[(8, 8)],
            Self::Jobs => &[(2, 8), (4, 8), (8, 8)],
            Self::Workers => &[(8, 2), (8, 4), (8, 8)],
        }
    }
}

/// A factor that a figure shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fact {
    /// The figure.
    pub(crate) figure: u8,
    /// The models.
    pub(crate) mix: Mix,
    /// The measure.
    pub(crate) measure: Measure,
    /// The better side.
    pub(crate) of: Side,
    /// The side that it is compared with.
    pub(crate) over: Side,
    /// The factor; `None` if the text only says that it is better.
    pub(crate) factor: Option<f64>,
    /// The varied parameter.
    pub(crate) sweep: Sweep,
}

const DSA: Side = Side { policy: Policy::Dsa, results_at: ResultsAt::Appliance };
const ALWAYS: Side = Side { policy: Policy::Always, results_at: ResultsAt::Appliance };
const COIN: Side = Side { policy: Policy::Coin, results_at: ResultsAt::Appliance };
const SWITCHML: Side = Side { policy: Policy::SwitchMl, results_at: ResultsAt::Appliance };
/// ATP's results leave from the server (DSA, section III.D).
const ATP: Side = Side { policy: Policy::Atp, results_at: ResultsAt::Server };

/// The systems as in the paper.
pub(crate) const SIDES: [Side; 5] = [DSA, ATP, SWITCHML, ALWAYS, COIN];

const fn fact(figure: u8, mix: Mix, measure: Measure, sides: (Side, Side), factor: f64) -> Fact {
    Fact { figure, mix, measure, of: sides.0, over: sides.1, factor: Some(factor), sweep: Sweep::None }
}

/// All of them.
pub(super) const FACTS: [Fact; 14] = [
    Fact { sweep: Sweep::Jobs, ..fact(8, Mix::A, Measure::Speedup, (DSA, SWITCHML), 1.89) },
    Fact { sweep: Sweep::Jobs, ..fact(8, Mix::A, Measure::Speedup, (DSA, ATP), 1.35) },
    Fact { factor: None, sweep: Sweep::Workers, ..fact(9, Mix::A, Measure::Speedup, (DSA, SWITCHML), 1.0) },
    Fact { factor: None, sweep: Sweep::Workers, ..fact(9, Mix::A, Measure::Speedup, (DSA, ATP), 1.0) },
    fact(10, Mix::A, Measure::Utilisation, (DSA, SWITCHML), 2.27),
    fact(10, Mix::A, Measure::Utilisation, (DSA, ATP), 1.45),
    fact(10, Mix::B, Measure::Utilisation, (DSA, SWITCHML), 1.9),
    fact(10, Mix::B, Measure::Utilisation, (DSA, ATP), 1.28),
    fact(11, Mix::A, Measure::Speedup, (DSA, ATP), 1.35),
    fact(11, Mix::A, Measure::Speedup, (ALWAYS, ATP), 1.19),
    fact(11, Mix::A, Measure::Speedup, (COIN, ATP), 1.19),
    fact(11, Mix::Both, Measure::Speedup, (DSA, ATP), 1.22),
    fact(11, Mix::Both, Measure::Speedup, (ALWAYS, ATP), 1.05),
    fact(11, Mix::Both, Measure::Speedup, (COIN, ATP), 1.05),
];

impl Fact {
    /// The system as in the paper.
    #[must_use]
    pub(crate) const fn remark(&self) -> &'static str {
        match self.sweep {
            Sweep::None => "",
            Sweep::Jobs => "up to, over the number of jobs; here of 2, 4 and 8",
            Sweep::Workers => "at least better, whatever the number of workers; here the least of 2, 4 and 8",
        }
    }

    /// True if this system appears in a sweep.
    pub(super) fn needs(&self, sweep: Sweep, side: Side) -> bool {
        self.sweep == sweep && (self.of == side || self.over == side)
    }

    /// The factor measured here, with this number of ways. `None` if not all of it was run.
    pub(super) fn seen(&self, paper: &Setting, ways: usize, rows: &[Row]) -> Option<f64> {
        let at = |&(jobs, ranks): &(u16, u16)| {
            let find = |side: Side| {
                let Side { policy, results_at } = side;
                let wanted = Setting { jobs, ranks, policy, results_at, ways, mix: self.mix, ..*paper };
                rows.iter().find(|row| row.setting == wanted)
            };
            let (of, over) = (find(self.of)?, find(self.over)?);
            Some(match self.measure {
                Measure::Speedup => over.completion_ms.median / of.completion_ms.median,
                Measure::Utilisation => of.utilisation / over.utilisation,
            })
        };
        let factors: Vec<f64> = self.sweep.points().iter().map(at).collect::<Option<_>>()?;
        let best = if self.sweep == Sweep::Workers { f64::min } else { f64::max };
        factors.into_iter().reduce(best)
    }
}
