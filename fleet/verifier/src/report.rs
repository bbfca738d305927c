//! The results of a verification.

use core::fmt;
use std::fmt::Write as _;

use num_traits::ToPrimitive as _;
use serde::Serialize;

use crate::error::VerifyError;
use crate::exact::{Choice, Event, Happening, Run};
use crate::judge::Judged;
use crate::scenario::{Cluster, Discipline, Exact, Objective, Quantifier, Query, Scenario};

/// The outcome of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds: proven.
    Holds,
    /// It does not: there is a counterexample, or a proof that nothing satisfies it.
    Fails,
    /// The constraints have no solution at all, whatever the query: nothing is proven.
    Vacuous,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Vacuous => "vacuous",
        }
    }
}

/// The method that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// One evaluation, event by event: nothing was unknown.
    Exact,
    /// The solver.
    Z3,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The worst of the queries'.
    pub verdict: Verdict,
    /// How it was found.
    pub method: Method,
    /// Which model: "olaf", the queue that is shipped, or "paper", the constraints that are printed.
    pub model: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// One of each query.
    pub queries: Vec<Answer>,
}

/// The outcome for a file, for programs: the report or the error, and the file's content.
#[derive(Debug, Serialize)]
pub struct Outcome<'a> {
    /// The report, if there is one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub report: Option<&'a Report>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For an error: the file cannot be used. Otherwise only time, room or a solver was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_is_wrong: Option<bool>,
    /// The queue, if the file describes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueTerms>,
    /// All clusters.
    pub clusters: Vec<ClusterTerms<'a>>,
}

/// A queue, as an appliance's configuration has it.
#[derive(Debug, Serialize)]
pub struct QueueTerms {
    /// "olaf" or "fifo".
    pub discipline: &'static str,
    /// Updates that it holds.
    pub length: u16,
}

/// A cluster, as an appliance's configuration has it.
#[derive(Debug, Serialize)]
pub struct ClusterTerms<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many send.
    pub workers: u16,
}

impl<'a> Outcome<'a> {
    /// Of a file, if it could be read, and its verification.
    #[must_use]
    pub fn new(scenario: Option<&'a Scenario>, verified: &'a Result<Report, VerifyError>) -> Self {
        let error = verified.as_ref().err();
        let clusters = scenario.map(|scenario| scenario.clusters.as_slice()).unwrap_or_default();
        Self {
            report: verified.as_ref().ok(),
            error: error.map(ToString::to_string),
            file_is_wrong: error.map(VerifyError::is_of_the_file),
            queue: scenario.map(|Scenario { queue, .. }| QueueTerms {
                discipline: match queue.discipline {
                    Discipline::Olaf => "olaf",
                    Discipline::Fifo => "fifo",
                },
                length: queue.length,
            }),
            clusters: clusters
                .iter()
                .map(|Cluster { name, workers, .. }| ClusterTerms { name, workers: *workers })
                .collect(),
        }
    }
}

/// The answer to one query.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The query's name.
    pub name: String,
    /// The question, in words.
    pub asked: String,
    /// The names of its clusters.
    pub clusters: Vec<String>,
    /// For all behaviours, or for at least one.
    pub quantifier: &'static str,
    /// The answer.
    pub verdict: Verdict,
    /// The reason, in one line.
    pub because: String,
    /// The counterexample of a query for all, the example of one for some; in a determined case, the
    /// behaviour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
}

/// One behaviour.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// The value compared: ms, or Jain's index.
    pub value: f64,
    /// Each cluster's part.
    pub clusters: Vec<Part>,
    /// What happened, in order of time.
    pub timeline: Vec<Moment>,
    /// How many moments the timeline leaves out at its end.
    pub left_out: usize,
    /// Its end: the horizon, or the last printed moment if some are left out.
    pub until_ms: f64,
}

/// One cluster in a behaviour.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its measure in ms; none if the query is not about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure_ms: Option<f64>,
    /// Its phase.
    pub phase_ms: f64,
    /// Its period.
    pub period_ms: f64,
    /// Updates generated, held back, dropped, merged and arrived.
    pub generated: u64,
    /// See above.
    pub held_back: u64,
    /// See above.
    pub dropped: u64,
    /// See above.
    pub merged: u64,
    /// See above.
    pub arrived: u64,
}

/// An event.
#[derive(Debug, Clone, Serialize)]
pub struct Moment {
    /// Its time.
    pub at_ms: f64,
    /// Its cluster.
    pub cluster: String,
    /// "held_back", "appended", "merged", "dropped", "leaves" or "arrives".
    pub what: &'static str,
    /// Its worker, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// Of an arrival: when the newest update in it was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_ms: Option<f64>,
}

/// The most moments of a timeline that are printed.
pub(crate) const MOST_MOMENTS: usize = 400;

/// In ms, for people.
pub(crate) fn millis(nanos: &Exact) -> f64 {
    nanos.to_f64().unwrap_or(f64::NAN) / 1e6
}

