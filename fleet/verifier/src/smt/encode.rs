//! A scenario and a query as one text.

use std::collections::HashMap;

use super::flow::Flow;
use super::solver::Value;
use super::term::{Cond, Num, Smt};
use super::{Asking, condition};
use crate::error::VerifyError;
use crate::exact::Choice;
use crate::scenario::{Exact, Measure, Query, Scenario, Spread};

/// The text, and the unknowns left to the solver.
pub(super) struct Encoding {
    smt: Smt,
    names: Vec<String>,
    coins: Vec<(usize, usize, String)>,
}

impl Encoding {
    pub(super) fn new(scenario: &Scenario, query: &Query, asking: &Asking) -> Result<Self, VerifyError> {
        let mut smt = Smt::new(asking);
        let mut names = Vec::new();
        let mut times = Vec::new();
        for (index, cluster) in scenario.clusters.iter().enumerate() {
            let mut time = |span: &crate::scenario::Span, what: &str| {
                if span.is_known() {
                    return Num::known(span.low.clone());
                }
                let name = format!("{what}_{index}");
                let time = smt.unknown(&name, span.low.clone(), span.high.clone());
                names.push(name);
                time
            };
            times.push((time(&cluster.phase, "phase"), time(&cluster.period, "period")));
        }
        let flow = Flow::new(scenario, &mut smt, &times)?;
        let measures: Result<Vec<Num>, VerifyError> = query
            .clusters
            .iter()
            .map(|cluster| measured(&flow, &mut smt, &times[*cluster], *cluster, query.measure))
            .collect();
        let condition = condition(&mut smt, query, &measures?)?;
        smt.assert(&condition);
        let coins = flow.coins;
        names.extend(coins.iter().map(|(.., name)| name.clone()));
        Ok(Self { smt, names, coins })
    }

    /// The whole text. Values are requested twice: those that are no fractions are printed in decimals.
    pub(super) fn text(&self) -> String {
        let names = self.names.join(" ");
        let values = if names.is_empty() {
            String::new()
        } else {
            format!("(get-value ({names}))\n(set-option :pp.decimal true)\n(get-value ({names}))\n")
        };
        format!("(set-option :produce-models true)\n{}(check-sat)\n{values}", self.smt.text)
    }

    /// The solver's values as a choice.
    pub(super) fn choice(&self, scenario: &Scenario, values: &HashMap<String, Value>) -> Choice {
        let mut choice = Choice::lowest(scenario);
        let number = |what: &str, index: usize, time: &mut Exact| {
            if let Some(Value::Number(value)) = values.get(&format!("{what}_{index}")) {
                time.clone_from(value);
            }
        };
        for index in 0..scenario.clusters.len() {
            number("phase", index, &mut choice.phases[index]);
            number("period", index, &mut choice.periods[index]);
        }
        for (cluster, update, name) in &self.coins {
            let coins = choice.coins[*cluster].get_or_insert_default();
            coins.resize(coins.len().max(update + 1), true);
            coins[*update] = values.get(name) == Some(&Value::Truth(true));
        }
        choice
    }
}

/// An update that may change the server's model: when it was generated, whether it arrives, and when.
struct News {
    at: Num,
    place: Exact,
    comes: Cond,
    arrives: Num,
    /// When the one before it was generated.
    before: Num,
}

