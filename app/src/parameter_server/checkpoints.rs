//! Models of asynchronous jobs on disk: `job-ID.model` in a directory, a file for each.
//!
//! A file is written beside its place and renamed into it, so that there is a whole one at any time; at most
//! once a second for each job, by a thread of its own, so that nobody waits for a disk. A model of another
//! length does not take the place of the one before, which gets another name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use pascaline_ps::asynchronous::{AsyncServer, Kept};
use tracing::{info, warn};

/// Between two files of a job.
const INTERVAL: Duration = Duration::from_secs(1);
/// No file is longer: a model and its average, each of one packet.
const LONGEST: u64 = 1 << 18;
/// Models that may wait for the disk; what is more is written a second later.
const WAITING: usize = 64;
/// Models of a job that have had another length, each in a file of its own.
const MOST_ASIDE: u32 = 99;

/// The directory, and who writes there.
#[derive(Debug)]
pub(super) struct Checkpoints {
    directory: PathBuf,
    writer: Option<(SyncSender<Kept>, JoinHandle<()>)>,
    /// The floats and the version of each job's file.
    written: BTreeMap<u16, (usize, u64)>,
    due: Duration,
    counts: Arc<Counts>,
}

/// Files written, and not written.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written: AtomicU64,
    pub(super) failed: AtomicU64,
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
        let (sender, receiver) = sync_channel(WAITING);
        let counts = Arc::new(Counts::default());
        let (there, counted) = (directory.to_owned(), Arc::clone(&counts));
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || write_all(&there, &receiver, &counted));
        let writer = Some((sender, thread.context("cannot start a thread")?));
        let written = models.iter().map(|kept| (kept.job, state(kept))).collect();
        Ok((Self { directory: directory.to_owned(), writer, written, due: Duration::ZERO, counts }, models))
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
        let Some((sender, _)) = &self.writer else { return };
        for (job, cluster) in server.clusters() {
            let floats = server.weights(job).map_or(0, <[f32]>::len);
            let state = (floats, cluster.version());
            if self.written.get(&job) != Some(&state)
                && let Some(kept) = server.keep(job)
                && sender.try_send(kept).is_ok()
            {
                self.written.insert(job, state);
            }
        }
    }

    /// Keeps what has changed, and waits until it is written.
    pub(super) fn finish(&mut self, server: &AsyncServer) {
        self.keep_now(server);
        if let Some((sender, thread)) = self.writer.take() {
            drop(sender);
            let _ = thread.join();
            info!(directory = %self.directory.display(), "models are kept");
        }
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

fn write_all(directory: &Path, models: &Receiver<Kept>, counts: &Counts) {
    let mut failing = false;
    while let Ok(kept) = models.recv() {
        match write(directory, &kept) {
            Ok(()) => {
                counts.written.fetch_add(1, Ordering::Relaxed);
                failing = false;
            }
            Err(error) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                if !core::mem::replace(&mut failing, true) {
                    warn!(job = kept.job, directory = %directory.display(), %error, "a model is not kept");
                }
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
