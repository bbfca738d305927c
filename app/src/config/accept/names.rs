//! Names: of the appliance, of ports, of jobs.

use std::collections::BTreeSet;

use toml::Spanned;

use super::job::Job;
use super::{Accept, Checked};
use crate::config::raw;

/// Characters of a name. It is a label of every metric and a part of paths.
const LONGEST: usize = 64;

impl Accept<'_> {
    /// The appliance's name.
    pub(super) fn appliance_name(&self, appliance: &raw::Appliance) -> Checked<String> {
        let name = appliance.name.as_ref().map(|name| self.plain_name(name, "the appliance"));
        Ok(name.transpose()?.unwrap_or_else(|| "pascaline".to_owned()))
    }

    /// A name of letters, digits and what `more` admits.
    fn name(&self, written: &Spanned<String>, what: &str, more: &str, of: &str) -> Checked<String> {
        let name = written.get_ref();
        let length = name.chars().count();
        let message = if name.is_empty() {
            format!("the name of {what} is empty")
        } else if length > LONGEST {
            format!("the name of {what} has {length} characters, at most {LONGEST} are allowed")
        } else if let Some(wrong) = name.chars().find(|c| !c.is_alphanumeric() && !more.contains(*c)) {
            format!("the name of {what} contains {wrong:?}")
        } else if name.trim() != name {
            format!("the name of {what} begins or ends with a space")
        } else {
            return Ok(name.clone());
        };
        Err(self.error(written, message, &format!("write 1 to {LONGEST} characters: {of}")))
    }

    /// A name that is part of files' names as well.
    pub(super) fn plain_name(&self, written: &Spanned<String>, what: &str) -> Checked<String> {
        self.name(written, what, "-_.", "letters, digits, - _ .")
    }

    /// Names of hosts, as URLs have them.
    pub(super) fn hosts(&self, written: &[Spanned<String>]) -> Checked<Vec<String>> {
        written.iter().map(|name| self.name(name, "a host", "-.", "letters, digits, - .")).collect()
    }

    /// The names of all jobs, in their order: by name, too, a job is found.
    pub(super) fn job_names(&self, jobs: &[Spanned<Job>]) -> Checked<Vec<String>> {
        let (mut names, mut taken) = (Vec::new(), BTreeSet::new());
        for job in jobs.iter().map(Spanned::get_ref) {
            let id = *job.id.get_ref();
            let name = match &job.name {
                None => format!("job{id}"),
                Some(written) => {
                    let of = "letters, digits, spaces, - _ . : / + @ = ( ) [ ] #";
                    let name = self.name(written, "a job", " -_.:/+@=()[]#", of)?;
                    if name.parse::<u16>().is_ok_and(|number| number != id) {
                        let message = format!("the name of job {id} is {name:?}, another job's number");
                        return Err(self.error(written, message, "choose a name that is no number"));
                    }
                    name
                }
            };
            if !taken.insert(name.clone()) {
                let message = format!("two jobs are called {name:?}");
                let remedy =
                    "give each job a name of its own; without one, it is called \"job\" and its number";
                return Err(match &job.name {
                    Some(written) => self.error(written, message, remedy),
                    None => self.error(&job.id, message, remedy),
                });
            }
            names.push(name);
        }
        Ok(names)
    }
}
