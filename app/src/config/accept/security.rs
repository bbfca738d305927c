//! The keys with which a job's packets are sealed.

use std::path::PathBuf;
use std::sync::Arc;

use pascaline_pipelines::membership::JobSpec;
use pascaline_seal::{Holder, JobKeys, KeyError, Protection, Secret};
use toml::Spanned;

use super::job::Job;
use super::parent::Parent;
use super::values::word;
use super::{Accept, Checked, ConfigError};
use crate::config::words::{Named, Security};

impl Accept<'_> {
    /// The keys of a job whose packets are sealed, and their file. `outside` says that its sums may go to a
    /// parameter server of another process: on that one's machine only such jobs have a key.
    pub(super) fn keys(&self, job: &Job, outside: bool) -> Checked<Option<(PathBuf, Arc<JobKeys>)>> {
        let (Some(protection), Some(written)) = (protection(job.security.as_ref()), &job.security) else {
            return self.no_key(job.key_file.as_ref()).map(|()| None);
        };
        if !(self.scene.all_keys || outside) {
            return Ok(None);
        }
        let id = *job.id.get_ref();
        let (file, at) = match &job.key_file {
            Some(file) => (PathBuf::from(file.get_ref()), Spanned::new(file.span(), ())),
            None => {
                (self.credential(&format!("job-{id}.key"), written.span())?, Spanned::new(written.span(), ()))
            }
        };
        let secret = Secret::read(&file).map_err(|error| self.unusable(&at, &error))?;
        Ok(Some((file, Arc::new(JobKeys::new(&secret, id, protection)))))
    }

    /// The keys of this appliance at the job's parent and at each backup, and their file, if packets to them
    /// are sealed.
    pub(super) fn keys_above(
        &self,
        table: &Spanned<Parent>,
        job: &JobSpec,
    ) -> Checked<(Option<PathBuf>, Vec<Holder>)> {
        let parent = table.get_ref();
        let (Some(protection), Some(written)) = (protection(parent.security.as_ref()), &parent.security)
        else {
            self.no_key(parent.key_file.as_ref())?;
            return match &job.keys {
                None => Ok((None, Vec::new())),
                Some(keys) => {
                    let name = keys.protection().name();
                    let message =
                        format!("a job with security = {name:?} whose sums go to its parent unsealed");
                    let remedy =
                        "set security and key_file in [jobs.parent], too, or leave them out of the job";
                    Err(self.error(table, message, remedy))
                }
            };
        };
        if !self.scene.all_keys {
            return Ok((None, Vec::new()));
        }
        let (file, at) = match &parent.key_file {
            Some(file) => (PathBuf::from(file.get_ref()), Spanned::new(file.span(), ())),
            None => {
                let name = format!("job-{}.parent.key", job.id);
                (self.credential(&name, written.span())?, Spanned::new(written.span(), ()))
            }
        };
        let ranks = job.parent.iter().chain(&job.backups).map(|parent| parent.rank);
        let keys = ranks.map(|rank| Holder::read(&file, job.id, rank, protection));
        let keys = keys.collect::<Result<_, _>>().map_err(|error| self.unusable(&at, &error))?;
        Ok((Some(file), keys))
    }

    /// Nothing is sealed: then there is no key either.
    fn no_key(&self, file: Option<&Spanned<String>>) -> Checked<()> {
        let remedy = "set security = \"mac\" or \"encrypt\" as well, or leave the key out";
        file.map_or(Ok(()), |file| Err(self.error(file, "key_file where packets are not sealed", remedy)))
    }

    /// A key that a file does not give.
    fn unusable(&self, at: &Spanned<()>, error: &KeyError) -> ConfigError {
        let (message, remedy) = error.parts();
        self.error(at, message, &remedy)
    }

    /// Where the service manager keeps a key (systemd.exec(5), LoadCredential), if no file is named.
    fn credential(&self, name: &str, at: core::ops::Range<usize>) -> Checked<PathBuf> {
        match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(directory) => Ok(PathBuf::from(directory).join(name)),
            None => {
                let remedy = format!(
                    "set key_file to the file that `pascaline job key --new FILE` makes, or have systemd \
                     load the credential {name}"
                );
                Err(self.error(&Spanned::new(at, ()), "security without a key", &remedy))
            }
        }
    }
}

/// The protection that is written; none by default.
pub(super) fn protection(written: Option<&Spanned<Named<Security>>>) -> Option<Protection> {
    match word(written) {
        None | Some(Security::None) => None,
        Some(Security::Mac) => Some(Protection::Mac),
        Some(Security::Encrypt) => Some(Protection::Encrypt),
    }
}
