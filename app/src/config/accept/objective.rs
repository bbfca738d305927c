//! Ages of models that the operator demands: jobs that would not meet them are not admitted.

mod verifier;

use std::fmt::Write as _;
use std::path::Path;

use pascaline_pipelines::membership::JobSpec;
use pascaline_shared::file;
use pascaline_wire::trailer::Sentence;
use toml::Spanned;

use self::verifier::{Outcome, Queue, Unasked, ask};
use super::{Accept, Checked};
use crate::config::job::JobConfig;
use crate::config::words::Word as _;
use crate::config::{Config, raw};

/// The longest such file.
const LONGEST: usize = 1 << 20;

impl Accept<'_> {
    /// The configuration, with the jobs that `verify` of [admission] refuses.
    pub(super) fn verified(
        &self,
        mut config: Config,
        admission: Option<&Spanned<raw::Admission>>,
    ) -> Checked<Config> {
        if let Some(file) = admission.and_then(|written| written.get_ref().verify.as_ref()) {
            let useless = self.scene.runs && config.jobs.iter().all(|job| !job.updates());
            if self.scene.here && !useless {
                self.objectives(&mut config, file)?;
            }
            config.verified = Some(file.get_ref().into());
        }
        Ok(config)
    }

    /// Verifies the queries of a file, and refuses the jobs of those that fail.
    fn objectives(&self, config: &mut Config, written: &Spanned<String>) -> Checked<()> {
        let path = Path::new(written.get_ref());
        file::read(path, LONGEST).map_err(|error| {
            self.error(written, format_args!("{}: {}", path.display(), error.message), error.remedy)
        })?;
        let outcome =
            ask(path).map_err(|Unasked { message, remedy }| self.error(written, message, remedy))?;
        let wrong = outcome.error.as_ref().filter(|_| outcome.file_is_wrong);
        if let Some(error) = wrong {
            let remedy = "mend it until `pascaline-fleet verify` takes it, or leave `verify` out";
            return Err(self.error(written, error, remedy));
        }
        self.describes(config, &outcome, written)?;
        for job in config.jobs.iter_mut().filter(|job| job.updates()) {
            job.spec.refused = match &outcome.error {
                None => unmet(&outcome, &job.name),
                Some(error) => missing(path, error),
            };
        }
        Ok(())
    }

    /// A file that says nothing of a job, or describes another queue, proves nothing.
    fn describes(&self, config: &Config, outcome: &Outcome, written: &Spanned<String>) -> Checked<()> {
        let remedy = "let the file say what the configuration says: one cluster for each job with kind = \
                      \"updates\", of the same name, with `workers` = fan_in";
        let mut jobs = config.jobs.iter().filter(|job| job.updates()).peekable();
        if jobs.peek().is_none() {
            let message = "there is no job of kind \"updates\" whose models could be too old";
            return Err(self.error(written, message, "leave `verify` out, or give a job kind = \"updates\""));
        }
        if let Some(job) = config.jobs.iter().find(|job| job.updates() && job.spec.parent.is_some()) {
            let message = format!("job {} has a parent, and a file describes one queue alone", job.spec.id);
            let remedy = "leave `verify` out here: what is proved of one hop says nothing of all of them";
            return Err(self.error(written, message, remedy));
        }
        for JobConfig { name, spec: JobSpec { id, fan_in, .. }, .. } in jobs {
            let Some(cluster) = outcome.clusters.iter().find(|cluster| cluster.name == *name) else {
                let message = format!("{} has no cluster {name:?}, as job {id} is called", written.get_ref());
                return Err(self.error(written, message, remedy));
            };
            if cluster.workers != *fan_in {
                let message = format!(
                    "cluster {name:?} of {} has {} workers, and job {id} has fan_in = {fan_in}",
                    written.get_ref(),
                    cluster.workers
                );
                return Err(self.error(written, message, remedy));
            }
        }
        let Some(told) = &outcome.queue else { return Ok(()) };
        let queues = config.port_queues().unwrap_or_default();
        let as_told = |queue: &pascaline_queue::Config| Queue {
            discipline: queue.discipline.name().to_owned(),
            length: queue.segments,
        };
        if queues.iter().all(|port| as_told(&port.queue) != *told) {
            let mut message = format!(
                "{} is about a queue of {} updates, {}, and the ports have",
                written.get_ref(),
                told.length,
                told.discipline
            );
            for port in &queues {
                let _ = write!(message, " {}, {};", port.queue.segments, port.queue.discipline.name());
            }
            let remedy = "give [queue] of the file and [ports.queue] the same length and discipline";
            return Err(self.error(written, message.trim_end_matches(';'), remedy));
        }
        Ok(())
    }
}

/// Why there is no verdict: the first line, without the remedy for those who run `pascaline-fleet verify`.
fn missing(path: &Path, error: &str) -> Option<Sentence> {
    let line = error.lines().next().unwrap_or_default();
    let begins = if line.starts_with("no verdict") { "" } else { "no verdict: " };
    Sentence::new(&format!("{}: {begins}{line}", path.display()))
}

/// The first query about the cluster that fails, and why.
fn unmet(outcome: &Outcome, cluster: &str) -> Option<Sentence> {
    let mut queries = outcome.queries.iter();
    let failed = queries
        .find(|query| query.verdict != "holds" && query.clusters.iter().any(|about| about == cluster))?;
    Sentence::new(&format!("{} fails: {}", failed.name, failed.because))
}
