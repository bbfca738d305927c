//! Olaf's queue on a line that is too narrow, under a virtual clock: what is lost, and how old what arrives is.
//!
//! The queue is `pascaline-queue`'s, with the packets that it would hold in an appliance; simulated are the workers' traffic
//! and the line, which is that crate's shaper. Time is in *ticks* of a picosecond: at these rates an update takes 51.2 ns,
//! and in whole nanoseconds the ratio of the rates would be off by percents.
//!
//! [`Arrivals`] says when workers send, [`Bottleneck`] is a queue and the line behind it, [`Age`] is the Age-of-Model of one
//! cluster, [`Table1`] puts them together as the paper's section 8.1 does.
//!
//! ```
//! use pascaline_sim::olaf::{Arrivals, Table1};
//!
//! # fn main() -> Result<(), pascaline_queue::ConfigError> {
//! let rows = Table1 { seed: 1, runs: 1 }.rows(Arrivals::Poisson)?;
//! assert!(rows.iter().all(|row| row.olaf.lost_pct < row.fifo.lost_pct));
//! # Ok(())
//! # }
//! ```

mod arrivals;
mod bottleneck;
mod table1;
mod table3;

pub use arrivals::{Arrival, Arrivals, Workload};
pub use bottleneck::{Bottleneck, Hold};
pub use pascaline_ps::asynchronous::Age;
pub use table1::{Fifo, Olaf, PAPER, Paper, Row, Table1};
pub use table3::{Contest, Outcome, Scheme, Senders, Table3};

/// Ticks in a second.
pub const SECOND: u64 = 1_000_000_000_000;
