//! Olaf's queue on a line that is too narrow, under a virtual clock: what is lost, and how old what arrives
//! is.
//!
//! The queue is `pascaline-queue`'s, with the packets that it would hold in an appliance; simulated are the
//! workers' traffic and the line, which is that crate's shaper. Time is in *ticks* of a picosecond: at these
//! rates an update takes 51.2 ns, and in whole nanoseconds the ratio of the rates would be off by percents.
//!
//! [`Arrivals`] says when workers send, [`Bottleneck`] is a queue and the line behind it, [`Age`] is the
//! Age-of-Model of one cluster, [`Table1`] puts them together as the paper's section 8.1 does.

mod arrivals;
mod bottleneck;
mod table1;
mod table3;

pub(crate) use arrivals::{Arrival, Arrivals, Workload};
pub(crate) use bottleneck::{Bottleneck, Hold};
pub(crate) use pascaline_ps::asynchronous::Age;
pub(crate) use table1::{PAPER, Row, Table1};
pub(crate) use table3::{Contest, Outcome, Scheme, Senders, Table3};

/// Ticks in a second.
pub(crate) const SECOND: u64 = 1_000_000_000_000;
