//! An operation's report, and a worker's counters.

use pascaline_worker::{AsyncCounters, Counters};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The report of an operation that has ended well.
#[pyclass(frozen, get_all, module = "pascaline")]
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// Length of the tensor in bytes.
    bytes: usize,
    /// Packets that it took up.
    packets: u32,
    /// Seconds from the start to the last result.
    elapsed: f64,
    /// Seconds from a packet to its result, smoothed.
    round_trip: Option<f64>,
    /// Packets sent again.
    retransmissions: u64,
    /// Packets of int32 in which a sum has saturated.
    overflows: u64,
    /// The priority of its packets, in 1/16 per second.
    priority: u16,
    /// Ranks that the result lacks: only of jobs that complete without them.
    missing: Vec<u16>,
}

impl From<&pascaline_worker::Report> for Report {
    fn from(report: &pascaline_worker::Report) -> Self {
        Self {
            bytes: report.bytes,
            packets: report.packets,
            elapsed: report.elapsed.as_secs_f64(),
            round_trip: report.round_trip.map(|time| time.as_secs_f64()),
            retransmissions: report.counters.retransmissions,
            overflows: report.counters.overflows,
            priority: report.priority,
            missing: report.partial.map(|partial| partial.missing.iter().collect()).unwrap_or_default(),
        }
    }
}

#[pymethods]
impl Report {
    fn __repr__(&self) -> String {
        let Self { bytes, packets, elapsed, retransmissions, .. } = self;
        let size = format_args!("bytes={bytes}, packets={packets}");
        format!("Report({size}, elapsed={elapsed:.6}, retransmissions={retransmissions})")
    }
}

macro_rules! counted {
    ($counters:ident, $dict:ident: $($name:ident)+) => {$(
        $dict.set_item(stringify!($name), $counters.$name)?;
    )+};
}

/// The counters by their names.
pub(crate) fn counted<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    counted!(counters, dict:
        packets_sent retransmissions reminders_sent reminders_answered originals_sent heartbeats_sent resumed
        received results duplicate_results reminders_received acks rejections partial_results overflows
        unreachable not_sent);
    dict.set_item("without_effect", counters.without_effect())?;
    Ok(dict)
}

/// The same for an asynchronous worker. `refused` has the reasons for which updates were refused.
pub(crate) fn counted_updates<'py>(
    py: Python<'py>,
    counters: &AsyncCounters,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    counted!(counters, dict:
        pushed sent skipped busy acknowledged applied given_up initial_sent received acks_own acks_cluster
        weights controls unreachable not_sent);
    let refused = PyDict::new(py);
    for (why, count) in counters.refusals() {
        refused.set_item(why.name(), count)?;
    }
    dict.set_item("refused", refused)?;
    Ok(dict)
}