/// A cluster's measure, in ns.
fn measured(
    flow: &Flow<'_>,
    smt: &mut Smt,
    time: &(Num, Num),
    cluster: usize,
    measure: Measure,
) -> Result<Num, VerifyError> {
    let (news, last) = news(flow, smt, cluster)?;
    let (from, horizon) = (Num::known(flow.scenario.from.clone()), Num::known(flow.scenario.horizon.clone()));
    if measure == Measure::Mean {
        return Ok(mean(smt, &news, time, &from, &horizon));
    }
    let peaks: Vec<(Cond, Num)> = news
        .iter()
        .map(|update| {
            let late = smt.lt(&from, &update.arrives);
            let counts = smt.all(vec![update.comes.clone(), late]);
            (counts, smt.sub(&update.arrives, &update.before))
        })
        .collect();
    let end = smt.sub(&horizon, &last);
    let none = Num::zero();
    if measure == Measure::Highest {
        // The age at the horizon counts, whether it is a peak or not.
        return Ok(peaks.iter().fold(end, |highest, (counts, peak)| {
            let higher = smt.max(&highest, peak);
            smt.ite(counts, &higher, &highest)
        }));
    }
    // The peaks' sum telescopes: the advance of the model's time, and the delays. Its bounds are tight, with
    // the age at the horizon as without.
    let first = news.iter().fold(none.clone(), |first, update| {
        let late = smt.lt(&from, &update.arrives);
        let early = smt.not(&late);
        let before = smt.all(vec![update.comes.clone(), early]);
        smt.ite(&before, &update.at, &first)
    });
    let mut parts = Vec::new();
    for (update, (counts, _)) in news.iter().zip(&peaks) {
        let delay = smt.sub(&update.arrives, &update.at);
        let delay = delay.within(&none.low, &flow.longest_delay());
        parts.push(smt.ite(counts, &delay, &none));
    }
    let one = Num::known(super::ends().1);
    let ones: Vec<Num> = peaks.iter().map(|(counts, _)| smt.ite(counts, &one, &none)).collect();
    let count = smt.sum(&ones);
    let of = |smt: &mut Smt, until: &Num, count: &Num| {
        let mut parts = parts.clone();
        parts.push(smt.sub(until, &first));
        let sum = smt.sum(&parts);
        average(smt, &sum, count, &end)
    };
    let peaks = of(smt, &last, &count);
    let more = smt.add(&count, &one);
    let with_end = of(smt, &horizon, &more);
    Ok(smt.max(&peaks, &with_end))
}

/// sum / count without a division: the count is one of a few whole numbers.
pub(super) fn average(smt: &mut Smt, sum: &Num, count: &Num, end: &Num) -> Num {
    let (zero, one) = super::ends();
    if count.is_known() {
        return if count.low == zero { end.clone() } else { smt.scale(sum, &count.low.recip()) };
    }
    let mut average = end.clone();
    let mut number = if count.low > zero { count.low.clone() } else { one.clone() };
    while number <= count.high {
        let value = smt.scale(sum, &number.recip());
        let known = Num::known(number.clone());
        let more = smt.lt(count, &known);
        let less = smt.lt(&known, count);
        let other = smt.any(vec![more, less]);
        average = smt.ite(&other, &average, &value);
        number += &one;
    }
    average
}

fn mean(smt: &mut Smt, news: &[News], time: &(Num, Num), from: &Num, horizon: &Num) -> Num {
    // The area is ∫ t dt less ∫ G dt, where G is when the server's model was generated: phase + place ·
    // period for as long as it is there.
    let (mut phases, mut periods, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let mut until = horizon.clone();
    for update in news.iter().rev() {
        let begins = smt.max(&update.arrives, from);
        let long = smt.sub(&until, &begins);
        let long = smt.ite(&update.comes, &long, &Num::zero());
        if update.at.is_known() {
            known.push(smt.scale(&long, &update.at.low));
        } else {
            periods.push(smt.scale(&long, &update.place));
            phases.push(long);
        }
        until = smt.ite(&update.comes, &begins, &until);
    }
    let mut parts = vec![smt.sum(&known)];
    if !phases.is_empty() {
        for (lengths, factor) in [(&phases, &time.0), (&periods, &time.1)] {
            let sum = smt.sum(lengths);
            parts.push(smt.product(&sum, factor));
        }
    }
    let model = smt.sum(&parts);
    let (from, horizon) = (&from.low, &horizon.low);
    let half = (horizon * horizon - from * from) / Exact::from_integer(2.into());
    let area = smt.sub(&Num::known(half), &model);
    smt.scale(&area, &(horizon - from).recip())
}

/// A cluster's news, and when the last was generated.
fn news(flow: &Flow<'_>, smt: &mut Smt, cluster: usize) -> Result<(Vec<News>, Num), VerifyError> {
    let deliveries = flow.deliveries(smt, cluster)?;
    let mut last = Num::zero();
    let mut all = Vec::new();
    for (at, (arrives, when)) in flow.of[cluster].iter().zip(deliveries) {
        let update = &flow.updates[*at];
        // Of updates generated together, only the first to arrive is news; of others, all but one of time 0.
        let than =
            if flow.cluster_of(cluster).spread == Spread::Together { last.clone() } else { Num::zero() };
        let newer = smt.lt(&than, &update.at);
        let comes = smt.all(vec![arrives, newer]);
        let before = last.clone();
        last = smt.ite(&comes, &update.at, &last);
        let place = update.place.factor();
        all.push(News { at: update.at.clone(), place, comes, arrives: when, before });
    }
    Ok((all, last))
}
