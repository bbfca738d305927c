//! The configuration in force, and how another one takes its place.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use pascaline_pipelines::ControlPlane;
use pascaline_pipelines::membership::Reconfigured;
use pascaline_seal::{Holder, JobKeys};
use pascaline_shared::guarded::{FilePlace, Problem};

use super::jobs;
use crate::admin::server::{JobChange, JobKey, Kept, Patch, ReloadReport};
use crate::config::settings::is_live;
use crate::config::{Config, ConfigError, JobConfig};

/// A configuration file that is refused, or could not be read.
fn in_file(error: &ConfigError) -> Problem {
    let place = error.place().map(|(line, column)| FilePlace { line, column });
    Problem { place, ..Problem::unprocessable(error.message(), error.remedy()) }
}

fn unsealed(id: u16) -> Problem {
    let error = format!("job {id}: its packets are not sealed");
    Problem::new(StatusCode::CONFLICT, error, "set `security` and `key_file` of it")
}

/// The keys of a job as its files have them now.
#[derive(Debug)]
pub(super) struct ReadKeys {
    /// The files, for people.
    pub(super) files: String,
    /// Those of its packets, if they are others than in force.
    pub(super) keys: Option<Arc<JobKeys>>,
    /// Those of this appliance at the parent, likewise.
    pub(super) above: Option<Vec<Holder>>,
}

/// The configuration of the start, and the one in force.
#[derive(Debug)]
pub(super) struct Running {
    start: Config,
    pub(super) config: Config,
}

impl Running {
    pub(super) fn new(config: &Config) -> Self {
        Self { start: config.clone(), config: config.clone() }
    }

    /// Puts the file in force, as it is now, as far as that can be done while the appliance runs.
    ///
    /// # Errors
    /// The file is refused, or its jobs do not fit what is there; nothing has changed.
    pub(super) fn reload(
        &mut self,
        now: Duration,
        plane: &mut ControlPlane,
    ) -> Result<ReloadReport, Problem> {
        let wanted = Config::load(&self.start.file).map_err(|error| in_file(&error))?;
        let kept = self.differences(&wanted);
        let next = if kept.is_empty() { wanted } else { self.with_what_can_change(&wanted)? };
        let report = self.adopt(now, next, plane)?;
        Ok(ReloadReport { kept, ..report })
    }

    /// Creates a job from its keys in `[[jobs]]`.
    ///
    /// # Errors
    /// There is one of that number or name, or the keys are refused; nothing has changed.
    pub(super) fn create(
        &mut self,
        now: Duration,
        keys: toml::Table,
        plane: &mut ControlPlane,
    ) -> Result<ReloadReport, Problem> {
        let name = keys.get("name").and_then(toml::Value::as_str);
        let number = keys.get("id").and_then(toml::Value::as_integer);
        let clash = |job: &&JobConfig| Some(i64::from(job.spec.id)) == number || Some(&*job.name) == name;
        if let Some(other) = self.config.jobs.iter().find(clash) {
            let error = format!("there is a job {} {:?} already", other.spec.id, other.name);
            let remedy = format!("PATCH /api/v1/jobs/{} changes it", other.spec.id);
            return Err(Problem::new(StatusCode::CONFLICT, error, remedy));
        }
        let mut written = self.config.written.clone();
        written_jobs(&mut written).push(toml::Value::Table(keys));
        self.adopt(now, self.rewritten(&written)?, plane)
    }

    /// Changes some keys of a job.
    ///
    /// # Errors
    /// There is no such job, or the keys are refused; nothing has changed.
    pub(super) fn change(
        &mut self,
        now: Duration,
        job: &JobKey,
        patch: Patch,
        plane: &mut ControlPlane,
    ) -> Result<ReloadReport, Problem> {
        let id = self.configured(job)?;
        let mut written = self.config.written.clone();
        if let Some(toml::Value::Table(keys)) = written_jobs(&mut written).iter_mut().find(|job| is(job, id))
        {
            patch.apply(keys);
        }
        self.adopt(now, self.rewritten(&written)?, plane)
    }

