//! The appliance's counts and times.
//!
//! Contract of this crate: an lcore only ever writes memory of its own, and all threads may read it.
//! [`counters`] are those of an lcore, [`cells`] those of a job, [`census`] counts the contents of the pool,
//! and a [`mod@recorder`] is a histogram that an lcore hands over on request. [`drops`] names every reason
//! why a packet is dropped. [`listing`] says which jobs have series of their own; [`exposition`] makes the
//! Prometheus text.
//!
//! The accounting identity: every packet received ends in exactly one of four ways,
//! `received = forwarded + absorbed + answered + Σ dropped{reason}`.
//!
//! A new counter is one line in [`Counter`], a new reason one in [`DropReason`], a new count of a job one in
//! [`JobEvent`]: loops over `ALL` export them. The rest is the line that counts.
#![forbid(unsafe_code)]

pub mod cells;
pub mod census;
pub mod counters;
pub mod drops;
pub mod exposition;
pub mod listing;
mod named;
pub mod recorder;

pub use cells::{CellsReading, JobCells, JobEvent, Late, LcoreRanks, Made, Moment, RankCells, RankReading};
pub use census::{CENSUS_CELLS, Census, Found, Surveyor};
pub use counters::{BURST_SIZES, Counter, LcoreCounters, Load, Reading, Tally};
pub use drops::DropReason;
pub use exposition::{
    Classes, Distribution, Exemplar, Format, Gauge, Gauges, JOB_ID, LcoreReaders, Telemetry, Times,
};
pub use recorder::{Recorder, RecorderReader, recorder};
