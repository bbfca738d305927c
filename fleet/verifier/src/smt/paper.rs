//! The constraints as printed in Olaf's sections 12.2 and 12.3.
//!
//! They are no queue: an update that a later one of its cluster overtakes has D = 0, which satisfies its own
//! condition D ≤ A(k+1) and so contradicts D = A + T_Q. Whether they have any solution is asked first.

use super::solver::{Found, Value, ask, values};
use super::term::{Cond, Num, Smt};
use super::{Asking, condition};
use crate::error::VerifyError;
use crate::report::{Answer, Verdict, shown};
use crate::scenario::{Exact, Measure, Quantifier, Query, Scenario};

/// Groups of constraints: name for the solver, and for people.
const GROUPS: [(&str, &str); 3] = [
    ("departure", "D(k) = (A(k) + T_Q(k)) · 1{D(k) ≤ A(k+1)} (12.2, first)"),
    ("waiting", "T_Q(k) = Q_k · p/C with the printed Q_k (12.2, second; 12.3)"),
    ("spacing", "D of different clusters differ by p/C or more, b > a (12.2, third)"),
];

/// One update: when it arrives, when the next one does, and D.
struct Update {
    arrives: Num,
    next: Num,
    departs: Num,
    waits: Num,
}

struct Paper {
    smt: Smt,
    flows: Vec<Vec<Update>>,
}

/// Answers a query under the printed constraints.
pub(crate) fn answer(
    scenario: &Scenario,
    query: &Query,
    asking: &Asking,
    texts: &mut Vec<String>,
) -> Result<Answer, VerifyError> {
    if query.measure != Measure::Peak {
        return Err(VerifyError::Meaningless(format!(
            "query {:?} asks for the {} age; the printed constraints define peaks only",
            query.name,
            query.measure.name()
        )));
    }
    let mut paper = Paper::new(scenario, asking)?;
    let check =
        format!("(check-sat-assuming ({0}))\n(get-unsat-core)\n", GROUPS.map(|(name, _)| name).join(" "));
    let options = "(set-option :produce-unsat-cores true)\n(set-option :smt.core.minimize true)\n";
    let text = format!("{options}{}{check}", paper.smt.text);
    if asking.keep {
        texts.push(text.clone());
    }
    let told = |verdict, because| Answer {
        name: query.name.clone(),
        asked: query.words(scenario),
        clusters: query.names(scenario),
        quantifier: query.quantifier_name(),
        verdict,
        because,
        example: None,
    };
    if let Found::Unsat(core) = ask(&text, asking)? {
        let groups: Vec<&str> =
            GROUPS.iter().filter(|(name, _)| core.contains(name)).map(|(_, words)| *words).collect();
        let because = format!("without the query already, nothing satisfies: {}", groups.join("; "));
        return Ok(told(Verdict::Vacuous, because));
    }
    let measures: Vec<Num> = query.clusters.iter().map(|cluster| paper.peak(*cluster)).collect();
    let condition = condition(&mut paper.smt, query, &measures)?;
    paper.smt.assert(&condition);
    let names: Vec<String> = measures
        .iter()
        .enumerate()
        .map(|(at, measure)| paper.smt.alias(&format!("measure_{at}"), measure))
        .collect();
    let groups = GROUPS.map(|(name, _)| name).join(" ");
    let names = names.join(" ");
    let text = format!("{}(check-sat-assuming ({groups}))\n(get-value ({names}))\n", paper.smt.text);
    if asking.keep {
        texts.push(text.clone());
    }
    let found = ask(&text, asking)?;
    let (verdict, because) = outcome(scenario, query, found)?;
    Ok(told(verdict, because))
}

/// The meaning of the solver's answer to a query, given that the constraints have a solution.
fn outcome(scenario: &Scenario, query: &Query, found: Found) -> Result<(Verdict, String), VerifyError> {
    let exists = query.quantifier == Quantifier::Exists;
    let Found::Sat(said) = found else {
        let verdict = if exists { Verdict::Fails } else { Verdict::Holds };
        let does = if exists { "satisfies" } else { "violates" };
        return Ok((verdict, format!("proven: nothing {does} it")));
    };
    let values = values(&said)?;
    let part = |(at, cluster): (usize, &usize)| {
        let value = match values.get(&format!("measure_{at}")) {
            Some(Value::Number(value)) => shown(value),
            _ => "no number".to_owned(),
        };
        format!("{} {value}", scenario.clusters[*cluster].name)
    };
    let parts: Vec<String> = query.clusters.iter().enumerate().map(part).collect();
    let verdict = if exists { Verdict::Holds } else { Verdict::Fails };
    Ok((verdict, format!("for example {}", parts.join(", "))))
}

