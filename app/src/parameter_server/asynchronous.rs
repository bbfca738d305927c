//! The server of jobs that train asynchronously (Olaf), for a driver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use pascaline_ps::asynchronous::{AsyncJob, AsyncOutcome, AsyncServer, Settings};
use pascaline_wire::{Header, Kind, Trailer};
use tracing::{info, warn};

use super::checkpoints::Checkpoints;
use super::snapshot::{Ages, AsyncSnapshot, ClusterSnapshot};
use pascaline_pipelines::jobs::ServedJob;

/// How long a cluster waits for workers, and its model if no file keeps that. Those of an appliance that
/// starts again are back sooner, or have given up by then; whoever comes later begins anew, or with what is
/// kept.
const VACANT: Duration = Duration::from_secs(10);

/// Nanoseconds since 1970.
pub(super) fn unix_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

/// An asynchronous server without a clock and without a network, and a log of what arrives.
#[derive(Debug)]
pub(super) struct AsyncLoop {
    server: AsyncServer,
    /// The jobs of this kind.
    jobs: BTreeSet<u16>,
    /// Since when nobody has been in a job.
    vacant: BTreeMap<u16, Duration>,
    log: Option<BufWriter<File>>,
    /// When the log was last written out.
    flushed_ns: u64,
    checkpoints: Option<Checkpoints>,
}

impl AsyncLoop {
    pub(super) fn new(settings: Settings, jobs: impl IntoIterator<Item = u16>) -> Self {
        Self {
            server: AsyncServer::new(settings),
            jobs: jobs.into_iter().collect(),
            vacant: BTreeMap::new(),
            log: None,
            flushed_ns: 0,
            checkpoints: None,
        }
    }

    /// Writes a line into a file for each update that arrives from here on.
    pub(super) fn log_to(&mut self, file: &Path) -> anyhow::Result<()> {
        let made = File::create(file).with_context(|| format!("creating {}", file.display()))?;
        self.log = Some(BufWriter::new(made));
        Ok(())
    }

    /// Goes on with the models that were kept in a directory, and keeps them there.
    pub(super) fn keep_in(&mut self, directory: &Path) -> anyhow::Result<()> {
        let (checkpoints, models) = Checkpoints::open(directory, self.jobs.iter().copied())?;
        models.into_iter().for_each(|kept| self.server.restore(kept));
        self.checkpoints = Some(checkpoints);
        Ok(())
    }

    /// Keeps models, if it is time.
    pub(super) fn keep(&mut self, now: Duration) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.keep(now, &self.server);
        }
    }

    /// Whether a job trains asynchronously.
    pub(super) fn is_for(&self, job: u16) -> bool {
        self.jobs.contains(&job)
    }

    pub(super) fn set_job(&mut self, job: &ServedJob) {
        let &ServedJob { job: id, fan_in, epoch, payload, .. } = job;
        let wanted = AsyncJob { fan_in, epoch, payload };
        self.vacant.remove(&id);
        if self.server.clusters().all(|(there, cluster)| there != id || *cluster.job() != wanted) {
            info!(job = id, epoch, ranks = fan_in, payload, "serving asynchronously");
            // Workers whose model has another length leave that of those before to its file.
            if let Some(checkpoints) = &mut self.checkpoints {
                checkpoints.keep_now(&self.server);
            }
            self.server.set_job(id, wanted);
            match self.server.keep(id) {
                Some(kept) => {
                    info!(job = id, version = kept.version, "it goes on with the model that there is");
                }
                None => info!(job = id, "there is no model: workers are asked for theirs"),
            }
        }
    }

    /// Nobody is in a job (now): it waits for those who come, for a while. Then it is none of the clusters
    /// whose models are to be equally old.
    pub(super) fn await_job(&mut self, now: Duration, job: u16) {
        let since = *self.vacant.entry(job).or_insert(now);
        if now.saturating_sub(since) >= VACANT {
            self.remove_job(job);
        }
    }

    /// Forgets a job. Its model goes on where a file keeps it, as after a start.
    pub(super) fn remove_job(&mut self, job: u16) {
        self.vacant.remove(&job);
        let kept = self.checkpoints.as_mut().and_then(|checkpoints| {
            checkpoints.keep_now(&self.server);
            self.server.keep(job)
        });
        if self.server.remove_job(job) {
            info!(job, "no longer serving");
        }
        kept.into_iter().for_each(|kept| self.server.restore(kept));
    }

    /// Handles a datagram of one of these jobs. Tells the number of the job if it belongs to no generation of
    /// it that is served.
    pub(super) fn receive(&mut self, unix_ns: u64, datagram: &[u8]) -> Option<u16> {
        let outcome = self.server.handle_datagram(unix_ns, datagram);
        let (header, body) = Header::parse(datagram).ok()?;
        if matches!(outcome, AsyncOutcome::Applied | AsyncOutcome::LowReward | AsyncOutcome::Initialised) {
            self.note(unix_ns, &header, body);
        }
        matches!(outcome, AsyncOutcome::UnknownJob | AsyncOutcome::WrongEpoch).then_some(header.job)
    }

    fn note(&mut self, unix_ns: u64, header: &Header, body: &[u8]) {
        let Some(log) = &mut self.log else { return };
        let update = match header.kind {
            Kind::Update => Trailer::split(body).ok().and_then(|(_, trailer)| trailer.update),
            _ => None,
        };
        // The age is 0 where training begins.
        let generated = update.map_or(unix_ns, |update| update.generated_ns);
        let Header { job, count, .. } = *header;
        let line =
            serde_json::json!({"at_ns": unix_ns, "job": job, "generated_ns": generated, "count": count});
        let mut written = writeln!(log, "{line}");
        // Whoever kills this server has all but the last second.
        if unix_ns.abs_diff(self.flushed_ns) >= 1_000_000_000 {
            self.flushed_ns = unix_ns;
            written = written.and_then(|()| log.flush());
        }
        if let Err(error) = written {
            warn!(%error, "the log of updates ends here");
            self.log = None;
        }
    }

    /// Puts the next datagram to send in place of what `into` holds. False if there is none.
    pub(super) fn next_datagram(&mut self, into: &mut Vec<u8>) -> bool {
        self.server.next_reply(into)
    }

    /// What the server has done, and how old models are; nothing if there are no such jobs.
    pub(super) fn snapshot(&self, unix_ns: u64) -> Option<AsyncSnapshot> {
        if self.jobs.is_empty() {
            return None;
        }
        let clusters = self.server.clusters().map(|(job, cluster)| ClusterSnapshot {
            job,
            version: cluster.version(),
            reward: cluster.reward(),
            age: cluster.age().map(|age| Ages {
                average: age.average(unix_ns) * 1e-9,
                mean_peak: age.mean_peak() * 1e-9,
                highest_peak: Duration::from_nanos(age.highest_peak()).as_secs_f64(),
                current: Duration::from_nanos(age.current(unix_ns)).as_secs_f64(),
            }),
        });
        Some(AsyncSnapshot {
            counters: *self.server.counters(),
            clusters: clusters.collect(),
            fairness: self.server.fairness(unix_ns),
            checkpoints: self.checkpoints.as_ref().map(Checkpoints::counts),
        })
    }

    /// Writes out what the log still holds back, and what models have come to.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let kept = self.checkpoints.as_mut().map_or(Ok(()), |checkpoints| checkpoints.finish(&self.server));
        self.log.as_mut().map_or(Ok(()), std::io::Write::flush).context("writing the log of updates")?;
        kept
    }
}

#[cfg(test)]
mod tests;
