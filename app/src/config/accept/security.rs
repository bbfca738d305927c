//! The keys with which a job's packets are sealed.

use std::path::PathBuf;
use std::sync::Arc;

use pascaline_seal::{JobKeys, Protection, Secret};
use toml::Spanned;

use super::job::Job;
use super::values::word;
use super::{Accept, Checked};
use crate::config::words::Security;

impl Accept<'_> {
    /// The keys of a job whose packets are sealed, and their file. `spills` says that its sums may go to a
    /// parameter server.
    pub(super) fn keys(&self, job: &Job, spills: bool) -> Checked<Option<(PathBuf, Arc<JobKeys>)>> {
        let protection = match word(job.security.as_ref()) {
            None | Some(Security::None) => None,
            Some(Security::Mac) => Some(Protection::Mac),
            Some(Security::Encrypt) => Some(Protection::Encrypt),
        };
        let (Some(protection), Some(written)) = (protection, &job.security) else {
            return match &job.key_file {
                None => Ok(None),
                Some(file) => {
                    let remedy = "set security = \"mac\" or \"encrypt\" as well, or leave the key out";
                    Err(self.error(file, "key_file in a job whose packets are not sealed", remedy))
                }
            };
        };
        let name = protection.name();
        let alone = |what: &str, remedy: &str| {
            Err(self.error(written, format!("security = {name:?} in a job {what}"), remedy))
        };
        if spills {
            return alone("with a parameter server", "set `server = false`, or leave security out");
        }
        if job.parent.is_some() {
            return alone("below another appliance", "leave `parent` or security out");
        }
        if job.multicast.is_some() {
            return alone("with a multicast group", "leave `multicast` or security out");
        }
        let id = *job.id.get_ref();
        let (file, at) = match &job.key_file {
            Some(file) => (PathBuf::from(file.get_ref()), Spanned::new(file.span(), ())),
            None => (self.credential(job, written.span())?, Spanned::new(written.span(), ())),
        };
        let secret = Secret::read(&file).map_err(|error| {
            let text = error.to_string();
            let (message, remedy) = text.split_once("\n  remedy: ").unwrap_or((&text, "look at the file"));
            self.error(&at, message, remedy)
        })?;
        Ok(Some((file, Arc::new(JobKeys::new(&secret, id, protection)))))
    }

    /// Where the service manager keeps the job's key (systemd.exec(5), LoadCredential), if no file is named.
    fn credential(&self, job: &Job, at: core::ops::Range<usize>) -> Checked<PathBuf> {
        let name = format!("job-{}.key", job.id.get_ref());
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