/// A time for people: at most six digits behind the point, without trailing zeros.
pub(crate) fn shown(nanos: &Exact) -> String {
    format!("{} ms", trimmed(millis(nanos)))
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Query {
    /// The names of its clusters.
    pub(crate) fn names(&self, scenario: &Scenario) -> Vec<String> {
        self.clusters.iter().map(|at| scenario.clusters[*at].name.clone()).collect()
    }

    /// The question in words.
    #[must_use]
    pub fn words(&self, scenario: &Scenario) -> String {
        let of = if self.clusters.len() == scenario.clusters.len() {
            "all clusters".to_owned()
        } else {
            self.names(scenario).join(", ")
        };
        let measure = self.measure.name();
        match &self.objective {
            Objective::Difference(most) => {
                format!("{measure} ages of {of} differ by at most {}", shown(most))
            }
            Objective::Bound(most) => format!("{measure} age of {of} is at most {}", shown(most)),
            Objective::Jain(least) => {
                let least = trimmed(least.to_f64().unwrap_or(f64::NAN));
                format!("Jain's index of the {measure} ages of {of} is at least {least}")
            }
        }
    }

    /// The result, in one line.
    pub(crate) fn outcome(&self, scenario: &Scenario, judged: &Judged) -> String {
        let part = |cluster: usize| {
            let at = self.clusters.iter().position(|other| *other == cluster).unwrap_or_default();
            format!("{} {}", scenario.clusters[cluster].name, shown(&judged.measures[at]))
        };
        let parts: Vec<String> = judged.deciding.iter().map(|cluster| part(*cluster)).collect();
        match &self.objective {
            Objective::Difference(_) => format!("{}: {} apart", parts.join(", "), shown(&judged.value)),
            Objective::Bound(_) => parts.join(", "),
            Objective::Jain(_) => {
                format!("Jain's index is {}", trimmed(judged.value.to_f64().unwrap_or(f64::NAN)))
            }
        }
    }

    pub(crate) const fn quantifier_name(&self) -> &'static str {
        match self.quantifier {
            Quantifier::ForAll => "forall",
            Quantifier::Exists => "exists",
        }
    }
}

impl Example {
    pub(crate) fn new(
        scenario: &Scenario,
        query: &Query,
        choice: &Choice,
        run: &Run,
        judged: &Judged,
    ) -> Self {
        let part = |(index, cluster): (usize, &crate::scenario::Cluster)| {
            let totals = run.totals[index];
            let asked = query.clusters.iter().position(|other| *other == index);
            Part {
                name: cluster.name.clone(),
                measure_ms: asked.map(|at| millis(&judged.measures[at])),
                phase_ms: millis(&choice.phases[index]),
                period_ms: millis(&choice.periods[index]),
                generated: totals.generated,
                held_back: totals.held_back,
                dropped: totals.dropped,
                merged: totals.merged,
                arrived: totals.arrived,
            }
        };
        let value = match query.objective {
            Objective::Jain(_) => judged.value.to_f64().unwrap_or(f64::NAN),
            _ => millis(&judged.value),
        };
        let told = &run.events[..run.events.len().min(MOST_MOMENTS)];
        let left_out = run.happened.saturating_sub(told.len());
        let until = match told.last() {
            Some(last) if left_out > 0 => run.nanos(last.at),
            _ => scenario.horizon.clone(),
        };
        Self {
            value,
            clusters: scenario.clusters.iter().enumerate().map(part).collect(),
            timeline: told.iter().map(|event| moment(scenario, run, event)).collect(),
            left_out,
            until_ms: millis(&until),
        }
    }
}

fn moment(scenario: &Scenario, run: &Run, event: &Event) -> Moment {
    let what = match event.what {
        Happening::HeldBack => "held_back",
        Happening::Appended(_) => "appended",
        Happening::Merged => "merged",
        Happening::Dropped => "dropped",
        Happening::Leaves => "leaves",
        Happening::Arrives(_) => "arrives",
    };
    let generated = match event.what {
        Happening::Arrives(generated) => Some(millis(&run.nanos(generated))),
        _ => None,
    };
    Moment {
        at_ms: millis(&run.nanos(event.at)),
        cluster: scenario.clusters[event.cluster].name.clone(),
        what,
        worker: event.worker,
        generated_ms: generated,
    }
}

/// Lines of a timeline that are printed.
const LINES: usize = 40;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for answer in &self.queries {
            writeln!(f, "{}: {} ({})", answer.name, answer.verdict.name(), answer.quantifier)?;
            writeln!(f, "  asked    {}", answer.asked)?;
            writeln!(f, "  because  {}", answer.because)?;
            if let Some(example) = &answer.example {
                example.table(f)?;
                // Print the behaviour if it explains the verdict: a failure, or an example.
                if (answer.verdict == Verdict::Fails) != (answer.quantifier == "exists") {
                    example.timeline(f)?;
                }
            }
        }
        let how = if self.method == Method::Exact { "evaluated event by event" } else { "decided by Z3" };
        write!(f, "{}: {how}, model {}, {:.3} s", self.verdict.name(), self.model, self.seconds)
    }
}

impl Example {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  cluster           phase ms  period ms  sent of  dropped  merged  arrived  measure ms"
        )?;
        for part in &self.clusters {
            let sent = format!("{} of {}", part.generated - part.held_back, part.generated);
            let measure = part.measure_ms.map_or("-".to_owned(), |measure| format!("{measure:.3}"));
            writeln!(
                f,
                "  {:<14} {:>11.3} {:>10.3} {sent:>8} {:>8} {:>7} {:>8} {measure:>11}",
                part.name, part.phase_ms, part.period_ms, part.dropped, part.merged, part.arrived
            )?;
        }
        Ok(())
    }

    fn timeline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for moment in self.timeline.iter().take(LINES) {
            let mut line = format!("  {:>12.6} ms  {:<14} {}", moment.at_ms, moment.cluster, moment.what);
            if let Some(worker) = moment.worker {
                let _ = write!(line, " (worker {worker})");
            }
            if let Some(generated) = moment.generated_ms {
                let _ = write!(line, " (generated at {generated:.6} ms)");
            }
            writeln!(f, "{line}")?;
        }
        let more = self.left_out + self.timeline.len().saturating_sub(LINES);
        if more > 0 {
            writeln!(f, "  and {more} more, up to 400 of all with --json")?;
        }
        Ok(())
    }
}