impl Paper {
    fn new(scenario: &Scenario, asking: &Asking) -> Result<Self, VerifyError> {
        let mut smt = Smt::new(asking);
        for (name, _) in GROUPS {
            let _ = smt.choice(name);
        }
        let count = Exact::from_integer((scenario.clusters.len() + 1).into());
        let latest = &scenario.horizon + &scenario.queue.service * count;
        let mut flows = Vec::new();
        for (cluster, said) in scenario.clusters.iter().enumerate() {
            let mut time = |span: &crate::scenario::Span, what: &str| {
                if span.is_known() {
                    return Num::known(span.low.clone());
                }
                smt.unknown(&format!("{what}_{cluster}"), span.low.clone(), span.high.clone())
            };
            let (phase, period) = (time(&said.phase, "phase"), time(&said.period, "period"));
            let mut arrivals: Vec<Num> = Vec::new();
            for place in said.endless() {
                let offset = smt.scale(&period, &place.factor());
                arrivals.push(smt.add(&phase, &offset));
                // One more than up to the horizon: the last one's A(k+1).
                if arrivals.last().is_some_and(|at| at.high > scenario.horizon) {
                    break;
                }
            }
            let mut flow = Vec::new();
            for (index, pair) in arrivals.windows(2).enumerate() {
                let departs = smt.unknown(&format!("d_{cluster}_{index}"), super::ends().0, latest.clone());
                let waits = smt.unknown(&format!("w_{cluster}_{index}"), super::ends().0, latest.clone());
                let (arrives, next) = (pair[0].clone(), pair[1].clone());
                flow.push(Update { arrives, next, departs, waits });
            }
            flows.push(flow);
        }
        let mut paper = Self { smt, flows };
        paper.constrain(&Num::known(scenario.queue.service.clone()))?;
        Ok(paper)
    }

    fn constrain(&mut self, service: &Num) -> Result<(), VerifyError> {
        let Self { smt, flows } = self;
        for (v, flow) in flows.iter().enumerate() {
            for (k, update) in flow.iter().enumerate() {
                smt.check()?;
                let in_time = smt.le(&update.departs, &update.next);
                let sum = smt.add(&update.arrives, &update.waits);
                let product = smt.ite(&in_time, &sum, &Num::zero());
                smt.implied("departure", &update.departs, "=", &product);
                let mut others = Vec::new();
                for (_, other) in flows.iter().enumerate().filter(|(u, _)| *u != v) {
                    let waiting = other.iter().map(|them| {
                        let earlier = smt.lt(&them.arrives, &update.arrives);
                        let later = smt.lt(&update.arrives, &them.departs);
                        smt.all(vec![earlier, later])
                    });
                    let waiting: Vec<Cond> = waiting.collect();
                    let waiting = smt.any(waiting);
                    others.push(smt.ite(&waiting, service, &Num::zero()));
                }
                let wait = smt.sum(&others);
                smt.implied("waiting", &update.waits, "=", &wait);
                for (_, other) in flows.iter().enumerate().filter(|(u, _)| *u != v) {
                    for them in other.iter().skip(k + 1) {
                        let earliest = smt.add(&update.departs, service);
                        smt.implied("spacing", &them.departs, ">=", &earliest);
                    }
                }
            }
        }
        Ok(())
    }

    /// The average of Δ_p(k) over the updates with D(k) < A(k+1).
    fn peak(&mut self, cluster: usize) -> Num {
        let smt = &mut self.smt;
        let (zero, one) = (Num::zero(), Num::known(super::ends().1));
        let (mut last, mut parts, mut ones) = (Num::zero(), Vec::new(), Vec::new());
        for update in &self.flows[cluster] {
            let leaves = smt.lt(&update.departs, &update.next);
            let peak = smt.sub(&update.departs, &last);
            parts.push(smt.ite(&leaves, &peak, &zero));
            ones.push(smt.ite(&leaves, &one, &zero));
            last = smt.ite(&leaves, &update.arrives, &last);
        }
        let (sum, count) = (smt.sum(&parts), smt.sum(&ones));
        super::encode::average(smt, &sum, &count, &zero)
    }
}
