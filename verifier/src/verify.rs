//! The whole verification.

use std::time::Instant;

use crate::error::VerifyError;
use crate::exact::{Choice, Run, evaluate};
use crate::judge::judge;
use crate::report::{Answer, Example, Method, Report, Verdict};
use crate::scenario::{Query, Scenario};

/// Answers every query of a scenario.
///
/// # Errors
/// [`VerifyError`]; its [`exit_code`](VerifyError::exit_code) tells a time limit from everything else.
pub fn verify(scenario: &Scenario) -> Result<Report, VerifyError> {
    let began = Instant::now();
    if !scenario.is_determined() {
        return Err(VerifyError::Open);
    }
    let choice = Choice::lowest(scenario);
    let run = evaluate(scenario, &choice, true)?;
    let queries: Vec<Answer> =
        scenario.queries.iter().map(|query| determined(scenario, query, &choice, &run)).collect();
    let fails = queries.iter().any(|answer| answer.verdict == Verdict::Fails);
    Ok(Report {
        verdict: if fails { Verdict::Fails } else { Verdict::Holds },
        method: Method::Exact,
        seconds: began.elapsed().as_secs_f64(),
        queries,
    })
}

fn determined(scenario: &Scenario, query: &Query, choice: &Choice, run: &Run) -> Answer {
    let judged = judge(query, run);
    Answer {
        name: query.name.clone(),
        asked: query.words(scenario),
        quantifier: query.quantifier_name(),
        verdict: if judged.holds { Verdict::Holds } else { Verdict::Fails },
        because: query.outcome(scenario, &judged),
        example: Some(Example::new(scenario, query, choice, run, &judged)),
    }
}
