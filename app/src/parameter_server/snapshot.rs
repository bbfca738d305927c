//! What a server has done, for whoever wants to know: scrapes, and the report at the end.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pascaline_ps::{Counters, RejectReason, Usage};
use pascaline_telemetry::{Gauge, Gauges, JOB_ID};
use pascaline_wire::Malformed;
use serde_json::{Map, Value};

mod asynchronous;

pub(crate) use asynchronous::{Ages, AsyncSnapshot, ClusterSnapshot};

/// What a driver has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: u64,
}

/// The state of a server at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) counters: Counters,
    /// Generations of jobs that were not accepted.
    pub(crate) jobs_refused: u64,
    /// The jobs that are served.
    pub(crate) jobs: Vec<(u16, Usage)>,
    pub(crate) driver: Vec<Count>,
    /// Of jobs that train asynchronously, where a server has any.
    pub(crate) asynchronous: Option<AsyncSnapshot>,
}

/// The latest snapshot: written by the server, read by anyone. Clones show the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published(Arc<ArcSwap<Snapshot>>);

impl Published {
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        self.0.store(Arc::new(snapshot));
    }

    pub(crate) fn latest(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }
}

impl Gauges for Published {
    fn gauges(&self) -> Vec<Gauge> {
        self.latest().metrics()
    }
}

type Samples = Vec<(Vec<(&'static str, String)>, f64)>;

/// One sample without labels.
fn single(value: u64) -> Samples {
    vec![(vec![], float(value))]
}

/// One sample for each value of one label.
fn by<'a>(label: &'static str, values: impl IntoIterator<Item = (&'a str, u64)>) -> Samples {
    values.into_iter().map(|(name, value)| (vec![(label, name.to_owned())], float(value))).collect()
}

/// Counters that stand for themselves: name, help, value.
const fn singles(counters: &Counters) -> [(&'static str, &'static str, u64); 5] {
    [
        ("ps_received_packets", "Packets that the parameter server has received.", counters.received),
        ("ps_entries_opened", "PSNs that the parameter server began to collect.", counters.opened),
        (
            "ps_results_voted",
            "Results that all ranks have agreed upon beforehand, because there might have been others.",
            counters.voted,
        ),
        ("ps_promises", "Promises of ranks to wait for such a result.", counters.promises),
        ("ps_rounds_asked", "Rounds of asking for what was missing of a PSN.", counters.asked),
    ]
}

type Labelled = (&'static str, &'static str, &'static str, Vec<(&'static str, u64)>);

/// Counters by a label: name, help, label, values.
fn by_label(counters: &Counters) -> [Labelled; 4] {
    let Counters { added, merged, reminded, completed, duplicate, late, .. } = *counters;
    let Counters { finished, given_up, forgotten, answers_limited, results_lost, .. } = *counters;
    let Counters { fetches_sent, reminders_sent, results_sent, answers_sent, rejections_sent, .. } =
        *counters;
    let outcomes = vec![
        ("added", added),
        ("merged", merged),
        ("reminded", reminded),
        ("completed", completed),
        ("duplicate", duplicate),
        ("late", late),
    ];
    let ends = vec![("finished", finished), ("given_up", given_up), ("forgotten", forgotten)];
    let sent = vec![
        ("fetch", fetches_sent),
        ("reminder", reminders_sent),
        ("result", results_sent),
        ("answer", answers_sent),
        ("refusal", rejections_sent),
    ];
    let withheld = vec![("limited", answers_limited), ("lost", results_lost)];
    [
        ("ps_handled_packets", "Packets that were of use, by outcome.", "outcome", outcomes),
        ("ps_entries_ended", "PSNs that it no longer collects, by how they ended.", "how", ends),
        ("ps_sent_packets", "Packets sent to the appliance, by kind.", "kind", sent),
        ("ps_withheld_results", "Results that were not sent, by reason.", "reason", withheld),
    ]
}

impl Snapshot {
    /// All of it as metrics.
    pub(crate) fn metrics(&self) -> Vec<Gauge> {
        let counter = |name, help, samples| Gauge { name, help, counter: true, samples };
        let counters = &self.counters;
        let rejected = RejectReason::ALL.map(|reason| (reason.name(), counters.rejected(reason)));
        let malformed = Malformed::ALL.map(|reason| (reason.name(), counters.malformed(reason)));
        let mut all: Vec<_> =
            singles(counters).map(|(name, help, value)| counter(name, help, single(value))).into();
        all.extend(
            by_label(counters).map(|(name, help, label, values)| counter(name, help, by(label, values))),
        );
        all.extend([
            counter("ps_refused_packets", "Packets that were refused, by reason.", by("reason", rejected)),
            counter(
                "ps_malformed_packets",
                "Packets that could not be read, by reason.",
                by("reason", malformed),
            ),
            counter(
                "ps_jobs_refused",
                "Generations of jobs that were not accepted.",
                single(self.jobs_refused),
            ),
        ]);
        all.extend(self.driver.iter().map(|count| counter(count.name, count.help, single(count.value))));
        all.extend(self.holdings());
        all.extend(self.asynchronous.iter().flat_map(AsyncSnapshot::metrics));
        all
    }

    /// What the jobs take up.
    fn holdings(&self) -> impl Iterator<Item = Gauge> {
        type Pick = fn(&Usage) -> f64;
        let picks: [(&'static str, &'static str, Pick); 4] = [
            ("ps_open_entries", "PSNs that the parameter server is collecting.", |usage| number(usage.open)),
            ("ps_kept_results", "Results that are kept for those who come late.", |usage| {
                number(usage.cached)
            }),
            ("ps_payload_bytes", "Bytes of payload held.", |usage| number(usage.bytes)),
            ("ps_timeout_seconds", "After how long a PSN counts as late.", |usage| {
                usage.timeout.as_secs_f64()
            }),
        ];
        let samples = |pick: Pick| {
            self.jobs.iter().map(|(job, usage)| (vec![(JOB_ID, job.to_string())], pick(usage))).collect()
        };
        picks
            .map(|(name, help, pick)| Gauge { name, help, counter: false, samples: samples(pick) })
            .into_iter()
    }

    /// All counters as a JSON object: numbers, or objects with a number for each value of the label. With
    /// asynchronous jobs, how old their models were.
    pub(crate) fn report(&self) -> Value {
        let mut report = Map::new();
        for Gauge { name, samples, .. } in self.metrics().into_iter().filter(|gauge| gauge.counter) {
            let name = name.trim_start_matches("ps_").to_owned();
            let value = match &samples[..] {
                [(labels, value)] if labels.is_empty() => whole(*value),
                labelled => Value::Object(
                    labelled
                        .iter()
                        .filter_map(|(labels, value)| Some((labels.first()?.1.clone(), whole(*value))))
                        .collect(),
                ),
            };
            report.insert(name, value);
        }
        if let Some(asynchronous) = &self.asynchronous {
            report.insert("asynchronous".to_owned(), asynchronous.report());
        }
        Value::Object(report)
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus values are doubles")]
const fn float(value: u64) -> f64 {
    value as f64
}

fn number(value: usize) -> f64 {
    float(value as u64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made from whole numbers")]
fn whole(value: f64) -> Value {
    Value::from(value as u64)
}

#[cfg(test)]
mod tests;
