//! Models of asynchronous jobs on disk: `job-ID.model` in a directory, a file for each.
//!
//! A file is written beside its place and renamed into it, so that there is a whole one at any time; at most
//! once a second for each job, by a thread of its own, so that nobody waits for a disk. What cannot be
//! written waits until it can, or until a later model of the job takes its place. A model of another length
//! does not take the place of the one before, which gets another name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use pascaline_ps::asynchronous::{AsyncServer, Kept};
use tracing::{info, warn};

/// Between two files of a job.
const INTERVAL: Duration = Duration::from_secs(1);
/// No file is longer: a model and its average, each of one packet.
const LONGEST: u64 = 1 << 18;
/// Models of a job that have had another length, each in a file of its own.
const MOST_ASIDE: u32 = 99;

/// The directory, and who writes there.
#[derive(Debug)]
pub(super) struct Checkpoints {
    directory: PathBuf,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
    /// The floats and the version of each job's file, or of what waits to become it.
    handed: BTreeMap<u16, (usize, u64)>,
    due: Duration,
    counts: Arc<Counts>,
}

/// Files written, and not written.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// Models on their way to the disk.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// One of each job, and those of other lengths that come after it.
    models: VecDeque<Kept>,
    /// Nothing more comes.
    over: bool,
    /// Why the last one was not written.
    error: Option<io::Error>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next model; `failed` is how many have failed one after another. None if there is nothing
    /// more to do.
    fn next(&self, failed: &mut usize) -> Option<Kept> {
        let mut waiting = self.lock();
        loop {
            if *failed > 0 && *failed >= waiting.models.len() {
                if waiting.over {
                    return None;
                }
                // All that there are. There may be room again later.
                *failed = 0;
                let waited = self.changed.wait_timeout_while(waiting, INTERVAL, |waiting| !waiting.over);
                waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            match waiting.models.pop_front() {
                None if !waiting.over => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
                next => return next,
            }
        }
    }
}

impl Waiting {
    /// Adds a model, in place of an earlier one that is as long.
    fn add(&mut self, kept: Kept) {
        match self.models.iter_mut().rfind(|model| model.job == kept.job) {
            Some(last) if last.weights.len() == kept.weights.len() => *last = kept,
            _ => self.models.push_back(kept),
        }
    }

    /// Takes back a model that was not written, unless there is a later one that is as long.
    fn take_back(&mut self, kept: Kept) {
        match self.models.iter().position(|model| model.job == kept.job) {
            Some(at) if self.models[at].weights.len() == kept.weights.len() => {}
            Some(at) => self.models.insert(at, kept),
            None => self.models.push_back(kept),
        }
    }
}

impl Checkpoints {
    /// Opens a directory, and reads the models of these jobs that are there.
    pub(super) fn open(
        directory: &Path,
        jobs: impl Iterator<Item = u16>,
    ) -> anyhow::Result<(Self, Vec<Kept>)> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let models = jobs.filter_map(|job| read(&place(directory, job), job).transpose());
        let models = models.collect::<anyhow::Result<Vec<Kept>>>()?;
        // Better now than after the first hour of training.
        let probe = directory.join(".writable");
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .with_context(|| format!("cannot write in {}", directory.display()))?;
        let (queue, counts) = (Arc::new(Queue::default()), Arc::new(Counts::default()));
        let (there, waiting, counted) = (directory.to_owned(), Arc::clone(&queue), Arc::clone(&counts));
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || write_all(&there, &waiting, &counted));
        let writer = Some(thread.context("cannot start a thread")?);
        let handed = models.iter().map(|kept| (kept.job, state(kept))).collect();
        let (directory, due) = (directory.to_owned(), Duration::ZERO);
        Ok((Self { directory, queue, writer, handed, due, counts }, models))
    }

    /// Keeps what has changed, if it is time.
    pub(super) fn keep(&mut self, now: Duration, server: &AsyncServer) {
        if now >= self.due {
            self.due = now.saturating_add(INTERVAL);
            self.keep_now(server);
        }
    }

    /// Keeps what has changed, whenever the last time was.
    pub(super) fn keep_now(&mut self, server: &AsyncServer) {
        if self.writer.is_none() {
            return;
        }
        for (job, cluster) in server.clusters() {
            let floats = server.weights(job).map_or(0, <[f32]>::len);
            let state = (floats, cluster.version());
            if self.handed.get(&job) != Some(&state)
                && let Some(kept) = server.keep(job)
            {
                self.queue.lock().add(kept);
                self.handed.insert(job, state);
            }
        }
        self.queue.changed.notify_one();
    }

    /// Keeps what has changed, and waits until it is written.
    ///
    /// # Errors
    /// Something cannot be written.
    pub(super) fn finish(&mut self, server: &AsyncServer) -> anyhow::Result<()> {
        self.keep_now(server);
        let Some(thread) = self.writer.take() else { return Ok(()) };
        self.queue.lock().over = true;
        self.queue.changed.notify_one();
        let _ = thread.join();
        let directory = self.directory.display();
        let mut waiting = self.queue.lock();
        if waiting.models.is_empty() {
            info!(%directory, "models are kept");
            return Ok(());
        }
        let jobs: Vec<u16> = waiting.models.iter().map(|kept| kept.job).collect();
        let lost = format!("the latest models of jobs {jobs:?} are not kept in {directory}");
        Err(waiting.error.take().map_or_else(|| anyhow::anyhow!("the writer has died"), Into::into))
            .context(lost)
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.failed.load(Ordering::Relaxed))
    }
}

