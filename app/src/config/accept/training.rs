//! How the parameter server trains jobs of mode "olaf".

use std::time::Duration;

use pascaline_pipelines::Mode;
use pascaline_ps::asynchronous::{Audience, Combined, Rule, Settings};
use pascaline_queue::Combine;
use toml::Spanned;

use super::values::word;
use super::{Accept, Checked};
use crate::config::job::JobConfig;
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
        let combined = self.combined(ports)?;
        let Some(raw::Ps { rule, learning_rate, half_age, weights_to, .. }) = table else {
            return Ok(Settings { combined, ..Settings::default() });
        };
        if jobs.iter().all(|job| job.mode != Mode::Olaf) {
            let useless = |key| format!("{key} is for jobs of mode \"olaf\", and there is none");
            let remedy = "leave it out, or give a job mode = \"olaf\"";
            match (rule, learning_rate, half_age, weights_to) {
                (Some(written), ..) => return Err(self.error(written, useless("rule"), remedy)),
                (_, Some(written), ..) => return Err(self.error(written, useless("learning_rate"), remedy)),
                (.., Some(written), _) => return Err(self.error(written, useless("half_age"), remedy)),
                (.., Some(written)) => return Err(self.error(written, useless("weights_to"), remedy)),
                (None, None, None, None) => {}
            }
        }
        let kind = word(rule.as_ref()).unwrap_or(Training::Olaf);
        if let (Training::Olaf, Some(written)) = (kind, half_age) {
            let remedy = "leave it out, or set rule = \"staleness\"";
            return Err(self.error(written, "half_age is for rule = \"staleness\"", remedy));
        }
        let rate = self.rate_of_learning(learning_rate.as_ref())?;
        let rule = match kind {
            Training::Olaf => Rule::Olaf { rate },
            Training::Staleness => {
                Rule::Staleness { rate, half: self.duration(half_age.as_ref(), DEFAULT_HALF_AGE)? }
            }
        };
        let audience = word(weights_to.as_ref()).unwrap_or(Audience::Cluster);
        Ok(Settings { rule, combined, audience })
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

    /// What a combined update carries. The server does not know through which port an update has come: the
    /// queues must agree.
    fn combined(&self, ports: &[Spanned<raw::Port>]) -> Checked<Combined> {
        let queues = ports.iter().filter_map(|port| port.get_ref().queue.as_ref());
        let mut agreed = None;
        for queue in queues {
            let combine = queue.get_ref().combine.as_ref();
            let mean = word(combine) == Some(Combine::Mean);
            if agreed.is_some_and(|agreed| agreed != mean) {
                let message =
                    "queues that combine in different ways: the server could not tell a sum from a mean";
                let remedy = "give all of [ports.queue] the same combine";
                return Err(match combine {
                    Some(combine) => self.error(combine, message, remedy),
                    None => self.error(queue, message, remedy),
                });
            }
            agreed = Some(mean);
        }
        Ok(if agreed == Some(true) { Combined::Mean } else { Combined::Sum })
    }
}
