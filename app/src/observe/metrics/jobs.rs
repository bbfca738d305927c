//! What a scrape says of jobs: a bounded number of series, whatever the number of jobs and ranks.

use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pascaline_pipelines::membership::{JobStatus, UplinkState, UplinkStatus};
use pascaline_telemetry::listing::{JobTotals, Listed, Listing};
use pascaline_telemetry::{CellsReading, Exemplar, Gauge, JOB_ID, JobEvent};

use super::exemplars::Waits;
use crate::observe::snapshot::JobInput;

/// Jobs with series of their own; the others are one, `job_id="other"`.
pub(crate) const PLACES: usize = 64;
/// Series by rank that a metric may have: jobs get theirs in the order of their numbers while there is room
/// for all ranks of the next.
pub(crate) const RANK_SERIES: usize = 512;

type Labels = Vec<(&'static str, String)>;

/// Makes the series, and remembers whose they are.
#[derive(Debug)]
pub(crate) struct JobMetrics {
    listing: Mutex<Listing>,
    waits: Mutex<Waits>,
    began: Instant,
}

impl JobMetrics {
    pub(crate) fn new() -> Self {
        let (listing, waits) = (Mutex::new(Listing::new(PLACES)), Mutex::default());
        Self { listing, waits, began: Instant::now() }
    }

    /// The series of these jobs, which are all that there are, in the order of their numbers.
    pub(crate) fn gauges(&self, jobs: &[JobInput]) -> Vec<Gauge> {
        let totals = jobs.iter().map(|job| (job.status.id, JobTotals::of(&job.reading)));
        let listed =
            self.listing.lock().unwrap_or_else(PoisonError::into_inner).look(self.began.elapsed(), totals);
        let mut out = counters(jobs, &listed);
        let shown = shown(jobs, &listed);
        out.push(Gauge {
            name: "jobs",
            help: "Jobs that there are, with series of their own or not.",
            counter: false,
            #[expect(clippy::cast_precision_loss, reason = "there are at most 65,536")]
            samples: vec![(vec![], jobs.len() as f64)],
        });
        out.extend(states(&shown));
        out.extend(model_ages(&shown));
        out.extend(parents(&shown));
        out.extend(questions(&shown));
        out.extend(by_rank(&shown));
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).look(&shown);
        out
    }

    /// Which jobs waited how long, from the last gauges to those before.
    pub(crate) fn exemplars(&self) -> Vec<Exemplar> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).found().to_vec()
    }
}

fn labels(job: &JobInput) -> Labels {
    vec![(JOB_ID, job.status.id.to_string()), ("name", job.name.clone())]
}

/// The jobs of which there are gauges: those with a place, then those with the lower numbers while there is
/// room.
fn shown<'a>(jobs: &'a [JobInput], listed: &Listed) -> Vec<&'a JobInput> {
    let has_place = |job: &&JobInput| listed.jobs.binary_search_by_key(&job.status.id, |(id, _)| *id).is_ok();
    let (mut shown, waiting): (Vec<_>, Vec<_>) = jobs.iter().partition(has_place);
    shown.extend(waiting.into_iter().take(PLACES.saturating_sub(listed.jobs.len())));
    shown.sort_by_key(|job| job.status.id);
    shown
}

fn counters(jobs: &[JobInput], listed: &Listed) -> Vec<Gauge> {
    let others = vec![(JOB_ID, "other".to_owned()), ("name", String::new())];
    let mut series: Vec<(Labels, &JobTotals)> = Vec::new();
    for (id, totals) in &listed.jobs {
        let job = jobs.binary_search_by_key(id, |job| job.status.id).ok().and_then(|at| jobs.get(at));
        series.extend(job.map(|job| (labels(job), totals)));
    }
    series.push((others, &listed.others));
    let gauge = |name, help, pick: &dyn Fn(&JobTotals) -> f64| Gauge {
        name,
        help,
        counter: true,
        samples: series.iter().map(|(labels, totals)| (labels.clone(), pick(totals))).collect(),
    };
    let mut out = vec![
        gauge("job_contributions", "Contributions received from a job's ranks.", &|totals| {
            float(totals.contributions)
        }),
        gauge(
            "job_contribution_bytes",
            "Bytes of the payloads of a job's contributions, once it is known what became of them.",
            &|totals| float(totals.bytes),
        ),
        gauge(
            "job_dropped_packets",
            "Packets of a job that were dropped, for reasons that say something of it.",
            &|totals| float(totals.dropped),
        ),
        gauge(
            "job_waited_seconds",
            "Time from the first to the last contribution of a job's results, summed over the results.",
            &|totals| float(totals.waited_ns) / 1e9,
        ),
    ];
    let below = [JobEvent::SentUp, JobEvent::SentUpAgain, JobEvent::FromAbove];
    for (at, event) in JobEvent::ALL.iter().enumerate() {
        let some = |(_, totals): &(Labels, &JobTotals)| totals.events.get(at).is_some_and(|n| *n > 0);
        // Few jobs have a parent.
        if below.contains(event) && !series.iter().any(some) {
            continue;
        }
        let pick = move |totals: &JobTotals| float(totals.events.get(at).copied().unwrap_or(0));
        out.push(gauge(event.metric(), event.help(), &pick));
    }
    out
}

