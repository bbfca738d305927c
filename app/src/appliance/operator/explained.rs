//! Why a job is aggregated here, or not, for the admin API.

use pascaline_pipelines::membership::JobStatus;
use pascaline_telemetry::{DropReason, JobEvent};

use super::{Operator, Site};
use crate::admin::server::Explanation;
use crate::observe::explain::{Diagnosis, Evidence, Neighbour, Terms, diagnose};

impl Operator {
    pub(super) fn explain(&self, status: &JobStatus, site: &Site<'_>) -> Explanation {
        let config = &self.running.config;
        let terms = if status.formed { Terms::of_formed(config) } else { Terms::of_job(config, status.id) };
        let cells = site.plane.membership().counts_of(status.id).unwrap_or_default();
        let (job, counted) = (self.summary(status, site.plane), cells.read());
        let now_ns = self.facts.clock.now_ns();
        let late = cells.late_ranks(now_ns);
        let neighbours = self.neighbours(site);
        let missing = site.plane.membership().missing(status.id, site.now);
        let known = Evidence {
            status,
            name: &job.name,
            counted: &counted,
            late: &late,
            terms,
            neighbours: &neighbours,
            missing: &missing,
            stalled: site.stalled,
            ports: site.ports,
            now_ns,
        };
        let Diagnosis { aggregated, share, bytes, summary, reasons, parent } = diagnose(&known);
        let events = JobEvent::ALL.iter().map(|&event| (event.name().to_owned(), counted.get(event)));
        let drops = DropReason::ALL.iter().filter(|&&reason| counted.dropped(reason) > 0);
        let drops = drops.map(|&reason| (format!("dropped_{}", reason.name()), counted.dropped(reason)));
        Explanation {
            job,
            aggregated: aggregated.to_owned(),
            share,
            bytes,
            summary,
            reasons,
            parent,
            counters: events.chain(drops).collect(),
        }
    }

    fn neighbours(&self, site: &Site<'_>) -> Vec<Neighbour> {
        let config = &self.running.config;
        let counts = site.plane.membership().counts();
        let known = counts.iter().map(|(id, cells)| {
            let job = config.jobs.iter().find(|job| job.spec.id == *id);
            let asynchronous = job.is_some_and(|job| job.updates());
            Neighbour::new(*id, job.map_or("", |job| &job.name), &cells.read(), asynchronous)
        });
        known.collect()
    }
}
