//! A paper's figure: its rows and curves, and the scope within which it is made.

use std::borrow::Cow;

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::{Value, json};

/// Makes a figure.
type Make = fn(&Scope) -> anyhow::Result<Figure>;

/// A table or figure of a paper that can be made.
pub(crate) struct Entry {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Whether it has seeds; false: it is one run, always the same.
    pub(crate) seeded: bool,
    /// Its contents.
    pub(crate) about: &'static str,
    /// Makes it.
    pub(crate) make: Make,
}

impl Entry {
    /// One with seeds.
    pub(crate) const fn seeded(name: &'static str, about: &'static str, make: Make) -> Self {
        Self { name, seeded: true, about, make }
    }

    /// One that is one run, always the same.
    pub(crate) const fn one_run(name: &'static str, about: &'static str, make: Make) -> Self {
        Self { name, seeded: false, about, make }
    }
}

/// The scope of a run.
pub(crate) struct Scope {
    /// Seeds, where the user has said how many.
    pub(crate) seeds: Option<u64>,
    /// Few seeds and points, small models.
    pub(crate) quick: bool,
    /// Shows progress; only if standard error is a terminal.
    pub(crate) bar: ProgressBar,
}

impl Scope {
    /// The number of seeds: `full`, `quick`, or the user's.
    pub(crate) fn seeds(&self, full: u64, quick: u64) -> u64 {
        self.seeds.unwrap_or(if self.quick { quick } else { full }).max(1)
    }

    /// Applies a function to each item, on all cores. The outcome does not depend on their number.
    ///
    /// # Errors
    /// The error of an item.
    pub(crate) fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        self.bar.inc_length(items.len() as u64);
        let each = items.par_iter().map(|item| {
            let done = work(item);
            self.bar.inc(1);
            done
        });
        each.collect()
    }

    /// Applies a function to each seed from 0 on.
    ///
    /// # Errors
    /// The error of a seed.
    pub(crate) fn each<R: Send>(
        &self,
        seeds: u64,
        work: impl Fn(u64) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        self.map(&(0..seeds).collect::<Vec<_>>(), |&seed| work(seed))
    }
}

/// A figure's contents.
#[derive(Default)]
pub(crate) struct Figure {
    /// Seeds of each row that does not have fewer.
    pub(crate) seeds: u64,
    pub(crate) rows: Vec<Row>,
    /// Drawn as lines, where the paper does.
    pub(crate) curves: Option<Curves>,
}

/// Lines of a picture.
pub(crate) struct Curves {
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// One line of a table.
pub(crate) struct Row {
    /// The varied parameter, and its value.
    pub(crate) point: String,
    /// Method or measure.
    pub(crate) name: String,
    pub(crate) mean: f64,
    /// Standard error of the mean.
    pub(crate) error: f64,
    /// How many seeds, if fewer than the figure's.
    pub(crate) seeds: Option<u64>,
    /// The number in the paper's text.
    pub(crate) paper: Option<f64>,
    pub(crate) unit: &'static str,
    /// Why they differ.
    pub(crate) reason: Cow<'static, str>,
}

impl Row {
    /// The mean of values and its standard error.
    pub(crate) fn of(
        point: impl Into<String>,
        name: impl Into<String>,
        values: &[f64],
        unit: &'static str,
    ) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let (point, name, error) = (point.into(), name.into(), (variance / count).sqrt());
        Self { point, name, mean, error, seeds: None, paper: None, unit, reason: Cow::Borrowed("") }
    }

    /// Of fewer seeds than the figure has.
    pub(crate) fn seeded(self, seeds: u64) -> Self {
        Self { seeds: Some(seeds), ..self }
    }

    /// With the paper's number.
    pub(crate) fn paper(self, number: f64) -> Self {
        Self { paper: Some(number), ..self }
    }

    /// With both, where the paper has a number.
    pub(crate) fn printed(self, number: Option<f64>, reason: &'static str) -> Self {
        match number {
            Some(number) => self.paper(number).because(reason),
            None => self,
        }
    }

    /// With the reason of a deviation.
    pub(crate) fn because(self, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The deviation from the paper: for percentages the difference in points, otherwise relative.
    pub(crate) fn deviation(&self) -> Option<f64> {
        let paper = self.paper?;
        Some(if self.unit == "%" { self.mean - paper } else { self.mean / paper - 1.0 })
    }

    /// The same as text.
    pub(crate) fn deviates(&self) -> String {
        match self.deviation() {
            None => String::new(),
            Some(points) if self.unit == "%" => format!("{points:+.1} points"),
            Some(part) => format!("{:+.1} %", 100.0 * part),
        }
    }

    /// True if it is off by more than a tenth, or ten points, and further than two standard errors of so few
    /// seeds reach, and no reason is given.
    pub(crate) fn unexplained(&self) -> bool {
        let limit = if self.unit == "%" { 10.0 } else { 0.1 };
        let chance = self.paper.is_some_and(|paper| (self.mean - paper).abs() <= 2.0 * self.error);
        self.reason.is_empty() && !chance && self.deviation().is_some_and(|deviation| deviation.abs() > limit)
    }

    fn json(&self, seeds: u64) -> Value {
        json!({ "point": self.point, "name": self.name, "mean": self.mean, "error": self.error,
                "seeds": self.seeds.unwrap_or(seeds), "unit": self.unit, "paper": self.paper,
                "deviation": self.deviation(), "reason": self.reason })
    }
}

impl Figure {
    /// Without rows, for figures that do not depend on seeds.
    pub(crate) fn of_one_run() -> Self {
        Self { seeds: 1, ..Self::default() }
    }

    /// As one object.
    pub(crate) fn json(&self, name: &str) -> Value {
        let curves = self.curves.iter().flat_map(|curves| &curves.lines);
        let curves: Vec<_> = curves.map(|(name, points)| json!({ "name": name, "points": points })).collect();
        let rows: Vec<_> = self.rows.iter().map(|row| row.json(self.seeds)).collect();
        json!({ "figure": name, "seeds": self.seeds, "rows": rows, "curves": curves })
    }

    /// True if a number is NaN or infinite.
    pub(crate) fn broken(&self) -> bool {
        let points = self.curves.iter().flat_map(|curves| &curves.lines).flat_map(|(_, points)| points);
        self.rows.is_empty()
            || self.rows.iter().any(|row| !(row.mean.is_finite() && row.error.is_finite()))
            || points.into_iter().any(|(x, y)| !(x.is_finite() && y.is_finite()))
    }
}

/// A share's distribution: the values' sorted points, at most a hundred.
pub(crate) fn distribution(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let step = values.len().div_ceil(100).max(1);
    let all = values.len() as f64;
    let at = |(number, value): (usize, &f64)| (*value, (number + 1) as f64 / all);
    values.iter().enumerate().skip(step - 1).step_by(step).map(at).collect()
}

/// The value below which this part of all is; 0 of none.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let at = (part * values.len() as f64) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
