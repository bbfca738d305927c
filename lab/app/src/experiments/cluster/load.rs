//! The load of a shared cluster (PANAMA, section 7), from a seed: jobs, and other flows.

use pascaline_sim::fabric::Clos;
use pascaline_sim::random::{Random, mix};

use super::{Job, PACKET, Plain};
use crate::experiments::olaf::{exponential, uniform};

/// Flow sizes in packets of 1,460 bytes, and the part of flows up to that size, as in the simulations
/// published with pFabric (Alizadeh et al., 2013): a cluster for Web search (Alizadeh et al., 2010) ...
const WEBSEARCH: [(f64, f64); 12] = [
    (1.0, 0.0),
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1333.0, 0.8),
    (3333.0, 0.9),
    (6667.0, 0.97),
    (20_000.0, 1.0),
];
/// ... and one for data mining (Greenberg et al., 2009).
const DATAMINING: [(f64, f64); 9] = [
    (1.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2107.0, 0.95),
    (66_667.0, 0.99),
    (666_667.0, 1.0),
];

/// Megabytes, and milliseconds of an iteration on a P100: batch over images/s, which TensorFlow's published
/// benchmarks give for the first five. From them follows the part of an iteration that is communication in
/// PANAMA's Figure 1, 0.26 to 0.69. GoogLeNet's time is assumed.
const MODELS: [(f64, f64); 6] = [
    (528.0, 416.0), // VGG16
    (244.0, 171.0), // AlexNet
    (240.0, 697.0), // ResNet-152
    (102.0, 292.0), // ResNet-50
    (95.0, 451.0),  // Inception v3
    (27.0, 120.0),  // GoogLeNet
];

/// The amount of load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) clos: Clos,
    /// Parts of the servers' links: flows of others, and jobs, in a ring and without contention.
    pub(crate) flows: f64,
    pub(crate) jobs: f64,
    /// Divides flows, models and their computation.
    pub(crate) scale: f64,
    /// Multiplies computation.
    pub(crate) computes: f64,
    /// The part of the flows' bytes that is Websearch's; the others are Datamining's.
    pub(crate) websearch: f64,
    pub(crate) lasts: u64,
    pub(crate) seed: u64,
}

fn size(table: &[(f64, f64)], at: f64) -> f64 {
    let next = table.iter().position(|&(_, share)| share >= at).unwrap_or(0).max(1);
    let ((low, from), (high, to)) = (table[next - 1], table[next]);
    if to > from { low + (high - low) * (at - from) / (to - from) } else { high }
}

/// The mean of a table.
fn mean(table: &[(f64, f64)]) -> f64 {
    table.windows(2).map(|pair| (pair[1].1 - pair[0].1) * f64::midpoint(pair[0].0, pair[1].0)).sum()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "packets and times of a run")]
fn whole(value: f64) -> u64 {
    value.max(1.0) as u64
}

/// The jobs and flows of a load. Workers of a job are neighbours, and the next job begins where it ends.
pub(crate) fn draw(load: &Load) -> (Vec<Job>, Vec<Plain>) {
    let mut random = Random::new(mix(load.seed));
    let hosts = load.clos.hosts();
    let packet_ns = PACKET as f64 * 0.8;
    // 16 to 96 workers of 1,024.
    let (least, most) = ((hosts / 64).max(4), (hosts * 96 / 1024).max(6));
    let (mut jobs, mut busy, mut first) = (Vec::new(), 0.0, random.index(hosts));
    while busy < load.jobs * hosts as f64 {
        let (megabytes, milliseconds) = MODELS[random.index(MODELS.len())];
        let count = least + random.index(most - least + 1);
        let packets = whole(megabytes * 1e6 / load.scale / PACKET as f64);
        let computes = milliseconds * 1e6 / load.scale * load.computes;
        let sends = 2.0 * (count - 1) as f64 / count as f64 * packets as f64 * packet_ns;
        busy += count as f64 * sends / (sends + computes);
        jobs.push(Job {
            workers: (0..count).map(|worker| (first + worker) % hosts).collect(),
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            computes: whole(computes),
            begins: whole(uniform(&mut random) * (sends + computes)),
            spine: random.index(load.clos.spines),
        });
        first = (first + count) % hosts;
    }
    let mut flows = Vec::new();
    for (table, part) in [(&WEBSEARCH[..], load.websearch), (&DATAMINING, 1.0 - load.websearch)] {
        let brings = load.flows * part;
        let gap = mean(table) / load.scale * packet_ns / (brings * hosts as f64);
        let mut now = gap * exponential(&mut random);
        while now < load.lasts as f64 && brings > 0.0 {
            let from = random.index(hosts);
            let to = (from + 1 + random.index(hosts - 1)) % hosts;
            let packets = whole((size(table, uniform(&mut random)) / load.scale).ceil());
            flows.push(Plain { from, to, packets: u32::try_from(packets).unwrap_or(1), begins: whole(now) });
            now += gap * exponential(&mut random);
        }
    }
    flows.sort_by_key(|flow| flow.begins);
    (jobs, flows)
}
