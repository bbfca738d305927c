//! Ages of models that the operator demands: jobs that would not meet them are not admitted.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use pascaline_pipelines::Mode;
use pascaline_shared::file;
use pascaline_verifier::{Options, Report, Scenario, Verdict, VerifyError, verify};
use pascaline_wire::trailer::Sentence;
use toml::Spanned;

use super::{Accept, Checked};
use crate::config::job::JobConfig;
use crate::config::words::Word as _;
use crate::config::{Config, raw};

/// The longest that all queries of a file may take: a reload waits for them.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The most updates of a file up to its horizon: a few MB of the appliance's memory.
const UPDATES: u64 = 100_000;
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
            let useless = self.runs && config.jobs.iter().all(|job| job.mode != Mode::Olaf);
            if self.here && !useless {
                self.objectives(&mut config, file)?;
            }
            config.verified = Some(file.get_ref().into());
        }
        Ok(config)
    }

    /// Verifies the queries of a file, and refuses the jobs of those that fail.
    fn objectives(&self, config: &mut Config, written: &Spanned<String>) -> Checked<()> {
        let path = Path::new(written.get_ref());
        let unusable = |error: VerifyError| {
            let remedy = "mend it until `pascaline-fleet verify` takes it, or leave `verify` out";
            self.error(written, error, remedy)
        };
        let bytes = file::read(path, LONGEST).map_err(|error| {
            self.error(written, format_args!("{}: {}", path.display(), error.message), error.remedy)
        })?;
        let scenario = Scenario::parse(&String::from_utf8_lossy(&bytes), path).map_err(unusable)?;
        self.describes(config, &scenario, written)?;
        let options = Options { time_limit: TIME_LIMIT, updates: UPDATES, ..Options::default() };
        let report = match verify(&scenario, &options) {
            Err(error) if error.is_of_the_file() => return Err(unusable(error)),
            report => report,
        };
        for job in config.jobs.iter_mut().filter(|job| job.mode == Mode::Olaf) {
            job.refused = match &report {
                Ok(report) => unmet(report, &scenario, &job.name),
                Err(error) => missing(path, error),
            };
        }
        Ok(())
    }

    /// A file that says nothing of a job, or describes another queue, proves nothing.
    fn describes(&self, config: &Config, scenario: &Scenario, written: &Spanned<String>) -> Checked<()> {
        let remedy = "let the file say what the configuration says: one cluster for each job with mode = \
                      \"olaf\", of the same name, with `workers` = fan_in";
        let mut jobs = config.jobs.iter().filter(|job| job.mode == Mode::Olaf).peekable();
        if jobs.peek().is_none() {
            let message = "there is no job with mode = \"olaf\" whose models could be too old";
            return Err(self.error(written, message, "leave `verify` out, or give a job mode = \"olaf\""));
        }
        if let Some(job) = config.jobs.iter().find(|job| job.mode == Mode::Olaf && job.parent.is_some()) {
            let message = format!("job {} has a parent, and a file describes one queue alone", job.id);
            let remedy = "leave `verify` out here: what is proved of one hop says nothing of all of them";
            return Err(self.error(written, message, remedy));
        }
        for JobConfig { id, name, fan_in, .. } in jobs {
            let Some(cluster) = scenario.clusters.iter().find(|cluster| cluster.name == *name) else {
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
        let queues = config.port_queues().unwrap_or_default();
        let told = (scenario.queue.discipline, scenario.queue.length);
        if queues.iter().all(|port| (port.queue.discipline, port.queue.segments) != told) {
            let mut message = format!(
                "{} is about a queue of {} updates, {}, and the ports have",
                written.get_ref(),
                scenario.queue.length,
                scenario.queue.discipline.name()
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
fn missing(path: &Path, error: &VerifyError) -> Option<Sentence> {
    let told = error.to_string();
    let line = told.lines().next().unwrap_or_default();
    let begins = if line.starts_with("no verdict") { "" } else { "no verdict: " };
    Sentence::new(&format!("{}: {begins}{line}", path.display()))
}

/// The first query about the cluster that fails, and why.
fn unmet(report: &Report, scenario: &Scenario, cluster: &str) -> Option<Sentence> {
    let about = |clusters: &[usize]| {
        clusters.iter().any(|&at| scenario.clusters.get(at).is_some_and(|one| one.name == cluster))
    };
    let mut answers = scenario.queries.iter().zip(&report.queries);
    let (_, failed) =
        answers.find(|(query, answer)| answer.verdict != Verdict::Holds && about(&query.clusters))?;
    Sentence::new(&format!("{} fails: {}", failed.name, failed.because))
}
