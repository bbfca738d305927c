//! How a job uses the pool: a profile, and the single keys that override it.

use core::fmt;
use std::time::Duration;

use pascaline_aggregator::{ConflictPolicy, Order};
use toml::Spanned;

use super::switchml::is_switchml;
use super::values::word;
use super::{Accept, Checked};
use crate::config::job::PsMode;
use crate::config::profile::{Addressing, Preset, Profile};
use crate::config::words::Word as _;
use crate::config::{ConfigError, raw};

/// What the keys of a job say, before it has its place in the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    pub(super) addressing: Addressing,
    pub(super) conflict: ConflictPolicy,
    pub(super) order: Order,
    pub(super) server: bool,
    pub(super) partials: bool,
    pub(super) needed: u16,
    pub(super) partial_after: Option<Duration>,
}

impl Accept<'_> {
    /// Where the keys of a job say that it has its place in the pool; nothing, if it may be anywhere.
    pub(super) fn addressing(job: &raw::Job) -> Option<Addressing> {
        if is_switchml(job) {
            return Some(Addressing::Region);
        }
        let written = word(job.addressing.as_ref());
        let profile = word(job.profile.as_ref());
        let partial = job.threshold.is_some() || job.partial_after.is_some();
        let implied = if job.region_slots.is_some() || partial || job.parent.is_some() {
            Some(Addressing::Region)
        } else {
            job.conflict.as_ref().map(|_| Addressing::Shared)
        };
        written.or(profile.map(|profile| profile.preset().addressing)).or(implied)
    }

    /// What the keys of a job say. If they leave open where it has its place, that is by `default`.
    pub(super) fn chosen(
        &self,
        job: &raw::Job,
        fan_in: u16,
        mode: PsMode,
        default: Addressing,
    ) -> Checked<Chosen> {
        let foreign = is_switchml(job).then_some(Profile::Switchml);
        let profile = word(job.profile.as_ref()).or(foreign);
        let addressing = Self::addressing(job).unwrap_or(default);
        let preset = profile.map_or(addressing.preset(), Profile::preset);
        let server = self.server(job, preset, mode)?;
        // Without server, a holder that loses would begin anew; and again.
        let preset = match profile {
            None if !server => Preset { conflict: ConflictPolicy::FirstCome, ..preset },
            _ => preset,
        };
        let chosen = Chosen {
            addressing,
            conflict: word(job.conflict.as_ref()).unwrap_or(preset.conflict),
            order: word(job.order.as_ref()).unwrap_or(preset.order),
            server,
            partials: preset.partials,
            needed: job.threshold.as_ref().map_or(Ok(fan_in), |written| self.threshold(written, fan_in))?,
            partial_after: job
                .partial_after
                .as_ref()
                .map(|written| self.duration(Some(written), Duration::ZERO))
                .transpose()?,
        };
        if let Some(written) = &job.threshold {
            self.admits_partials(written, "threshold", &chosen)?;
        }
        if let Some(written) = &job.partial_after {
            self.admits_partials(written, "partial_after", &chosen)?;
        }
        let asked_for = job.threshold.is_some() || job.partial_after.is_some();
        let partials = (chosen.partials || asked_for) && objection_to_partials(&chosen).is_none();
        Ok(Chosen { partials, ..chosen })
    }

    /// Whether the job uses the parameter server. By default it does so if there is one.
    fn server(&self, job: &raw::Job, preset: Preset, mode: PsMode) -> Checked<bool> {
        let none = mode == PsMode::None;
        let remedy = "run one ([ps] mode = \"embedded\" or \"external\"), or set server = false for this job";
        match (&job.server, &job.profile) {
            (Some(written), _) if *written.get_ref() && none => {
                Err(self.error(written, "there is no parameter server: [ps] mode is \"none\"", remedy))
            }
            (Some(written), _) => Ok(*written.get_ref()),
            (None, Some(profile)) if preset.server && none => {
                let message = format_args!(
                    "profile {:?} needs a parameter server, but [ps] mode is \"none\"",
                    profile.get_ref().0.name()
                );
                Err(self.error(profile, message, remedy))
            }
            (None, _) => Ok(preset.server && !none),
        }
    }

    /// A count of contributions, or a share of the fan-in, rounded up (PANAMA-0.94: as soon as 94 % are
    /// there).
    fn threshold(&self, written: &Spanned<toml::Value>, fan_in: u16) -> Checked<u16> {
        let found = match written.get_ref() {
            toml::Value::Integer(count) => {
                u16::try_from(*count).ok().filter(|count| (1..=fan_in).contains(count))
            }
            toml::Value::Float(share) if *share > 0.0 && *share <= 1.0 => {
                // 0.94 is not exactly 94 hundredths: without the allowance, 0.94 of 50 could come out as 48.
                let least = (share * f64::from(fan_in) - 1e-9).ceil();
                (1..=fan_in).find(|&count| f64::from(count) >= least)
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let message = format_args!("threshold = {} is out of range", written.get_ref());
            let remedy = format!(
                "write a count from 1 to fan_in = {fan_in}, or a share of it above 0.0 and up to 1.0, e.g. \
                    0.94"
            );
            self.error(written, message, &remedy)
        })
    }

    fn admits_partials<T>(&self, at: &Spanned<T>, key: impl fmt::Display, chosen: &Chosen) -> Checked<()> {
        objection_to_partials(chosen).map_or(Ok(()), |(why, remedy)| {
            Err::<(), ConfigError>(self.error(at, format_args!("{key} {why}"), remedy))
        })
    }
}

/// Why a job's PSNs may not complete with fewer contributions than all; and what to do about it.
fn objection_to_partials(chosen: &Chosen) -> Option<(&'static str, &'static str)> {
    if chosen.addressing == Addressing::Shared {
        Some((
            "needs a region: in the shared part a result may give way to other jobs before the late ranks \
                have come, and the PSN would begin anew",
            "set addressing = \"region\", or choose the profile \"iswitch\" or \"panama\"",
        ))
    } else if chosen.server {
        Some((
            "and a parameter server exclude each other: pool and server could each complete the same PSN, \
                with different ranks",
            "set server = false",
        ))
    } else if chosen.order == Order::Rank {
        Some((
            "and order = \"rank\" exclude each other: which ranks are inside would depend on who came \
                first, and so would the bits of the sum",
            "set order = \"arrival\"",
        ))
    } else {
        None
    }
}
