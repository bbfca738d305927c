//! The file's keys as written, and the accepted scenario.

mod values;

use std::path::Path;

use num_traits::Zero as _;
use serde::Deserialize;
use toml::Spanned;

use self::values::{Range, Reader};
use crate::error::VerifyError;
use crate::scenario::{
    Cluster, Coins, Control, Discipline, Exact, Measure, Objective, Quantifier, Query, Queue, Scenario, Span,
    Spread,
};

#[cfg(test)]
mod tests;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    horizon: Spanned<String>,
    from: Option<Spanned<String>>,
    reply: Option<Spanned<String>>,
    queue: Spanned<RawQueue>,
    #[serde(default)]
    clusters: Vec<Spanned<RawCluster>>,
    #[serde(default)]
    query: Vec<Spanned<RawQuery>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQueue {
    discipline: Option<Spanned<String>>,
    length: Spanned<u16>,
    service: Option<Spanned<String>>,
    update: Option<Spanned<String>>,
    line: Option<Spanned<String>>,
    #[serde(default)]
    held: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCluster {
    name: Spanned<String>,
    count: Option<Spanned<u16>>,
    workers: Option<Spanned<u16>>,
    spread: Option<Spanned<String>>,
    period: Option<Spanned<Range>>,
    rate: Option<Spanned<Range>>,
    phase: Option<Spanned<Range>>,
    control: Option<RawControl>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawControl {
    threshold: Spanned<String>,
    slope: Spanned<String>,
    coins: Option<Spanned<RawCoins>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "\"any\", or a whole number: a seed")]
enum RawCoins {
    Seed(u64),
    Word(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuery {
    name: Option<String>,
    measure: Spanned<String>,
    difference: Option<Spanned<String>>,
    bound: Option<Spanned<String>>,
    jain: Option<Spanned<f64>>,
    clusters: Option<Vec<Spanned<String>>>,
    quantifier: Option<Spanned<String>>,
}

/// The most clusters.
const MOST_CLUSTERS: usize = 10_000;
/// The most clusters times queries: each query's answer has each cluster.
const MOST_ANSWERS: usize = 1_000_000;

impl Scenario {
    /// Reads a scenario; `file` is for messages.
    ///
    /// # Errors
    /// [`VerifyError::File`] with line, column and remedy.
    pub fn parse(text: &str, file: &Path) -> Result<Self, VerifyError> {
        let reader = Reader { text, file };
        let raw: Raw = toml::from_str(text).map_err(|error| reader.syntax(&error))?;
        let horizon = reader.time(&raw.horizon)?;
        if horizon.is_zero() {
            return Err(reader.error(&raw.horizon, "a horizon of zero", "write a longer one, e.g. \"3s\""));
        }
        let from = raw.from.as_ref().map_or(Ok(Exact::zero()), |from| reader.time(from))?;
        if let Some(written) = raw.from.as_ref().filter(|_| from >= horizon) {
            let remedy = "begin to measure earlier, or make the horizon longer";
            return Err(reader.error(written, "`from` is not before the horizon", remedy));
        }
        let mut clusters = Vec::new();
        for written in &raw.clusters {
            reader.clusters(written, &mut clusters)?;
        }
        if clusters.is_empty() {
            let remedy = "add e.g. [[clusters]] with name = \"a\" and period = \"100ms\"";
            return Err(reader.at(None, "there is no table [[clusters]]", remedy));
        }
        let most = MOST_ANSWERS / clusters.len();
        if let Some(written) = raw.query.get(most) {
            let message = format!("more than {most} queries of a file with {} clusters", clusters.len());
            return Err(reader.error(written, &message, "ask them in several files"));
        }
        let queries: Result<Vec<Query>, _> =
            raw.query.iter().enumerate().map(|(at, query)| reader.query(at, query, &clusters)).collect();
        let queries = queries?;
        if queries.is_empty() {
            let remedy = "add e.g. [[query]] with measure = \"peak\" and bound = \"200ms\"";
            return Err(reader.at(None, "there is no table [[query]]: nothing is asked", remedy));
        }
        Ok(Self {
            queue: reader.queue(&raw.queue)?,
            reply: raw.reply.as_ref().map_or(Ok(Exact::zero()), |reply| reader.time(reply))?,
            from,
            horizon,
            clusters,
            queries,
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or if it cannot be read.
    pub fn load(file: &Path) -> Result<Self, VerifyError> {
        let text = std::fs::read_to_string(file).map_err(|error| VerifyError::File {
            file: file.to_owned(),
            place: None,
            message: error.to_string(),
            remedy: "name a file as docs/verification.md describes it".to_owned(),
        })?;
        Self::parse(&text, file)
    }
}

impl Reader<'_> {
    fn queue(&self, written: &Spanned<RawQueue>) -> Result<Queue, VerifyError> {
        let raw = written.get_ref();
        let discipline = self.word(
            raw.discipline.as_ref(),
            Discipline::Olaf,
            &[("olaf", Discipline::Olaf), ("fifo", Discipline::Fifo)],
        )?;
        if *raw.length.get_ref() == 0 {
            return Err(self.error(&raw.length, "a queue of 0 updates holds nothing", "write 1 or more"));
        }
        let service = match (&raw.service, &raw.update, &raw.line) {
            (Some(service), None, None) => {
                let time = self.time(service)?;
                if time.is_zero() {
                    let remedy = "write how long one update takes on the line, e.g. \"2ms\"";
                    return Err(self.error(service, "a service time of zero", remedy));
                }
                time
            }
            (None, Some(update), Some(line)) => {
                let bits = self.quantity(update, &values::SIZES)?;
                let rate = self.quantity(line, &values::RATES)?;
                bits / rate * Exact::from_integer(1_000_000_000.into())
            }
            _ => {
                let remedy = "write `service = \"2ms\"`, or `update = \"1kB\"` and `line = \"1Mbit/s\"`";
                return Err(self.error(written, "the service time p/C is not said, or said twice", remedy));
            }
        };
        Ok(Queue { discipline, length: *raw.length.get_ref(), service, held: raw.held })
    }

    /// Adds what one table says: `count` clusters.
    fn clusters(
        &self,
        written: &Spanned<RawCluster>,
        clusters: &mut Vec<Cluster>,
    ) -> Result<(), VerifyError> {
        let raw = written.get_ref();
        let count = raw.count.as_ref().map_or(1, |count| *count.get_ref());
        let workers = raw.workers.as_ref().map_or(1, |workers| *workers.get_ref());
        if let Some(place) = raw.count.as_ref().filter(|_| count == 0) {
            return Err(self.error(place, "0 clusters", "write 1 or more, or leave the table out"));
        }
        if let Some(place) = raw.workers.as_ref().filter(|_| workers == 0) {
            return Err(self.error(place, "a cluster of 0 workers sends nothing", "write 1 or more"));
        }
        let period = match (&raw.period, &raw.rate) {
            (Some(period), None) => self.times(period)?,
            (None, Some(rate)) => self.periods(rate)?,
            _ => {
                let remedy = "write either `period = \"100ms\"` or `rate = \"10/s\"`";
                return Err(self.error(written, "neither period nor rate is said, or both", remedy));
            }
        };
        if period.low.is_zero() {
            let place = raw.period.as_ref().map_or(written.span(), Spanned::span);
            let remedy = "write a longer one, e.g. \"100ms\"";
            return Err(self.at(Some(place), "a period of zero", remedy));
        }
        let spread = self.word(
            raw.spread.as_ref(),
            Spread::Even,
            &[("even", Spread::Even), ("together", Spread::Together)],
        )?;
        let phase = raw.phase.as_ref().map_or(Ok(Span::known(Exact::zero())), |phase| self.times(phase))?;
        let control = raw.control.as_ref().map(|control| self.control(control)).transpose()?;
        if clusters.len() + usize::from(count) > MOST_CLUSTERS {
            let message = format!("more than {MOST_CLUSTERS} clusters");
            return Err(self.error(written, &message, "verify a part of them"));
        }
        for index in 1..=count {
            let name = raw.name.get_ref();
            let name = if count == 1 { name.clone() } else { format!("{name}-{index}") };
            if name.is_empty() || clusters.iter().any(|other| other.name == name) {
                let message = format!("the name {name:?} is empty or taken");
                return Err(self.error(&raw.name, &message, "give each cluster a name of its own"));
            }
            let (period, phase, control) = (period.clone(), phase.clone(), control.clone());
            clusters.push(Cluster { name, workers, spread, period, phase, control });
        }
        Ok(())
    }

    fn control(&self, raw: &RawControl) -> Result<Control, VerifyError> {
        let threshold = self.time(&raw.threshold)?;
        if threshold.is_zero() {
            let remedy = "write a longer one, e.g. \"400ms\"";
            return Err(self.error(&raw.threshold, "a threshold of zero", remedy));
        }
        let second = Exact::from_integer(1_000_000_000.into());
        let slope = match raw.slope.get_ref().as_str() {
            "urgency" => threshold.recip(),
            // Δ_T in seconds, per second.
            "fairness" => &threshold / (&second * &second),
            _ => self.quantity(&raw.slope, &values::SLOPES)? / second,
        };
        let coins = match raw.coins.as_ref().map(|coins| (coins, coins.get_ref())) {
            None => Coins::Any,
            Some((_, RawCoins::Seed(seed))) => Coins::Seed(*seed),
            Some((_, RawCoins::Word(word))) if word == "any" => Coins::Any,
            Some((place, RawCoins::Word(word))) => {
                return Err(self.error(place, &format!("{word:?}"), "write \"any\", or a seed, e.g. 7"));
            }
        };
        Ok(Control { threshold, slope, coins })
    }

    fn query(
        &self,
        at: usize,
        written: &Spanned<RawQuery>,
        clusters: &[Cluster],
    ) -> Result<Query, VerifyError> {
        let raw = written.get_ref();
        let measure = self.word(
            Some(&raw.measure),
            Measure::Mean,
            &Measure::ALL.map(|measure| (measure.name(), measure)),
        )?;
        let objective = match (&raw.difference, &raw.bound, &raw.jain) {
            (Some(most), None, None) => Objective::Difference(self.time(most)?),
            (None, Some(most), None) => Objective::Bound(self.time(most)?),
            (None, None, Some(least)) => {
                let value = values::decimal(&least.get_ref().to_string());
                let within =
                    |value: &Exact| *value > Exact::zero() && *value <= Exact::from_integer(1.into());
                let value = value.filter(within).ok_or_else(|| {
                    let message =
                        format!("Jain's index is never {} or above it for a reason", least.get_ref());
                    self.error(least, &message, "write a number above 0, at most 1, e.g. 0.95")
                })?;
                Objective::Jain(value)
            }
            _ => {
                let remedy = "write one of `difference = \"100us\"`, `bound = \"200ms\"`, `jain = 0.95`";
                return Err(self.error(written, "a query has exactly one objective", remedy));
            }
        };
        let mut asked = Vec::new();
        for name in raw.clusters.iter().flatten() {
            let index = clusters.iter().position(|cluster| cluster.name == *name.get_ref());
            match index.filter(|index| !asked.contains(index)) {
                Some(index) => asked.push(index),
                None => {
                    let message = format!("there is no cluster {:?}, or it is named twice", name.get_ref());
                    return Err(self.error(name, &message, "name clusters of this file, each once"));
                }
            }
        }
        if raw.clusters.is_none() {
            asked = (0..clusters.len()).collect();
        }
        let least = if matches!(objective, Objective::Bound(_)) { 1 } else { 2 };
        if asked.len() < least {
            let message = format!("the query is about {} clusters, it needs {least}", asked.len());
            return Err(self.error(written, &message, "name more in `clusters`, or ask for a `bound`"));
        }
        let quantifier = self.word(
            raw.quantifier.as_ref(),
            Quantifier::ForAll,
            &[("forall", Quantifier::ForAll), ("exists", Quantifier::Exists)],
        )?;
        let name = raw.name.clone().unwrap_or_else(|| format!("query {}", at + 1));
        Ok(Query { name, measure, objective, clusters: asked, quantifier })
    }
}