fn states(shown: &[&JobInput]) -> [Gauge; 6] {
    type Pick = fn(&JobStatus, &CellsReading) -> f64;
    let picks: [(&'static str, &'static str, Pick); 6] = [
        ("job_server_lacking", "1 if a job lacks the parameter server that it expects.", |status, _| {
            f64::from(u8::from(status.server.is_lacking()))
        }),
        ("job_ranks", "Ranks of a job.", |status, _| f64::from(status.fan_in)),
        ("job_members", "Ranks of a job that have joined.", |status, _| f64::from(status.joined)),
        ("job_lost_ranks", "Ranks that a job has lost.", |status, _| f64::from(status.lost)),
        ("job_epoch", "Generation of a job.", |status, _| f64::from(status.epoch)),
        (
            "job_behind_packets",
            "PSNs that the last rank of a job is behind the one that is ahead.",
            |_, reading| f64::from(reading.ranks.iter().map(|rank| reading.behind(rank)).max().unwrap_or(0)),
        ),
    ];
    picks.map(|(name, help, pick)| Gauge {
        name,
        help,
        counter: false,
        samples: shown.iter().map(|job| (labels(job), pick(&job.status, &job.reading))).collect(),
    })
}

/// How old the models of asynchronous jobs are; nothing if there are none.
fn model_ages(shown: &[&JobInput]) -> Option<Gauge> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let samples: Vec<_> =
        shown.iter().filter_map(|job| Some((labels(job), job.reading.model_age(now)?))).collect();
    (!samples.is_empty()).then_some(Gauge {
        name: "job_model_age_seconds",
        help: "Age-of-Model of an asynchronous job: time since the newest update was generated that its \
            server has answered.",
        counter: false,
        samples,
    })
}

/// Which jobs wait for the appliance above them; nothing if none has one.
fn parents(shown: &[&JobInput]) -> Option<Gauge> {
    let lacks = |uplink: UplinkStatus| {
        matches!(uplink.state, UplinkState::NoAnswer | UplinkState::Refused(_) | UplinkState::Pending)
    };
    let of = |job: &&JobInput| Some((labels(job), f64::from(u8::from(lacks(job.status.uplink?)))));
    let samples: Vec<_> = shown.iter().filter_map(of).collect();
    (!samples.is_empty()).then_some(Gauge {
        name: "job_parent_lacking",
        help: "1 if a job waits for the appliance above it.",
        counter: false,
        samples,
    })
}

/// How often the MACs of appliances above have been asked for; nothing if none is.
fn questions(shown: &[&JobInput]) -> Option<Gauge> {
    let of = |job: &&JobInput| {
        let uplink = job.status.uplink.filter(|uplink| uplink.questions > 0)?;
        Some((labels(job), float(uplink.questions)))
    };
    let samples: Vec<_> = shown.iter().filter_map(of).collect();
    (!samples.is_empty()).then_some(Gauge {
        name: "job_parent_mac_questions",
        help: "Questions by ARP or neighbour discovery for the MAC of the appliance above a job, of its \
            backups, or of routers on the way.",
        counter: true,
        samples,
    })
}

/// The jobs of which there are series by rank.
fn with_ranks<'a>(shown: &[&'a JobInput]) -> impl Iterator<Item = &'a JobInput> {
    let mut room = RANK_SERIES;
    let fits = move |job: &&JobInput| {
        let left = room.checked_sub(job.reading.ranks.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    shown.iter().copied().take_while(fits).collect::<Vec<_>>().into_iter()
}

fn by_rank(shown: &[&JobInput]) -> [Gauge; 4] {
    type Pick = fn(&CellsReading, usize) -> f64;
    let picks: [(&'static str, &'static str, bool, Pick); 4] = [
        ("job_rank_contributions", "Contributions received from a rank.", true, |reading, rank| {
            float(reading.ranks[rank].contributions)
        }),
        (
            "job_rank_retransmissions",
            "Contributions of a rank that it had sent before; the counter begins anew after 2^32.",
            true,
            |reading, rank| f64::from(reading.ranks[rank].again),
        ),
        (
            "job_rank_last",
            "Results that a rank's contribution completed: the others waited for it.",
            true,
            |reading, rank| float(reading.ranks[rank].last),
        ),
        (
            "job_rank_behind_packets",
            "PSNs that a rank is behind the one that is ahead.",
            false,
            |reading, rank| f64::from(reading.behind(&reading.ranks[rank])),
        ),
    ];
    picks.map(|(name, help, counter, pick)| {
        let mut samples = Vec::new();
        for job in with_ranks(shown) {
            for rank in 0..job.reading.ranks.len() {
                let mut labels = labels(job);
                labels.push(("rank", rank.to_string()));
                samples.push((labels, pick(&job.reading, rank)));
            }
        }
        Gauge { name, help, counter, samples }
    })
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus values are doubles")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