    /// Reads the keys of a job again.
    ///
    /// # Errors
    /// There is no such job, its packets are not sealed, or a key is refused.
    pub(super) fn read_keys(&self, id: u16) -> Result<ReadKeys, Problem> {
        self.configured(&JobKey::Number(id))?;
        let is_it = |job: &&JobConfig| job.spec.id == id;
        let jobs = self.rewritten(&self.config.written)?.jobs;
        let both = jobs.iter().find(is_it).zip(self.config.jobs.iter().find(is_it));
        let files = |(again, _): &(&JobConfig, &JobConfig)| {
            let files = [&again.key_file, &again.parent_key_file].into_iter().flatten();
            files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(" and ")
        };
        let (Some((again, own)), files) = (both, both.as_ref().map(files).unwrap_or_default()) else {
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("no job {id}"), "GET /api/v1/jobs"));
        };
        if files.is_empty() {
            return Err(unsealed(id));
        }
        Ok(ReadKeys {
            files,
            keys: again.spec.keys.clone().filter(|keys| own.spec.keys.as_ref() != Some(keys)),
            above: Some(again.spec.keys_above.clone()).filter(|keys| own.spec.keys_above != *keys),
        })
    }

    /// The file with the key of a job's packets.
    ///
    /// # Errors
    /// There is no such job, or its packets are not sealed.
    pub(super) fn key_file(&self, id: u16) -> Result<&Path, Problem> {
        self.configured(&JobKey::Number(id))?;
        let job = self.config.jobs.iter().find(|job| job.spec.id == id);
        job.and_then(|job| job.key_file.as_deref()).ok_or_else(|| unsealed(id))
    }

    /// Has a job use the keys that [`read_keys`](Self::read_keys) has given.
    pub(super) fn use_keys(&mut self, now: Duration, id: u16, read: ReadKeys, plane: &mut ControlPlane) {
        for job in self.config.jobs.iter_mut().filter(|job| job.spec.id == id) {
            if let Some(keys) = &read.keys {
                plane.rekey(now, id, Arc::clone(keys));
                job.spec.keys = Some(Arc::clone(keys));
            }
            if let Some(keys) = &read.above {
                plane.rekey_above(now, id, keys.clone());
                job.spec.keys_above.clone_from(keys);
            }
        }
    }

    /// Deletes a job, whether it is written down or formed by Joins.
    ///
    /// # Errors
    /// There is no such job.
    pub(super) fn delete(
        &mut self,
        now: Duration,
        job: &JobKey,
        plane: &mut ControlPlane,
    ) -> Result<ReloadReport, Problem> {
        let id = match (self.configured(job), job) {
            (Ok(id), _) => id,
            (Err(_), &JobKey::Number(id)) if plane.dissolve(id) => {
                let removed = JobChange { id, name: String::new(), what: "removed".to_owned() };
                return Ok(ReloadReport { jobs: vec![removed], settings: Vec::new(), kept: Vec::new() });
            }
            (Err(_), key) => {
                let remedy = "GET /api/v1/jobs lists the jobs; those formed by Joins have numbers only";
                return Err(Problem::new(StatusCode::NOT_FOUND, format!("no job {key}"), remedy));
            }
        };
        let mut written = self.config.written.clone();
        written_jobs(&mut written).retain(|job| !is(job, id));
        self.adopt(now, self.rewritten(&written)?, plane)
    }

    /// The number of a job that is written down.
    fn configured(&self, key: &JobKey) -> Result<u16, Problem> {
        let named = |job: &&JobConfig| match key {
            JobKey::Number(number) => job.spec.id == *number,
            JobKey::Name(name) => job.name == *name,
        };
        self.config.jobs.iter().find(named).map(|job| job.spec.id).ok_or_else(|| {
            let remedy =
                "GET /api/v1/jobs lists the jobs; those formed by Joins have the keys of [admission]";
            Problem::new(StatusCode::NOT_FOUND, format!("no configured job {key}"), remedy)
        })
    }

    /// What the file says, but a running appliance cannot do.
    fn differences(&self, wanted: &Config) -> Vec<Kept> {
        let (running, file) = (self.start.settings(), wanted.settings());
        let mut keys: Vec<&String> =
            running.keys().chain(file.keys().filter(|key| !running.contains_key(*key))).collect();
        keys.sort_unstable();
        let value = |all: &BTreeMap<String, String>, key: &String| {
            all.get(key).cloned().unwrap_or_else(|| "none".to_owned())
        };
        let kept =
            |key: &String| Kept { key: key.clone(), running: value(&running, key), file: value(&file, key) };
        let differs = |key: &&String| !is_live(key) && running.get(*key) != file.get(*key);
        keys.into_iter().filter(differs).map(kept).collect()
    }

    /// What runs, with those parts of a file that can change.
    fn with_what_can_change(&self, wanted: &Config) -> Result<Config, Problem> {
        let mut written = self.start.written.clone();
        for key in ["jobs", "admission"] {
            match wanted.written.get(key) {
                Some(value) => written.insert(key.to_owned(), value.clone()),
                None => written.remove(key),
            };
        }
        let drain = wanted.written.get("dataplane").and_then(|dataplane| dataplane.get("drain")).cloned();
        if let Some(toml::Value::Table(dataplane)) = written.get_mut("dataplane") {
            match drain {
                Some(drain) => dataplane.insert("drain".to_owned(), drain),
                None => dataplane.remove("drain"),
            };
        }
        self.rewritten(&written).map_err(|problem| Problem {
            error: format!("with what cannot change while the appliance runs: {}", problem.error),
            ..problem
        })
    }

    /// A configuration that is in no file.
    fn rewritten(&self, written: &toml::Table) -> Result<Config, Problem> {
        let refuse = |error: ConfigError| Problem::unprocessable(error.message(), error.remedy());
        let text = toml::to_string(written).map_err(|error| {
            Problem::unprocessable(error.to_string(), "give numbers, texts, true or false, or lists of texts")
        })?;
        Config::parse_running(&self.start.file, &text).map_err(refuse)
    }

    /// Puts a configuration in force that differs from the one of the start in nothing that cannot change.
    fn adopt(
        &mut self,
        now: Duration,
        mut next: Config,
        plane: &mut ControlPlane,
    ) -> Result<ReloadReport, Problem> {
        next.settle(&self.start, &self.config)
            .map_err(|misfit| Problem::unprocessable(misfit.message, misfit.remedy))?;
        let (specs, admission) = jobs::terms(&next);
        let mut done = plane.reconfigure(now, specs, admission);
        for old in &self.config.jobs {
            let id = old.spec.id;
            if next.jobs.iter().any(|job| job.spec.id == id && job.name != old.name) {
                done.entry(id).or_insert(Reconfigured::Changed);
            }
        }
        let name = |id: u16| {
            let job = |config: &Config| {
                config.jobs.iter().find(|job| job.spec.id == id).map(|job| job.name.clone())
            };
            job(&next).or_else(|| job(&self.config)).unwrap_or_default()
        };
        let change = |(&id, what): (&u16, &Reconfigured)| {
            let what = match what {
                Reconfigured::Added => "added",
                Reconfigured::Changed => "changed",
                Reconfigured::Reformed => "reformed",
                Reconfigured::Removed => "removed",
            };
            JobChange { id, name: name(id), what: what.to_owned() }
        };
        let jobs = done.iter().map(change).collect();
        let (before, after) = (self.config.settings(), next.settings());
        let live = before.keys().chain(after.keys()).filter(|key| is_live(key));
        let mut settings: Vec<String> =
            live.filter(|key| before.get(*key) != after.get(*key)).cloned().collect();
        settings.sort_unstable();
        settings.dedup();
        self.config = next;
        Ok(ReloadReport { jobs, settings, kept: Vec::new() })
    }
}

/// The jobs as they are written.
fn written_jobs(written: &mut toml::Table) -> &mut Vec<toml::Value> {
    let jobs = written.entry("jobs").or_insert_with(|| toml::Value::Array(Vec::new()));
    if !jobs.is_array() {
        *jobs = toml::Value::Array(Vec::new());
    }
    match jobs {
        toml::Value::Array(jobs) => jobs,
        _ => unreachable!("it has just been made one"),
    }
}

fn is(job: &toml::Value, id: u16) -> bool {
    job.get("id").and_then(toml::Value::as_integer) == Some(i64::from(id))
}

#[cfg(test)]
mod tests;
