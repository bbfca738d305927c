//! The Prometheus text formats.

mod text;

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::{CreationError, Histogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
pub use text::{Exemplar, Format};

use crate::census::{self, Census};
use crate::counters::{BURST_SIZES, Counter, LcoreCounters, Load, Reading};
use crate::drops::DropReason;
use crate::recorder::{self, RecorderReader};

/// The label with the number of a job. Not `job`, which Prometheus sets itself, to the scrape's `job_name`.
pub const JOB_ID: &str = "job_id";

/// Bucket bounds in nanoseconds, a factor of about 2.5 apart: from less than a packet's work to more than any
/// timeout.
const BUCKETS_NS: [u64; 22] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// A value read from its owner at the time of the scrape.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// The metric's name without `pascaline_`.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Counters only ever grow.
    pub counter: bool,
    /// Label sets and values.
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// A distribution of whole numbers, counted elsewhere.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// The metric's name without `pascaline_`.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Label sets, with the numbers of each.
    pub samples: Vec<(Vec<(&'static str, String)>, Classes)>,
}

/// Numbers by class.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    /// The sum of the numbers.
    pub sum: u64,
    /// Each class's upper bound, ascending, and its numbers.
    pub classes: Vec<(u32, u64)>,
    /// Numbers beyond the last bound.
    pub beyond: u64,
}

/// Source of values that are no lcore counters: ports, buffers, jobs.
pub trait Gauges: Send + Sync + fmt::Debug + 'static {
    /// The values now. All samples of a gauge carry the same label names.
    fn gauges(&self) -> Vec<Gauge>;

    /// Where values of histograms come from, as of the last look at the gauges.
    fn exemplars(&self) -> Vec<Exemplar> {
        Vec::new()
    }

    /// The distributions now.
    fn distributions(&self) -> Vec<Distribution> {
        Vec::new()
    }
}

impl<T: Gauges> Gauges for Arc<T> {
    fn gauges(&self) -> Vec<Gauge> {
        (**self).gauges()
    }

    fn exemplars(&self) -> Vec<Exemplar> {
        (**self).exemplars()
    }

    fn distributions(&self) -> Vec<Distribution> {
        (**self).distributions()
    }
}

/// Readers of one lcore's recordings.
#[derive(Debug)]
pub struct LcoreReaders {
    /// Time from the first to the last contribution of a PSN.
    pub spread: RecorderReader,
    /// Time from a packet's reception to the end of the turn that handled it.
    pub service: RecorderReader,
    /// Its census of the pool.
    pub census: Arc<Census>,
}

/// Histograms of all lcores, merged. In nanoseconds.
#[derive(Debug, Clone)]
pub struct Times {
    /// Time from the first to the last contribution of a PSN.
    pub spread: Histogram<u64>,
    /// Time from a packet's reception to the end of the turn that handled it.
    pub service: Histogram<u64>,
}

/// All exported values.
#[derive(Debug)]
pub struct Telemetry {
    lcores: Vec<Arc<LcoreCounters>>,
    readers: Mutex<Vec<LcoreReaders>>,
    gauges: Box<dyn Gauges>,
}

impl Telemetry {
    /// Exports these lcores' counters and histograms, in the order of their numbers, and these gauges.
    #[must_use]
    pub fn new(
        lcores: Vec<Arc<LcoreCounters>>,
        readers: Vec<LcoreReaders>,
        gauges: Box<dyn Gauges>,
    ) -> Arc<Self> {
        Arc::new(Self { lcores, readers: Mutex::new(readers), gauges })
    }

