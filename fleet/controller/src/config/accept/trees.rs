//! The number of a job's trees, their job numbers, and whether there are appliances for them.

use std::collections::BTreeSet;

use super::{Accept, Checked, with_one_appliance};
use crate::config::{Job, RawJob};
use crate::network::Network;
use crate::tree::Refusal;
use crate::trees::MOST;

impl Accept<'_> {
    /// As written; otherwise one.
    pub(super) fn trees(&self, raw: &RawJob) -> Checked<u16> {
        let Some(written) = &raw.trees else { return Ok(1) };
        let (trees, id) = (*written.get_ref(), *raw.id.get_ref());
        if !(1..=MOST).contains(&trees) {
            let message = format!("{trees} trees");
            return Err(self.error(written, message, format!("write from 1 to {MOST}, or leave trees out")));
        }
        if trees > 1
            && let Some(what) = with_one_appliance(raw)
        {
            let message = format!("{trees} trees, and terms with {what}: its members know one appliance");
            return Err(self.error(written, message, "leave trees out"));
        }
        if trees > 1 && raw.terms.contains_key("multicast") {
            let message =
                format!("{trees} trees, and terms with multicast: each would need a group of its own");
            return Err(self.error(written, message, "leave one of them out"));
        }
        if id.checked_add(trees - 1).is_none() {
            let message = format!("job {id} with {trees} trees, of which each has the next job's number");
            return Err(self.error(written, message, "give the job a lower number, or fewer trees"));
        }
        Ok(trees)
    }

    /// Checks that no other job has the numbers of a job's trees.
    pub(super) fn numbers(&self, raw: &RawJob, job: &Job, taken: &mut BTreeSet<u16>) -> Checked<()> {
        let Some(number) = job.numbers().find(|&number| !taken.insert(number)) else { return Ok(()) };
        let message = format!("there are two jobs {number}");
        let remedy = match job.trees {
            1 => "give each a number of its own; a job with trees has as many, from its own on".to_owned(),
            trees => format!("leave {trees} numbers free from {} on: one for each tree", job.id),
        };
        Err(self.error(&raw.id, message, remedy))
    }

    /// Checks that a job's trees exist, each with a root of its own.
    pub(super) fn roots(&self, network: &Network, raw: &RawJob, job: &Job) -> Checked<()> {
        // Whether there is a tree at all does not depend on which appliances are up.
        let may = |at: usize| !network.appliances[at].spare;
        let refuse = |Refusal { message, remedy }| self.error(&raw.name, message, remedy);
        let trees = job.all_trees(network, &may).map_err(refuse)?;
        trees.iter().try_for_each(|tree| tree.check_links(network)).map_err(refuse)?;
        let Some(written) = &raw.trees else { return Ok(()) };
        let mut roots: Vec<&str> =
            trees.iter().filter_map(|tree| tree.root()).map(|root| &*root.appliance).collect();
        roots.dedup();
        let found: BTreeSet<&str> = roots.iter().copied().collect();
        if found.len() == trees.len() {
            return Ok(());
        }
        let found = found.len();
        let (trees, roots) = (job.trees, roots[..found].join(", "));
        let message = format!("{trees} trees, and appliances for {found}: with {roots} as roots");
        let remedy = format!(
            "add an appliance that no tree of the job has below its root, at another spine for instance, or \
             write trees = {found}"
        );
        Err(self.error(written, message, remedy))
    }
}
