//! Jobs whose workers send updates when they have them, and the queues that updates wait in.

use core::num::NonZeroU64;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, ServerMode};
use pascaline_queue::Config as QueueConfig;
use pascaline_seal::LONGER;
use toml::Spanned;

use super::job::Job;
use super::kind::Scope;
use super::security::protection;
use super::values::word;
use super::{Accept, Checked};
use crate::config::job::{JobConfig, PsMode};
use crate::config::raw;

/// Units of a rate, by the end of how it is written.
const UNITS: [(&str, f64); 4] = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];
/// The fastest shaper: faster than any port.
const MOST_RATE: f64 = 1e12;

keys! {
    /// The keys of kind `updates`.
    Updates as NewUpdates {
        parameters: Option<Spanned<u32>> as Option<u32>,
    }
}

impl Accept<'_> {
    /// A job that sends updates. Its server is a process of its own, or behind its parent.
    pub(super) fn updates(&self, job: &Job, scope: Scope<'_>) -> Checked<JobKind> {
        let external = matches!(scope.ps, PsMode::External { .. });
        if let (Some(kind), false) = (&job.kind, job.parent.is_some() || external) {
            let remedy = "set mode = \"external\" and address in [ps], or choose another kind";
            let message = "a job of kind \"updates\" needs a parameter server that is a process of its own";
            return Err(self.error(kind, message, remedy));
        }
        self.fits(job, scope.max_update)?;
        // The model is at the root's.
        let server = if job.parent.is_some() { ServerMode::None } else { scope.ps.server() };
        Ok(JobKind::Updates { server })
    }

    /// Refuses a model whose update does not fit into one packet.
    fn fits(&self, job: &Job, max_update: u16) -> Checked<()> {
        let seal = protection(job.security.as_ref()).map_or(0, |_| LONGER);
        let most = usize::from(max_update).saturating_sub(seal) / 8 * 2;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        match job.updates.as_ref().and_then(|table| table.get_ref().parameters.as_ref()) {
            Some(written) if *written.get_ref() == 0 => Err(self.error(
                written,
                "a model without parameters",
                "write the number of the model's parameters",
            )),
            Some(written) if *written.get_ref() > most => {
                let message = format!(
                    "a model of {} parameters does not fit into one packet, as kind = \"updates\" \
                        demands: the ports' MTU leaves room for {most} of 4 bytes each",
                    written.get_ref()
                );
                let remedy = "choose another kind (synchronous jobs sum models of any size), or raise the \
                    mtu of every port (9000 leaves room for 2230 over IPv4)";
                Err(self.error(written, message, remedy))
            }
            _ => Ok(()),
        }
    }

    /// The queue in front of a port.
    pub(super) fn queue(&self, written: &raw::Queue) -> Checked<PortQueue> {
        let raw::Queue { discipline, length, rate, reward_threshold, .. } = written;
        let default = QueueConfig::default();
        let queue = QueueConfig {
            discipline: word(discipline.as_ref()).unwrap_or(default.discipline),
            segments: self.within(length.as_ref(), default.segments, 1, 1 << 14, "length")?,
            reward_threshold: reward_threshold
                .as_ref()
                .map_or(Ok(default.reward_threshold), |written| self.reward_threshold(written))?,
            ..default
        };
        let rate = rate.as_ref().map_or(Ok(None), |written| self.rate(written))?;
        Ok(PortQueue { queue, rate })
    }

    #[expect(clippy::cast_possible_truncation, reason = "rewards are of this type")]
    fn reward_threshold(&self, written: &Spanned<f64>) -> Checked<f32> {
        let threshold = *written.get_ref();
        if threshold >= 0.0 {
            return Ok(threshold as f32);
        }
        let message = format_args!("reward_threshold = {threshold} is no distance");
        Err(self.error(
            written,
            message,
            "write a number from 0.0 up, or inf to combine whatever the rewards are",
        ))
    }

    /// Bits per second; none for zero, which is what the port can do.
    fn rate(&self, written: &Spanned<toml::Value>) -> Checked<Option<NonZeroU64>> {
        let bits = match written.get_ref() {
            toml::Value::Integer(bits) => bits.to_string().parse().ok(),
            toml::Value::String(text) => {
                let text = text.trim().trim_end_matches("bit/s").trim_end();
                let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
                unit.and_then(|(number, factor)| Some(number.trim_end().parse::<f64>().ok()? * factor))
            }
            _ => None,
        };
        match bits {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10¹²")]
            Some(bits) if (0.0..=MOST_RATE).contains(&bits) => Ok(NonZeroU64::new(bits.round() as u64)),
            _ => {
                let message = format_args!("rate = {} is not a rate", written.get_ref());
                let remedy = "write bits per second with k, M or G, up to \"1000G\", e.g. \"500M\"; \"0\" \
                    is the port's own rate";
                Err(self.error(written, message, remedy))
            }
        }
    }

    /// Refuses queues that no job would send updates to.
    pub(super) fn queues_are_used(&self, ports: &[Spanned<raw::Port>], jobs: &[JobConfig]) -> Checked<()> {
        if self.scene.runs || jobs.iter().any(|job| job.updates()) {
            return Ok(());
        }
        match ports.iter().find_map(|port| port.get_ref().queue.as_ref()) {
            Some(queue) => {
                let remedy = "leave [ports.queue] out, or give a job kind = \"updates\"";
                Err(self.error(queue, "a queue of updates, but no job has kind = \"updates\"", remedy))
            }
            None => Ok(()),
        }
    }
}