const fn state(kept: &Kept) -> (usize, u64) {
    (kept.weights.len(), kept.version)
}

fn place(directory: &Path, job: u16) -> PathBuf {
    directory.join(format!("job-{job}.model"))
}

fn read(file: &Path, job: u16) -> anyhow::Result<Option<Kept>> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let mut bytes = Vec::new();
    opened
        .take(LONGEST)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let kept = Kept::from_bytes(&bytes).with_context(|| file.display().to_string())?;
    anyhow::ensure!(kept.job == job, "{} is the model of job {}", file.display(), kept.job);
    let (version, floats) = (kept.version, kept.weights.len());
    info!(job, version, floats, file = %file.display(), "a model was kept");
    Ok(Some(kept))
}

fn write_all(directory: &Path, queue: &Queue, counts: &Counts) {
    let (mut failed, mut told) = (0, BTreeSet::new());
    while let Some(kept) = queue.next(&mut failed) {
        let job = kept.job;
        match write(directory, &kept) {
            Ok(()) => {
                counts.written.fetch_add(1, Ordering::Relaxed);
                failed = 0;
                if told.remove(&job) {
                    info!(job, directory = %directory.display(), "a model is kept again");
                }
            }
            Err(error) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                failed += 1;
                if told.insert(job) {
                    warn!(job, directory = %directory.display(), %error, "a model is not kept yet");
                }
                let mut waiting = queue.lock();
                waiting.take_back(kept);
                waiting.error = Some(error);
            }
        }
    }
}

fn write(directory: &Path, kept: &Kept) -> io::Result<()> {
    let (place, beside) = (place(directory, kept.job), directory.join(format!(".job-{}.new", kept.job)));
    let mut file = File::create(&beside)?;
    file.write_all(&kept.to_bytes())?;
    file.sync_data()?;
    spare(&place, kept)?;
    fs::rename(&beside, &place)
}

/// Gives another name to a model of another length: what has been learned is not lost because somebody has
/// used the job's number for something else.
fn spare(place: &Path, kept: &Kept) -> io::Result<()> {
    let bytes = match fs::read(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    if Kept::from_bytes(&bytes).is_ok_and(|before| before.weights.len() == kept.weights.len()) {
        return Ok(());
    }
    let (job, floats) = (kept.job, kept.weights.len());
    let mut names = (1..=MOST_ASIDE).map(|number| place.with_extension(format!("model.{number}")));
    let Some(aside) = names.find(|name| !name.exists()) else {
        warn!(
            job,
            floats, "the model before had another length, and is lost: there are {MOST_ASIDE} already"
        );
        return Ok(());
    };
    // Under both names until the new one takes its place.
    fs::hard_link(place, &aside)?;
    warn!(job, floats, aside = %aside.display(), "the model before had another length: it has this name now");
    Ok(())
}

#[cfg(test)]
mod tests;