    /// Collects the lcores' recordings. Call it several times a second.
    pub fn collect(&self) {
        for lcore in &mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner) {
            lcore.spread.collect();
            lcore.service.collect();
        }
    }

    /// The sum over all lcores.
    #[must_use]
    pub fn total(&self) -> Reading {
        let mut total = Reading::default();
        for lcore in &self.lcores {
            total.merge(&lcore.read());
        }
        total
    }

    /// The counters of each lcore.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        self.lcores.iter().map(|lcore| lcore.read()).collect()
    }

    /// The times of all lcores since the start, as far as [collected](Self::collect).
    ///
    /// # Errors
    /// The library's, if it cannot make a histogram; its bounds are constants with which it can.
    pub fn times(&self) -> Result<Times, CreationError> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = Times { spread: recorder::histogram()?, service: recorder::histogram()? };
        for lcore in &*readers {
            // Bounds are equal, so adding cannot fail.
            let _ = times.spread.add(lcore.spread.histogram());
            let _ = times.service.add(lcore.service.histogram());
        }
        Ok(times)
    }

    /// The pool on the lcores' last rounds: partials and cached results by cell, and the age of the oldest
    /// partial in nanoseconds.
    #[must_use]
    pub fn census(&self) -> (Vec<(u32, u32)>, u64) {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = readers.iter().map(|lcore| lcore.census.oldest_ns()).max();
        (census::merge(readers.iter().map(|lcore| &*lcore.census)), oldest.unwrap_or(0))
    }

    /// The scrape, as text.
    ///
    /// # Errors
    /// The formatter's; writing to a string has none.
    pub fn scrape(self: &Arc<Self>, format: Format) -> Result<String, fmt::Error> {
        self.collect();
        let mut registry = Registry::with_prefix("pascaline");
        registry.register_collector(Box::new(Arc::clone(self)));
        let mut text = String::with_capacity(16 * 1024);
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(match (format, self.gauges.exemplars()) {
            (Format::Plain, _) => text::plain(&text),
            (Format::OpenMetrics, exemplars) if exemplars.is_empty() => text,
            (Format::OpenMetrics, exemplars) => text::with_exemplars(&text, &exemplars),
        })
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let readings: Vec<Reading> = self.lcores.iter().map(|lcore| lcore.read()).collect();
        for &counter in Counter::ALL {
            let mut metric =
                encoder.encode_descriptor(counter.name(), counter.help(), None, MetricType::Counter)?;
            for (lcore, reading) in readings.iter().enumerate() {
                let labels = [("lcore", lcore.to_string())];
                ConstCounter::new(reading.get(counter)).encode(metric.encode_family(&labels)?)?;
            }
        }
        let mut metric = encoder.encode_descriptor(
            "dropped_packets",
            "Received packets that were dropped, by reason.",
            None,
            MetricType::Counter,
        )?;
        for (lcore, reading) in readings.iter().enumerate() {
            for &reason in DropReason::ALL {
                let labels = [("lcore", lcore.to_string()), ("reason", reason.name().to_owned())];
                ConstCounter::new(reading.dropped(reason)).encode(metric.encode_family(&labels)?)?;
            }
        }
        encode_load(encoder, &readings)?;
        let metric = encoder.encode_descriptor(
            "pool_oldest_partial_seconds",
            "Age of the oldest partial that lcores found on their last round through the pool.",
            None,
            MetricType::Gauge,
        )?;
        #[allow(clippy::cast_precision_loss, reason = "seconds for people; 52 bits are plenty")]
        ConstGauge::new(self.census().1 as f64 / 1e9).encode(metric)?;
        let mut total = Reading::default();
        readings.iter().for_each(|reading| total.merge(reading));
        let mut metric = encoder.encode_descriptor(
            "pool_slots_used",
            "Slots of the pool that hold a partial (open) or a cached result (done).",
            None,
            MetricType::Gauge,
        )?;
        for (state, slots) in [("open", total.open_slots()), ("done", total.done_slots())] {
            let slots = i64::try_from(slots).unwrap_or(i64::MAX);
            ConstGauge::new(slots).encode(metric.encode_family(&[("state", state.to_owned())])?)?;
        }
        Ok(())
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let spread = readers.iter().map(|lcore| &lcore.spread);
        encode_histogram(
            encoder,
            "contribution_spread_seconds",
            "Time from the first to the last contribution of a PSN.",
            spread,
        )?;
        let service = readers.iter().map(|lcore| &lcore.service);
        encode_histogram(
            encoder,
            "packet_service_seconds",
            "Time from a packet's reception to the end of the turn that dealt with it.",
            service,
        )
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for gauge in self.gauges.gauges().into_iter().filter(|gauge| !gauge.samples.is_empty()) {
            let kind = if gauge.counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(gauge.name, gauge.help, None, kind)?;
            if let [(labels, value)] = &gauge.samples[..]
                && labels.is_empty()
            {
                encode_value(*value, gauge.counter, metric)?;
                continue;
            }
            for (labels, value) in &gauge.samples {
                encode_value(*value, gauge.counter, metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_distributions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for Distribution { name, help, samples } in self.gauges.distributions() {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (labels, Classes { sum, classes, beyond }) in samples {
                let count = classes.iter().map(|(_, count)| count).sum::<u64>() + beyond;
                let mut buckets: Vec<(f64, u64)> =
                    classes.into_iter().map(|(bound, count)| (f64::from(bound), count)).collect();
                buckets.push((f64::INFINITY, beyond));
                #[allow(clippy::cast_precision_loss, reason = "52 bits are plenty")]
                let sum = sum as f64;
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

impl Collector for Telemetry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A process without lcores exports no empty families.
        if !self.lcores.is_empty() {
            self.encode_counters(&mut encoder)?;
            self.encode_histograms(&mut encoder)?;
        }
        self.encode_gauges(&mut encoder)?;
        self.encode_distributions(&mut encoder)
    }
}

/// The lcores' load: busy time and bursts.
#[allow(clippy::cast_precision_loss, reason = "seconds and packets for people; 52 bits are plenty")]
fn encode_load(encoder: &mut DescriptorEncoder<'_>, readings: &[Reading]) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(
        "lcore_busy_seconds",
        "Time that an lcore spent on packets.",
        None,
        MetricType::Counter,
    )?;
    for (lcore, reading) in readings.iter().enumerate() {
        let labels = [("lcore", lcore.to_string())];
        let seconds = reading.load().busy_ns as f64 / 1e9;
        ConstCounter::new(seconds).encode(metric.encode_family(&labels)?)?;
    }
    let mut metric = encoder.encode_descriptor(
        "burst_packets",
        "Packets per poll of a port, of the polls that found any.",
        None,
        MetricType::Histogram,
    )?;
    for (lcore, reading) in readings.iter().enumerate() {
        let Load { bursts, packets, .. } = reading.load();
        let bounds = BURST_SIZES.map(|size| size as f64);
        // The last class has no upper bound.
        let buckets: Vec<(f64, u64)> = bounds.into_iter().zip(bursts).chain([(f64::INFINITY, 0)]).collect();
        let labels = [("lcore", lcore.to_string())];
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            packets as f64,
            bursts.iter().sum(),
            &buckets,
            None,
        )?;
    }
    Ok(())
}

fn encode_value(value: f64, counter: bool, metric: MetricEncoder<'_>) -> fmt::Result {
    if counter { ConstCounter::new(value).encode(metric) } else { ConstGauge::new(value).encode(metric) }
}

#[allow(clippy::cast_precision_loss, reason = "seconds for people; 52 bits are plenty")]
fn encode_histogram<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lcores: impl Iterator<Item = &'a RecorderReader>,
) -> fmt::Result {
    let mut buckets: Vec<(f64, u64)> = BUCKETS_NS.iter().map(|&ns| (ns as f64 / 1e9, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    let (mut count, mut total_ns) = (0, 0u128);
    for lcore in lcores {
        for step in lcore.histogram().iter_recorded() {
            let bucket = BUCKETS_NS.partition_point(|&bound| bound < step.value_iterated_to());
            buckets[bucket].1 += step.count_since_last_iteration();
            count += step.count_since_last_iteration();
        }
        total_ns += lcore.total_ns();
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(total_ns as f64 / 1e9, count, &buckets, None)
}

#[cfg(test)]
mod tests;
