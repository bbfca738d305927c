//! OlafQueue before a line that is too narrow, under a virtual clock: losses, and the age of arriving
//! updates.
//!
//! The queue is `pascaline-queue`'s, with the packets that an appliance would hold, and so is the shaper that
//! stands for the line. The workers' traffic is simulated. Time is in *ticks* of a picosecond: an update
//! takes 51.2 ns here, and whole nanoseconds would falsify the ratio of rates by percents.
//!
//! [`Arrivals`] decides when workers send, [`Bottleneck`] is a queue and its line, [`Age`] is the
//! Age-of-Model of a cluster, [`Table1`] combines them as in the paper's section 8.1.

mod arrivals;
mod bottleneck;
mod reward;
mod table1;
mod table3;

pub(crate) use arrivals::{Arrival, Arrivals, Workload, exponential, uniform};
pub(crate) use bottleneck::{Bottleneck, Hold};
pub(crate) use pascaline_ps::asynchronous::Age;
pub(crate) use reward::Reward;
pub(crate) use table1::{Fifo, Olaf, PAPER, Row, Table1};
pub(crate) use table3::{Contest, Outcome, Scheme, Senders, Table3};

/// Ticks in a second.
pub(crate) const SECOND: u64 = 1_000_000_000_000;
