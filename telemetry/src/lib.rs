//! What the appliance knows about itself.
//!
//! Contract of this crate: lcores only ever write their own memory. [`counters`] are written by one lcore and read by
//! anyone, and so are the counts of a job ([`cells`]) and of what the pool holds ([`census`]); [`mod@recorder`]s are
//! histograms that an lcore hands over when asked. [`drops`] names every reason for which a packet can be dropped.
//! [`listing`] says which jobs have series of their own, and [`exposition`] turns it all into the Prometheus text format.
//!
//! The accounting identity: every packet received ends in exactly one of four ways,
//! `received = forwarded + absorbed + answered + Σ dropped{reason}`.
#![forbid(unsafe_code)]

pub mod cells;
pub mod census;
pub mod counters;
pub mod drops;
pub mod exposition;
pub mod listing;
pub mod recorder;

pub use cells::{CellsReading, JobCells, JobEvent, Late, LcoreRanks, Made, Moment, RankCells, RankReading};
pub use census::{CENSUS_CELLS, Census, Found, Surveyor};
pub use counters::{BURST_SIZES, Counter, LcoreCounters, Load, Reading, Tally};
pub use drops::DropReason;
pub use exposition::{Classes, Distribution, Gauge, Gauges, LcoreReaders, Telemetry, Times};
pub use recorder::{Recorder, RecorderReader, recorder};
