//! Single values: what several tables have.

use core::fmt;
use std::net::IpAddr;
use std::time::Duration;

use toml::Spanned;

use super::{Accept, Checked};
use crate::config::words::Named;

/// The longest duration of all.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What is written, or nothing.
pub(super) fn get<T: Copy>(written: Option<&Spanned<T>>) -> Option<T> {
    written.map(|written| *written.get_ref())
}

/// The word that is written, or nothing.
pub(super) fn word<T: Copy>(written: Option<&Spanned<Named<T>>>) -> Option<T> {
    written.map(|written| written.get_ref().0)
}

impl Accept<'_> {
    pub(super) fn address(&self, written: &Spanned<String>) -> Checked<IpAddr> {
        written.get_ref().parse().map_err(|error| {
            let message = format!("{:?}: {error}", written.get_ref());
            self.error(
                written,
                message,
                "write an address without prefix length, e.g. \"10.77.0.254\" or \"fd00::1\"",
            )
        })
    }

    pub(super) fn duration(&self, written: Option<&Spanned<String>>, default: Duration) -> Checked<Duration> {
        let Some(written) = written else { return Ok(default) };
        match humantime::parse_duration(written.get_ref()) {
            Ok(duration) if duration > LONGEST => {
                let message = format!("{}: longer than a year", written.get_ref());
                Err(self.error(written, message, "write a shorter one, e.g. \"500ms\""))
            }
            Ok(duration) if !duration.is_zero() => Ok(duration),
            Ok(_) => Err(self.error(written, "a duration of zero", "write a longer one, e.g. \"500ms\"")),
            Err(error) => Err(self.error(
                written,
                error,
                "write a number and a unit, e.g. \"100us\", \"500ms\" or \"2s\"",
            )),
        }
    }

    /// A duration, or none where it is written as zero.
    pub(super) fn duration_or_never(
        &self,
        written: Option<&Spanned<String>>,
        default: Duration,
    ) -> Checked<Option<Duration>> {
        match written {
            Some(written) if humantime::parse_duration(written.get_ref()).is_ok_and(|d| d.is_zero()) => {
                Ok(None)
            }
            written => self.duration(written, default).map(Some),
        }
    }

    /// A number from `least` to `most`.
    pub(super) fn within<T: Copy + PartialOrd + fmt::Display>(
        &self,
        written: Option<&Spanned<T>>,
        default: T,
        least: T,
        most: T,
        what: &str,
    ) -> Checked<T> {
        match written {
            None => Ok(default),
            Some(value) if (least..=most).contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let message = format!("{what} = {} is out of range", value.get_ref());
                Err(self.error(value, message, &format!("choose a number from {least} to {most}")))
            }
        }
    }
}
