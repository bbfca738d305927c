//! Asynchronous training (Olaf): a worker sends an update whenever it has one, without waiting.
//!
//! [`control`] decides whether an update is sent, `outstanding` has those in flight, [`session`] is a
//! member's protocol: a pure state machine as in [`crate::session`], with which it shares the handshake, the
//! heartbeats and recovery from a restart of the appliance.
//!
//! An update is one packet, so a model has to fit into one: see [`most_floats`]. It is not repeated: by the
//! time when its loss is certain, there is a newer one.

pub mod control;
pub mod counters;
mod outstanding;
pub mod session;

pub use control::{Control, Heard, Policy, Slope};
pub use counters::{AsyncCounters, AsyncIgnored};
pub use session::{AsyncSession, Initial, Push, PushError, Settings, Why};

use pascaline_wire::{header, trailer};

/// IPv4 and UDP headers. (IPv6 takes 20 bytes more, see [`most_floats`].)
const IPV4_UDP: usize = 20 + 8;
/// A jumbo frame's room for an IP packet.
pub const JUMBO_MTU: usize = 9000;

/// How many 32-bit floats a model may have on a path with this MTU: an acknowledgement that carries all of
/// them must fit into one packet.
///
/// 356 with the usual 1,500 bytes, and 2,230 with jumbo frames ([`JUMBO_MTU`]). With `ipv6`, addresses are
/// longer.
#[must_use]
pub const fn most_floats(mtu: usize, ipv6: bool) -> usize {
    let around = IPV4_UDP + if ipv6 { 20 } else { 0 } + header::LEN + trailer::ACK_LEN as usize;
    // Payloads are multiples of 8 bytes when a job is joined.
    mtu.saturating_sub(around) / 8 * 2
}
