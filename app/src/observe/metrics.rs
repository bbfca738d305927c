//! What a scrape learns beside the lcores' counters: ports, packet pools, jobs, queues of updates.

mod build;
mod exemplars;
mod jobs;
mod queues;

use std::sync::Arc;

use pascaline_dpdk::port::{PortStats, Started, Stats};
use pascaline_dpdk::{Mempool, Port};
use pascaline_pipelines::QueueCounts;
use pascaline_pipelines::updates::QueueReading;
use pascaline_telemetry::{Distribution, Exemplar, Gauge, Gauges};

pub(crate) use self::build::WithBuild;
pub(crate) use self::jobs::JobMetrics;
use super::explain::PortHealth;
use super::snapshot::{Buffers, Inputs, JobInput};
use super::state::{Configured, KnownJob, Shared};

/// Metrics of a parameter server in the appliance itself.
type ServerGauges = Box<dyn Gauges>;

#[derive(Debug)]
pub(crate) struct ApplianceGauges {
    ports: Vec<(String, PortStats)>,
    pools: Vec<Mempool>,
    pool_slots: usize,
    pool_bytes: usize,
    job_metrics: JobMetrics,
    shared: Arc<Shared>,
    server: Option<ServerGauges>,
    queues: Vec<Arc<QueueCounts>>,
}

impl ApplianceGauges {
    pub(crate) fn new(
        ports: &[(String, Port<Started>)],
        pools: Vec<Mempool>,
        pool_slots: usize,
        pool_bytes: usize,
        shared: Arc<Shared>,
        server: Option<ServerGauges>,
    ) -> Self {
        Self {
            ports: ports.iter().map(|(name, port)| (name.clone(), port.stats())).collect(),
            pools,
            pool_slots,
            pool_bytes,
            job_metrics: JobMetrics::new(),
            shared,
            server,
            queues: Vec::new(),
        }
    }

    /// With the queues of updates in front of the ports.
    pub(crate) fn with_queues(self, queues: Vec<Arc<QueueCounts>>) -> Self {
        Self { queues, ..self }
    }

    fn read_queues(&self) -> Vec<(&str, QueueReading)> {
        self.ports.iter().zip(&self.queues).map(|((name, _), queue)| (name.as_str(), queue.read())).collect()
    }

    /// What a snapshot is made of, beside what the lcores have counted.
    pub(crate) fn inputs(&self) -> Inputs {
        let healths = self.shared.ports();
        let port = |health: PortHealth| {
            let port = self.ports.iter().find(|(name, _)| *name == health.name);
            let stats = port.and_then(|(_, port)| port.read().ok());
            (health, stats.unwrap_or_default())
        };
        let buffers = |pool: &Mempool| Buffers {
            pool: pool.name().to_owned(),
            used: pool.in_use(),
            capacity: pool.capacity(),
        };
        let (olaf, server) = self.others().into_iter().partition(|gauge| about_updates(gauge.name));
        let configured = self.shared.configured();
        Inputs {
            healthy: self.shared.healthy(),
            jobs: self.jobs(&configured),
            stalled: self.shared.stalled(),
            config: configured.shown.clone(),
            ports: healths.into_iter().map(port).collect(),
            buffers: self.pools.iter().map(buffers).collect(),
            pool_slots: self.pool_slots,
            pool_bytes: self.pool_bytes,
            server,
            olaf,
            ..Inputs::default()
        }
    }

    /// What others count, and is shown as it is.
    fn others(&self) -> Vec<Gauge> {
        let server = self.server.iter().flat_map(|server| server.gauges());
        server.chain(queues::gauges(&self.read_queues())).collect()
    }

    /// All jobs, in the order of their numbers.
    fn jobs(&self, configured: &Configured) -> Vec<JobInput> {
        let job = |KnownJob { status, cells, missing }: KnownJob| {
            let known = configured.jobs.get(&status.id).filter(|_| !status.formed);
            let (name, terms) = known.cloned().unwrap_or_else(|| (String::new(), configured.formed));
            JobInput { status, name, terms, missing, reading: cells.read(), cells }
        };
        self.shared.jobs().into_iter().map(job).collect()
    }

