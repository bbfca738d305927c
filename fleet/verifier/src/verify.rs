//! The whole verification.

use std::fmt::Write as _;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::error::VerifyError;
use crate::exact::{Choice, Limits, MOST_UPDATES, Run, evaluate};
use crate::judge::judge;
use crate::report::{Answer, Example, MOST_MOMENTS, Method, Report, Verdict, shown};
use crate::scenario::{Quantifier, Query, Scenario, Span};
use crate::smt::{Asking, Behaviour, look, paper};

/// The constraints used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Model {
    /// The queue that is shipped.
    #[default]
    Olaf,
    /// What Olaf's sections 12.2 and 12.3 print.
    Paper,
}

/// Options of a verification.
#[derive(Debug, Clone)]
pub struct Options {
    /// The constraints used.
    pub model: Model,
    /// The longest that all queries may take together; a week at most.
    pub time_limit: Duration,
    /// The most updates up to the horizon, which limits the memory of an evaluation.
    pub updates: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: Model::Olaf, time_limit: Duration::from_secs(60), updates: MOST_UPDATES }
    }
}

/// The most updates that the solver is asked about: its texts grow with their square.
const MOST_ASKED: u64 = 3_000;
/// The longest text: hundreds of times as long as those of clients/examples/verify.
const LONGEST_TEXT: usize = 32 << 20;

/// Answers every query of a scenario.
///
/// # Errors [`VerifyError`]; its [`exit_code`](VerifyError::exit_code) distinguishes a time limit from other
/// errors.
pub fn verify(scenario: &Scenario, options: &Options) -> Result<Report, VerifyError> {
    answered(scenario, options, None)
}

/// As [`verify`], and also returns the questions to the solver, in SMT-LIB 2, one text each.
///
/// # Errors As [`verify`]; the texts so far are returned.
pub fn verify_with(
    scenario: &Scenario,
    options: &Options,
    texts: &mut Vec<String>,
) -> Result<Report, VerifyError> {
    answered(scenario, options, Some(texts))
}

fn answered(
    scenario: &Scenario,
    options: &Options,
    texts: Option<&mut Vec<String>>,
) -> Result<Report, VerifyError> {
    let began = Instant::now();
    let exact = options.model == Model::Olaf && scenario.is_determined();
    let deadline = Deadline::within(options.time_limit);
    let asking = Asking { deadline, fold: true, room: LONGEST_TEXT, keep: texts.is_some() };
    let most = options.updates.min(if exact { MOST_UPDATES } else { MOST_ASKED });
    scenario.at_most(most)?;
    let queries: Result<Vec<Answer>, VerifyError> = if exact {
        let choice = Choice::lowest(scenario);
        let run = evaluate(scenario, &choice, &Limits { updates: most, events: MOST_MOMENTS, deadline })?;
        let queries = scenario.queries.iter();
        queries.map(|query| deadline.check().map(|()| determined(scenario, query, &choice, &run))).collect()
    } else if options.model == Model::Paper {
        each(scenario, texts, |query, texts| paper::answer(scenario, query, &asking, texts))
    } else {
        each(scenario, texts, |query, texts| asked(scenario, query, &asking, texts))
    };
    let queries = queries?;
    let any = |verdict| queries.iter().any(|answer| answer.verdict == verdict);
    let verdict = if any(Verdict::Fails) {
        Verdict::Fails
    } else if any(Verdict::Vacuous) {
        Verdict::Vacuous
    } else {
        Verdict::Holds
    };
    Ok(Report {
        verdict,
        method: if exact { Method::Exact } else { Method::Z3 },
        model: if options.model == Model::Paper { "paper" } else { "olaf" },
        seconds: began.elapsed().as_secs_f64(),
        queries,
    })
}

/// Answers the queries, in parallel on all cores: each has a solver of its own.
fn each(
    scenario: &Scenario,
    texts: Option<&mut Vec<String>>,
    ask: impl Fn(&Query, &mut Vec<String>) -> Result<Answer, VerifyError> + Sync,
) -> Result<Vec<Answer>, VerifyError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let ask = &|query: &Query| {
        let mut own = Vec::new();
        (ask(query, &mut own), own)
    };
    let (mut answers, mut kept) = (Vec::new(), Vec::new());
    let texts = texts.unwrap_or(&mut kept);
    for queries in scenario.queries.chunks(cores) {
        let made: Vec<_> = thread::scope(|scope| {
            let asked: Vec<_> = queries.iter().map(|query| scope.spawn(move || ask(query))).collect();
            asked.into_iter().map(ScopedJoinHandle::join).collect()
        });
        for one in made {
            let (answer, own) = one.unwrap_or_else(|panic| resume_unwind(panic));
            texts.extend(own);
            answers.push(answer?);
        }
    }
    Ok(answers)
}

fn determined(scenario: &Scenario, query: &Query, choice: &Choice, run: &Run) -> Answer {
    let judged = judge(query, run);
    Answer {
        name: query.name.clone(),
        asked: query.words(scenario),
        clusters: query.names(scenario),
        quantifier: query.quantifier_name(),
        verdict: if judged.holds { Verdict::Holds } else { Verdict::Fails },
        because: query.outcome(scenario, &judged),
        example: Some(Example::new(scenario, query, choice, run, &judged)),
    }
}

fn asked(
    scenario: &Scenario,
    query: &Query,
    asking: &Asking,
    texts: &mut Vec<String>,
) -> Result<Answer, VerifyError> {
    let found = look(scenario, query, asking, texts)?;
    let exists = query.quantifier == Quantifier::Exists;
    let because = match &found {
        Some(Behaviour { choice, judged, .. }) => {
            format!("{}{}", query.outcome(scenario, judged), chosen(scenario, choice))
        }
        None if exists => "proven: no phases, periods and coins satisfy it".to_owned(),
        None => "proven: no phases, periods and coins violate it".to_owned(),
    };
    let example = found
        .as_ref()
        .map(|Behaviour { choice, run, judged }| Example::new(scenario, query, choice, run, judged));
    Ok(Answer {
        name: query.name.clone(),
        asked: query.words(scenario),
        clusters: query.names(scenario),
        quantifier: query.quantifier_name(),
        verdict: if found.is_some() == exists { Verdict::Holds } else { Verdict::Fails },
        because,
        example,
    })
}

/// The chosen values of open ones, in words.
fn chosen(scenario: &Scenario, choice: &Choice) -> String {
    let mut words = String::new();
    for (index, cluster) in scenario.clusters.iter().enumerate() {
        let mut open = |span: &Span, what: &str, time| {
            if !span.is_known() {
                let _ = write!(words, ", {what} of {} {}", cluster.name, shown(time));
            }
        };
        open(&cluster.phase, "phase", &choice.phases[index]);
        open(&cluster.period, "period", &choice.periods[index]);
        if let Some(coins) = &choice.coins[index] {
            let tails = coins.iter().filter(|coin| !**coin).count();
            let _ = write!(words, ", {tails} of {} coins of {} tails", coins.len(), cluster.name);
        }
    }
    words
}
