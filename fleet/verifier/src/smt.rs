//! Open scenarios, as questions to Z3.

mod encode;
mod flow;
pub(crate) mod paper;
mod solver;
mod term;

use num_traits::{One as _, Zero as _};

use self::encode::Encoding;
use self::solver::{Found, ask, values};
use self::term::{Cond, Num, Smt};
use crate::deadline::Deadline;
use crate::error::VerifyError;
use crate::exact::{Choice, Limits, MOST_UPDATES, Run, evaluate};
use crate::judge::{Judged, judge};
use crate::report::MOST_MOMENTS;
use crate::scenario::{Exact, Objective, Quantifier, Query, Scenario};

#[cfg(test)]
mod tests;

/// The parameters of a question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) deadline: Deadline,
    /// The longest text, in bytes.
    pub(crate) room: usize,
    /// Whether texts are kept for the user.
    pub(crate) keep: bool,
    /// False: leave even conditions that bounds decide to the solver. For tests.
    pub(crate) fold: bool,
}

/// A behaviour found by the solver, repeated by evaluation.
pub(crate) struct Behaviour {
    pub(crate) choice: Choice,
    pub(crate) run: Run,
    pub(crate) judged: Judged,
}

/// Searches a behaviour that violates a query for all, or satisfies a query for some. None: there is none,
/// proven.
pub(crate) fn look(
    scenario: &Scenario,
    query: &Query,
    asking: &Asking,
    texts: &mut Vec<String>,
) -> Result<Option<Behaviour>, VerifyError> {
    let encoding = Encoding::new(scenario, query, asking)?;
    let text = encoding.text();
    if asking.keep {
        texts.push(text.clone());
    }
    let Found::Sat(answer) = ask(&text, asking)? else { return Ok(None) };
    let choice = encoding.choice(scenario, &values(&answer)?);
    let wanted = query.quantifier == Quantifier::Exists;
    let repeated = |choice: Choice| -> Result<Behaviour, VerifyError> {
        let limits = Limits { updates: MOST_UPDATES, events: MOST_MOMENTS, deadline: asking.deadline };
        let run = evaluate(scenario, &choice, &limits)?;
        let judged = judge(query, &run);
        Ok(Behaviour { choice, run, judged })
    };
    let behaviour = match repeated(choice.clone()) {
        // Rounded to whole nanoseconds, if fractions have no common grain.
        Err(VerifyError::TooFine) => repeated(choice.rounded())?,
        other => other?,
    };
    if behaviour.judged.holds == wanted {
        Ok(Some(behaviour))
    } else {
        Err(VerifyError::Solver("evaluation does not confirm the behaviour that it found".to_owned()))
    }
}

/// The measures' condition: the query's, or its negation.
fn condition(smt: &mut Smt, query: &Query, measures: &[Num]) -> Result<Cond, VerifyError> {
    let holds = match &query.objective {
        Objective::Bound(most) => {
            let most = Num::known(most.clone());
            let each = measures.iter().map(|measure| smt.le(measure, &most)).collect();
            smt.all(each)
        }
        Objective::Difference(most) => {
            let mut each = Vec::new();
            for (at, first) in measures.iter().enumerate() {
                smt.check()?;
                for second in &measures[at + 1..] {
                    for (a, b) in [(first, second), (second, first)] {
                        let limit = smt.add(b, &Num::known(most.clone()));
                        each.push(smt.le(a, &limit));
                    }
                }
            }
            smt.all(each)
        }
        Objective::Jain(least) => {
            let sum = smt.sum(measures);
            let squares: Vec<Num> = measures.iter().map(|measure| smt.product(measure, measure)).collect();
            let squares = smt.sum(&squares);
            let count = Exact::from_integer(measures.len().into());
            let right = smt.scale(&squares, &(least * count));
            let left = smt.product(&sum, &sum);
            smt.le(&right, &left)
        }
    };
    Ok(match query.quantifier {
        Quantifier::ForAll => smt.not(&holds),
        Quantifier::Exists => holds,
    })
}

impl Choice {
    fn rounded(&self) -> Self {
        let round = |times: &[Exact]| times.iter().map(Exact::round).collect();
        Self { phases: round(&self.phases), periods: round(&self.periods), coins: self.coins.clone() }
    }
}

/// 0 and 1.
fn ends() -> (Exact, Exact) {
    (Exact::zero(), Exact::one())
}
