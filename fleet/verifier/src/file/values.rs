//! Single values, and their errors.

use std::ops::Range as Bytes;
use std::path::Path;

use num_traits::Zero as _;
use serde::Deserialize;
use toml::Spanned;

use crate::error::VerifyError;
use crate::scenario::{Exact, Span};

/// One value, or the ends of a range.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text in quotes, or two of them in brackets: a range")]
pub(super) enum Range {
    One(String),
    Two([String; 2]),
}

/// Units, with their factors.
pub(super) type Units = [(&'static str, u64)];

/// Sizes, in bits.
pub(super) const SIZES: [(&str, u64); 5] =
    [("bit", 1), ("B", 8), ("kB", 8_000), ("KiB", 8_192), ("MB", 8_000_000)];
/// Rates, in bits per second.
pub(super) const RATES: [(&str, u64); 4] =
    [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
/// Slopes.
pub(super) const SLOPES: [(&str, u64); 1] = [("/s", 1)];

/// The longest time.
const LONGEST_SECONDS: u64 = 24 * 60 * 60;

/// Reads one file.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a Path,
}

impl Reader<'_> {
    pub(super) fn at(&self, span: Option<Bytes<usize>>, message: &str, remedy: &str) -> VerifyError {
        let place = span.and_then(|span| {
            let before = self.text.get(..span.start)?;
            let line = before.matches('\n').count() + 1;
            Some((line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1))
        });
        let (message, remedy) = (message.to_owned(), remedy.to_owned());
        VerifyError::File { file: self.file.to_owned(), place, message, remedy }
    }

    pub(super) fn error<T>(&self, written: &Spanned<T>, message: &str, remedy: &str) -> VerifyError {
        self.at(Some(written.span()), message, remedy)
    }

    /// An error of the TOML reader.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> VerifyError {
        let remedy = "correct it; docs/verification.md lists every key";
        self.at(error.span(), &error.message().replace('\n', " "), remedy)
    }

    pub(super) fn time(&self, written: &Spanned<String>) -> Result<Exact, VerifyError> {
        self.duration(written.span(), written.get_ref())
    }

    fn duration(&self, span: Bytes<usize>, text: &str) -> Result<Exact, VerifyError> {
        let remedy = "write a number and a unit, e.g. \"100us\", \"2ms\" or \"3s\", at most a day";
        match humantime::parse_duration(text) {
            Ok(time) if time.as_secs() <= LONGEST_SECONDS => Ok(Exact::from_integer(time.as_nanos().into())),
            Ok(_) => Err(self.at(Some(span), &format!("{text:?}: longer than a day"), remedy)),
            Err(error) => Err(self.at(Some(span), &format!("{text:?}: {error}"), remedy)),
        }
    }

    /// A time, or a range of times.
    pub(super) fn times(&self, written: &Spanned<Range>) -> Result<Span, VerifyError> {
        let one = |text: &String| self.duration(written.span(), text);
        match written.get_ref() {
            Range::One(text) => one(text).map(Span::known),
            Range::Two([low, high]) => self.span(written, one(low)?, one(high)?),
        }
    }

    /// Periods from rates.
    pub(super) fn periods(&self, written: &Spanned<Range>) -> Result<Span, VerifyError> {
        let second = Exact::from_integer(1_000_000_000.into());
        let one = |text: &String| self.number(written.span(), text, &SLOPES).map(|rate| &second / rate);
        match written.get_ref() {
            Range::One(text) => one(text).map(Span::known),
            // The higher rate is the shorter period.
            Range::Two([low, high]) => self.span(written, one(high)?, one(low)?),
        }
    }

    fn span(&self, written: &Spanned<Range>, low: Exact, high: Exact) -> Result<Span, VerifyError> {
        if low > high {
            return Err(self.error(written, "the range is empty", "write the lower end first"));
        }
        Ok(Span { low, high })
    }

    /// A number above 0 with a unit.
    pub(super) fn quantity(&self, written: &Spanned<String>, units: &Units) -> Result<Exact, VerifyError> {
        self.number(written.span(), written.get_ref(), units)
    }

    fn number(&self, span: Bytes<usize>, text: &str, units: &Units) -> Result<Exact, VerifyError> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits);
        let unit = units.iter().find(|(name, _)| *name == unit.trim());
        match (decimal(digits).filter(|value| !value.is_zero()), unit) {
            (Some(value), Some((_, one))) => Ok(value * Exact::from_integer((*one).into())),
            _ => {
                let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
                let remedy = format!("write a number above 0 and a unit of: {}", names.join(", "));
                Err(self.at(Some(span), &format!("{text:?} cannot be read"), &remedy))
            }
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
        &self,
        written: Option<&Spanned<String>>,
        default: T,
        words: &[(&str, T)],
    ) -> Result<T, VerifyError> {
        let Some(written) = written else { return Ok(default) };
        let found = words.iter().find(|(word, _)| word == written.get_ref());
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let remedy = format!("write one of {}", names.join(", "));
            self.error(written, &format!("{:?} is not known here", written.get_ref()), &remedy)
        })
    }
}

/// Decimal digits with at most one point, without rounding.
pub(super) fn decimal(text: &str) -> Option<Exact> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.len() > 30 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    Some(Exact::new(digits.into(), 10_u128.checked_pow(places)?.into()))
}