    fn ports(&self, out: &mut Vec<Gauge>) {
        type Pick = fn(&Stats) -> u64;
        let picks: [(&'static str, &'static str, Pick); 6] = [
            ("port_received_packets", "Packets that the device has received.", |s| s.rx_packets),
            ("port_sent_packets", "Packets that the device has sent.", |s| s.tx_packets),
            ("port_missed_packets", "Packets lost because the receive ring was full.", |s| s.rx_missed),
            ("port_receive_errors", "Packets that the device received with errors.", |s| s.rx_errors),
            ("port_no_buffer", "Packets lost because no packet buffer was free.", |s| s.rx_no_buffer),
            ("port_send_errors", "Packets that the device failed to send.", |s| s.tx_errors),
        ];
        // A device that does not count has no samples.
        let read: Vec<_> =
            self.ports.iter().filter_map(|(name, port)| Some((name, port.read().ok()?))).collect();
        for (name, help, pick) in picks {
            let samples = read
                .iter()
                .map(|(port, stats)| (vec![("port", (*port).clone())], float(pick(stats))))
                .collect();
            out.push(Gauge { name, help, counter: true, samples });
        }
        let received = |(name, port): &(String, PortStats)| {
            Some((vec![("port", name.clone())], float(port.interface_received()?)))
        };
        out.push(Gauge {
            name: "port_interface_received_packets",
            help: "Packets that the interface under a port has received, by the kernel's count.",
            counter: true,
            samples: self.ports.iter().filter_map(received).collect(),
        });
        let up = |port: PortHealth| {
            let up = port.is_up()?;
            Some((vec![("port", port.name)], f64::from(u8::from(up))))
        };
        let samples = self.shared.ports().into_iter().filter_map(up).collect();
        let help = "1 if frames can pass the port; 0 without a link, and while its interface is off, gone, \
                    or another one than the port uses.";
        out.push(Gauge { name: "port_up", help, counter: false, samples });
    }

    fn pools(&self, out: &mut Vec<Gauge>) {
        let samples = |value: fn(&Mempool) -> usize| {
            let sample = |pool: &Mempool| (vec![("pool", pool.name().to_owned())], float(value(pool) as u64));
            self.pools.iter().map(sample).collect()
        };
        out.push(Gauge {
            name: "packet_buffers",
            help: "Packet buffers of a pool.",
            counter: false,
            samples: samples(Mempool::capacity),
        });
        out.push(Gauge {
            name: "packet_buffers_in_use",
            help: "Packet buffers of a pool that are in use.",
            counter: false,
            samples: samples(Mempool::in_use),
        });
        out.push(Gauge {
            name: "pool_slots",
            help: "Slots of the aggregator pool.",
            counter: false,
            samples: vec![(vec![], float(self.pool_slots as u64))],
        });
        out.push(Gauge {
            name: "pool_bytes",
            help: "Memory of the aggregator pool's sets and slots, packet buffers not included.",
            counter: false,
            samples: vec![(vec![], float(self.pool_bytes as u64))],
        });
    }
}

impl Gauges for ApplianceGauges {
    fn gauges(&self) -> Vec<Gauge> {
        let mut out = Vec::new();
        self.ports(&mut out);
        self.pools(&mut out);
        out.push(Gauge {
            name: "lcores_stalled",
            help: "Lcores that have not turned for a second.",
            counter: false,
            samples: vec![(vec![], float(self.shared.stalled().len() as u64))],
        });
        out.extend(self.job_metrics.gauges(&self.jobs(&self.shared.configured())));
        out.push(Gauge {
            name: "control_answers",
            help: "Answers to control packets, by status.",
            counter: true,
            samples: self
                .shared
                .answers()
                .map(|(status, count)| (vec![("status", status.name().to_owned())], float(count)))
                .collect(),
        });
        out.extend(self.others());
        out
    }

    fn exemplars(&self) -> Vec<Exemplar> {
        self.job_metrics.exemplars()
    }

    fn distributions(&self) -> Vec<Distribution> {
        queues::distributions(&self.read_queues())
    }
}

/// True for metrics of queues of updates and of the age of models.
fn about_updates(name: &str) -> bool {
    ["olaf", "aom", "age_of_model"].iter().any(|word| name.contains(word))
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus values are doubles")]
fn float(value: u64) -> f64 {
    value as f64
}
