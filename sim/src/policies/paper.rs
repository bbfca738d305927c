//! What DSA's Figures 8 to 11 say (section VII.B and C), in its setting: 8 jobs of 8 workers, 100 Gbit/s, 5 MB, packets of 306
//! bytes. The curves are not in its text, the factors are.

use super::experiment::Row;
use super::setting::{Mix, Policy, ResultsAt, Setting};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// How many times shorter jobs are.
    Speedup,
    /// How many times better the pool is used.
    Utilisation,
}

impl Measure {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Speedup => "speedup",
            Self::Utilisation => "utilisation",
        }
    }
}

/// One of the systems that are compared, as the paper has it: a slot for each hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Who wins what.
    pub policy: Policy,
    /// Where results are made.
    pub results_at: ResultsAt,
}

impl Side {
    const fn new(policy: Policy, results_at: ResultsAt) -> Self {
        Self { policy, results_at }
    }

    pub(super) const fn setting(self, paper: &Setting) -> Setting {
        Setting { policy: self.policy, results_at: self.results_at, ways: 1, ..*paper }
    }
}

/// A factor that a figure shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact {
    /// The figure.
    pub figure: u8,
    /// What is trained.
    pub mix: Mix,
    /// What is compared.
    pub measure: Measure,
    /// What is better.
    pub of: Side,
    /// Than what.
    pub over: Side,
    /// By how much; `None` if only that it is better is said.
    pub factor: Option<f64>,
    /// What else is said.
    pub remark: &'static str,
}

const DSA: Side = Side::new(Policy::Dsa, ResultsAt::Appliance);
const ALWAYS: Side = Side::new(Policy::Always, ResultsAt::Appliance);
const COIN: Side = Side::new(Policy::Coin, ResultsAt::Appliance);
const SWITCHML: Side = Side::new(Policy::SwitchMl, ResultsAt::Appliance);
/// ATP's results leave from the server (DSA, section III.D: acknowledgements of a single spot).
const ATP: Side = Side::new(Policy::Atp, ResultsAt::Server);

const fn fact(figure: u8, mix: Mix, measure: Measure, sides: (Side, Side), factor: f64) -> Fact {
    Fact { figure, mix, measure, of: sides.0, over: sides.1, factor: Some(factor), remark: "" }
}

/// All of them.
pub(super) const FACTS: [Fact; 13] = [
    Fact {
        remark: "up to, over the number of jobs",
        ..fact(8, Mix::A, Measure::Speedup, (DSA, SWITCHML), 1.89)
    },
    Fact { remark: "up to, over the number of jobs", ..fact(8, Mix::A, Measure::Speedup, (DSA, ATP), 1.35) },
    Fact {
        figure: 9,
        mix: Mix::A,
        measure: Measure::Speedup,
        of: DSA,
        over: ATP,
        factor: None,
        remark: "better in all cases, and more so with more workers; no factor in the text",
    },
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
    /// The same factor as it comes out here.
    pub(super) fn seen(&self, rows: &[Row]) -> Option<f64> {
        let paper = Setting::paper(0);
        let find = |side: Side| {
            rows.iter().find(|Row { setting, .. }| {
                (setting.policy, setting.results_at, setting.ways, setting.mix)
                    == (side.policy, side.results_at, 1, self.mix)
                    && (setting.memory, setting.payload, setting.gbps)
                        == (paper.memory, paper.payload, paper.gbps)
            })
        };
        let (of, over) = (find(self.of)?, find(self.over)?);
        Some(match self.measure {
            Measure::Speedup => over.completion_ms / of.completion_ms,
            Measure::Utilisation => of.utilisation / over.utilisation,
        })
    }
}
