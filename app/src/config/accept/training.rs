//! How the parameter server trains jobs of kind "updates".

use std::time::Duration;

use pascaline_ps::asynchronous::{Audience, Combined, Rule, Settings};
use pascaline_queue::{Combine, Config as QueueConfig};
use toml::Spanned;

use super::values::word;
use super::{Accept, Checked};
use crate::config::job::{Checkpoint, JobConfig};
use crate::config::raw;
use crate::config::words::Training;

const DEFAULT_HALF_AGE: Duration = Duration::from_secs(1);
/// γ of the paper.
const DEFAULT_RATE: f64 = 0.001;

impl Accept<'_> {
    pub(super) fn training(
        &self,
        table: Option<&raw::Ps>,
        ports: &[Spanned<raw::Port>],
        jobs: &[JobConfig],
    ) -> Checked<Settings> {
        let combined = match self.combine(ports)? {
            Combine::Sum => Combined::Sum,
            Combine::Mean => Combined::Mean,
        };
        let Some(table) = table else {
            return Ok(Settings { combined, ..Settings::default() });
        };
        let raw::Ps { rule, learning_rate, half_age, weights_to, reward_memory, checkpoint, .. } = table;
        if !self.scene.runs && jobs.iter().all(|job| !job.updates()) {
            let keys = [
                ("rule", rule.as_ref().map(Spanned::span)),
                ("learning_rate", learning_rate.as_ref().map(Spanned::span)),
                ("half_age", half_age.as_ref().map(Spanned::span)),
                ("weights_to", weights_to.as_ref().map(Spanned::span)),
                ("reward_memory", reward_memory.as_ref().map(Spanned::span)),
                ("checkpoint", checkpoint.as_ref().map(Spanned::span)),
            ];
            if let Some((key, span)) = keys.into_iter().find_map(|(key, span)| Some((key, span?))) {
                let useless = format!("{key} is for jobs of kind \"updates\", and there is none");
                let remedy = "leave it out, or give a job kind = \"updates\"";
                return Err(self.error(&Spanned::new(span, ()), useless, remedy));
            }
        }
        let kind = word(rule.as_ref()).unwrap_or(Training::Olaf);
        if let (Training::Olaf, Some(written)) = (kind, half_age) {
            let remedy = "leave it out, or set rule = \"staleness\"";
            return Err(self.error(written, "half_age is for rule = \"staleness\"", remedy));
        }
        if let (Training::Staleness, Some(written)) = (kind, reward_memory) {
            let remedy = "leave it out, or set rule = \"olaf\"";
            return Err(self.error(written, "reward_memory is for rule = \"olaf\"", remedy));
        }
        let rate = self.rate_of_learning(learning_rate.as_ref())?;
        let rule = match kind {
            Training::Olaf => Rule::Olaf { rate },
            Training::Staleness => {
                Rule::Staleness { rate, half: self.duration(half_age.as_ref(), DEFAULT_HALF_AGE)? }
            }
        };
        let audience = word(weights_to.as_ref()).unwrap_or(Audience::Cluster);
        let memory = self.duration(reward_memory.as_ref(), Settings::default().memory)?;
        Ok(Settings { rule, combined, audience, memory })
    }

    /// Where models are kept, if that is said.
    pub(super) fn checkpoint(&self, table: Option<&raw::Ps>) -> Checked<Checkpoint> {
        let Some(written) = table.and_then(|table| table.checkpoint.as_ref()) else {
            return Ok(Checkpoint::Default);
        };
        match written.get_ref().as_str() {
            "no" => Ok(Checkpoint::No),
            path if path.starts_with('/') => Ok(Checkpoint::In(self.locate(written, path.into()))),
            path => {
                let message = format_args!("checkpoint = {path:?} is no absolute path of a directory");
                Err(self.error(written, message, "write one, e.g. \"/var/lib/pascaline\", or \"no\""))
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "weights are of this type")]
    fn rate_of_learning(&self, written: Option<&Spanned<f64>>) -> Checked<f32> {
        let rate = written.map_or(DEFAULT_RATE, |written| *written.get_ref());
        match written {
            Some(written) if !(rate.is_finite() && rate > 0.0) => {
                let message = format_args!("learning_rate = {rate} is no rate");
                Err(self.error(written, message, "write a number above 0, e.g. 0.001"))
            }
            _ => Ok(rate as f32),
        }
    }

    /// How updates that meet become one, in front of all ports alike: the server does not know through which
    /// port an update has come.
    pub(super) fn combine(&self, ports: &[Spanned<raw::Port>]) -> Checked<Combine> {
        let queues = ports.iter().filter_map(|port| port.get_ref().queue.as_ref());
        let mut agreed = None;
        for written in queues.filter_map(|queue| queue.get_ref().combine.as_ref()) {
            let combine = word(Some(written));
            if agreed.is_some() && agreed != combine {
                let message =
                    "queues that combine in different ways: the server could not tell a sum from a mean";
                return Err(self.error(written, message, "give all of [ports.queue] the same combine"));
            }
            agreed = combine;
        }
        Ok(agreed.unwrap_or(QueueConfig::default().combine))
    }
}
