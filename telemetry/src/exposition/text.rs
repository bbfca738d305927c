//! The two text formats, and exemplars.
//!
//! The library writes OpenMetrics. The older format, which `promtool check metrics` reads, names counters
//! with their suffix in comments, too, and has neither exemplars nor a mark of its end. The library makes
//! exemplars only of values that it has counted itself: those of other histograms are put in here.

use core::fmt::Write as _;
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a scrape is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0, with exemplars.
    OpenMetrics,
}

impl Format {
    /// The one for a request with these media types in `Accept`: OpenMetrics where it is asked for.
    #[must_use]
    pub fn accepted(media_types: &str) -> Self {
        if media_types.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Plain }
    }

    /// Its own media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Where one of the values of a histogram comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar {
    /// The histogram's name without `pascaline_`; one without labels.
    pub metric: &'static str,
    /// What tells where.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
    /// When it was seen.
    pub at: SystemTime,
}

/// Adds exemplars to the buckets that their values belong to, if these have counted anything: one each.
pub(super) fn with_exemplars(text: &str, exemplars: &[Exemplar]) -> String {
    let mut out = String::with_capacity(text.len() + 128 * exemplars.len());
    // The bucket below: its histogram, bound and count.
    let mut below = ("", f64::NEG_INFINITY, 0);
    for line in text.lines() {
        out.push_str(line);
        if let Some((metric, bound, count)) = bucket(line) {
            let (lower, before) = if below.0 == metric { (below.1, below.2) } else { (f64::NEG_INFINITY, 0) };
            let fits = |one: &&Exemplar| one.metric == metric && one.value > lower && one.value <= bound;
            if let Some(one) = exemplars.iter().find(fits).filter(|_| count > before) {
                push(&mut out, one);
            }
            below = (metric, bound, count);
        }
        out.push('\n');
    }
    out
}

/// Histogram, bound and count of a bucket's line; nothing for other lines, and buckets with further labels.
fn bucket(line: &str) -> Option<(&str, f64, u64)> {
    let (name, rest) = line.strip_prefix("pascaline_")?.split_once("_bucket{le=\"")?;
    let (bound, count) = rest.split_once("\"} ")?;
    Some((name, bound.parse().ok()?, count.parse().ok()?))
}

fn push(out: &mut String, Exemplar { labels, value, at, .. }: &Exemplar) {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    let at = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
    // Writing to a string cannot fail.
    let _ = write!(out, " # {{{}}} {value} {at:.3}", labels.join(","));
}

/// The older format of an OpenMetrics text without exemplars.
pub(super) fn plain(text: &str) -> String {
    let counters: HashSet<&str> = text.lines().filter_map(counter).collect();
    let mut out = String::with_capacity(text.len() + 8 * counters.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        match comment(line) {
            Some((kind, name, rest)) if counters.contains(name) => {
                let _ = writeln!(out, "# {kind} {name}_total {rest}");
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// The name of a counter, in the line that gives its type.
fn counter(line: &str) -> Option<&str> {
    comment(line).filter(|(kind, _, rest)| (*kind, *rest) == ("TYPE", "counter")).map(|(_, name, _)| name)
}

/// `# HELP name text` and `# TYPE name type`.
fn comment(line: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = line.strip_prefix("# ")?.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    Some((kind, name, rest))
}
