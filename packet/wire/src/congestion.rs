//! How a job's workers share the network: their congestion control, and ECN.
//!
//! The appliance names a job's control to its workers by [code](CongestionControl), in the Acks to their
//! Joins.

use crate::codes::codes;

codes! {
    /// A control of the packets that a worker has in flight.
    pub enum CongestionControl {
        /// The window that the worker was configured with, whatever the network does.
        Fixed = 1 "fixed",
        /// Marked results, by their share (PANAMA, section 4.2 and Figure 5).
        Panama = 2 "panama",
        /// Marked results, by additive increase and multiplicative decrease (DSA, section III.B).
        Dsa = 3 "dsa",
        /// The time that results wait in queues.
        Delay = 4 "delay",
    }
}

impl CongestionControl {
    /// True if marks of congestion make a worker send less: only such packets may ask to be marked instead of
    /// dropped (RFC 3168, section 5).
    #[must_use]
    pub const fn reacts_to_marks(self) -> bool {
        !matches!(self, Self::Fixed)
    }
}

/// Explicit congestion notification (RFC 3168): the two low bits of IPv4's TOS and IPv6's traffic class.
pub mod ecn {
    /// Both bits.
    pub const MASK: u8 = 0b11;
    /// Its sender reacts to marks (the first of two such codes).
    pub const CAPABLE: u8 = 0b10;
    /// CE: congestion was experienced.
    pub const MARKED: u8 = 0b11;

    /// True if a TOS or traffic class says that congestion was experienced.
    #[must_use]
    #[inline]
    pub const fn is_marked(class: u8) -> bool {
        class & MASK == MARKED
    }
}
