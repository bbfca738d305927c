//! What a scrape learns of the queues of updates in front of the ports.

use pascaline_pipelines::updates::{AGGREGATIONS, Fate, QueueReading};
use pascaline_queue::UpdateRejection;
use pascaline_telemetry::{Classes, Distribution, Gauge};

type Reading<'a> = (&'a str, QueueReading);
type Pick = fn(&QueueReading) -> u64;

/// What each queue has counted, and its state; nothing where there is no queue.
pub(super) fn gauges(queues: &[Reading<'_>]) -> Vec<Gauge> {
    if queues.is_empty() {
        return Vec::new();
    }
    let counters: [(&'static str, &'static str, Pick); 5] = [
        ("olaf_received", "Updates that came to a port's queue.", QueueReading::received),
        ("olaf_appended", "Updates that went to the tail of a port's queue.", |queue| {
            queue.get(Fate::Appended)
        }),
        ("olaf_aggregated", "Updates that were combined with the waiting one of their cluster.", |queue| {
            queue.get(Fate::Aggregated)
        }),
        ("olaf_replaced", "Updates that took the place of an older one of their worker.", |queue| {
            queue.get(Fate::Replaced)
        }),
        ("olaf_departed", "Updates that have left a port's queue for the server.", |queue| {
            queue.get(Fate::Departed)
        }),
    ];
    let states: [(&'static str, &'static str, Pick); 3] = [
        ("olaf_queue_depth", "Updates that wait in a port's queue.", |queue| queue.waiting),
        ("olaf_queue_capacity", "Updates that a port's queue can hold.", |queue| u64::from(queue.capacity)),
        ("olaf_active_clusters", "Clusters that have sent updates to a port's queue lately.", |queue| {
            queue.clusters
        }),
    ];
    let single = |(name, help, pick): (&'static str, &'static str, Pick), counter| {
        let samples = queues.iter().map(|(port, queue)| (vec![of(port)], float(pick(queue)))).collect();
        Gauge { name, help, counter, samples }
    };
    let mut gauges: Vec<Gauge> = counters.into_iter().map(|counter| single(counter, true)).collect();
    gauges.push(family(
        queues,
        ("olaf_dropped", "Updates that were given up at a port's queue, by cause.", "cause"),
        dropped,
    ));
    gauges.push(family(
        queues,
        (
            "olaf_filter_decisions",
            "What the reward filter made of updates that met another worker's.",
            "decision",
        ),
        |queue| {
            let decisions =
                [("aggregate", Fate::Aggregated), ("replace", Fate::Preferred), ("drop", Fate::LowReward)];
            decisions.map(|(decision, fate)| (decision, queue.get(fate))).to_vec()
        },
    ));
    gauges.push(family(
        queues,
        ("olaf_contributions", "What the updates that a queue took stood for, by what became of it.", "fate"),
        |queue| queue.contributions().to_vec(),
    ));
    gauges.extend(states.into_iter().map(|state| single(state, false)));
    gauges
}

/// Olaf's figure 6.
pub(super) fn distributions(queues: &[Reading<'_>]) -> Vec<Distribution> {
    if queues.is_empty() {
        return Vec::new();
    }
    let samples = queues.iter().map(|(port, queue)| {
        let classes: Vec<_> = AGGREGATIONS.into_iter().zip(queue.classes().iter().copied()).collect();
        let beyond = queue.classes().last().copied().unwrap_or(0);
        (vec![of(port)], Classes { sum: queue.aggregations(), classes, beyond })
    });
    vec![Distribution {
        name: "olaf_aggregations_per_update",
        help: "How many updates had been combined with each one that left.",
        samples: samples.collect(),
    }]
}

/// Everything that came, or had been taken in, and neither left nor lives on in what leaves.
fn dropped(queue: &QueueReading) -> Vec<(&'static str, u64)> {
    let causes = [
        ("full", Fate::Full),
        ("reward", Fate::LowReward),
        // Each of these has made a waiting one give way.
        ("displaced", Fate::Preferred),
        ("renewed", Fate::Renewed),
        ("outdated", Fate::Outdated),
        ("stale", Fate::Stale),
        ("no_headroom", Fate::Unsent),
    ];
    let causes = causes.map(|(cause, fate)| (cause, queue.get(fate)));
    let rejected =
        UpdateRejection::ALL.map(|rejection| (rejection.name(), queue.get(Fate::Rejected(rejection))));
    causes.into_iter().chain(rejected).chain([("handoff_full", queue.handoff_full)]).collect()
}

fn family(
    queues: &[Reading<'_>],
    (name, help, label): (&'static str, &'static str, &'static str),
    values: fn(&QueueReading) -> Vec<(&'static str, u64)>,
) -> Gauge {
    let of_port = |(port, queue): &Reading<'_>| {
        let sample =
            |(value, count): (&'static str, u64)| (vec![of(port), (label, value.to_owned())], float(count));
        values(queue).into_iter().map(sample).collect::<Vec<_>>()
    };
    Gauge { name, help, counter: true, samples: queues.iter().flat_map(of_port).collect() }
}

fn of(port: &str) -> (&'static str, String) {
    ("port", port.to_owned())
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus values are doubles")]
fn float(value: u64) -> f64 {
    value as f64
}
