//! The worker against an adversary under a virtual clock, and over real sockets.
//!
//! - [`asking`]: a session asks for the state of its generation, and the Acks it gets
//! - [`asynchronous`]: transmission control of asynchronous workers, and every kind of answer
//! - [`background`], [`streams`]: several operations in progress on one worker, over sockets
//! - [`backup`], [`refused`]: backup appliances, over sockets and where hosts refuse the packets
//! - [`collectives`]: every collective operation against the adversary
//! - [`commanding`]: commands of a member: which answers count, and what follows
//! - [`datagrams`]: any datagram: no panic, no wrong change, one count
//! - [`doubts`]: what a session ignores and does not send while its generation is in doubt
//! - [`driver`]: the driver over sockets: a deadline, never a hang
//! - [`gather`]: when datagrams may gather before the driver reads them
//! - [`generation`], [`inherited`], [`leaving`], [`resume`]: the end of a generation, and what follows it
//! - [`inquiry`], [`notices`]: a stalled worker asks which ranks are missing, and reports them
//! - [`masked`]: sums that the appliance cannot read
//! - [`means`]: quotients of sums
//! - [`membership`]: the handshakes, with an error for each rejection
//! - [`multicast`]: results by a multicast group
//! - [`narrow`], [`payloads`]: `f32` tensors in smaller types, and the payload that ranks agree on
//! - [`pipeline`]: asynchronous training without a server
//! - [`priority`]: DSA's equation 1 against values worked out by hand
//! - [`requests`]: reminders, originals and partial results between ranks
//! - [`sealed`]: packets that prove their sender, over sockets
//! - [`simulation`]: random plans under a virtual clock end with the exact sum on every rank
//! - [`texts`]: `docs/errors.md` has every error text
//! - [`trees`]: several trees, over sockets
//! - [`units`]: the parts by themselves
//!
//! The rest is shared: an appliance ([`aggregator`], [`job`]), the [`adversary`], a [`rank`], a [`world`] of
//! them, and tensors ([`values`]).
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod adversary;
mod aggregator;
mod asking;
mod asynchronous;
mod background;
mod backup;
mod collectives;
mod commanding;
mod datagrams;
mod doubts;
mod driver;
mod gather;
mod generation;
mod inherited;
mod inquiry;
mod job;
mod leaving;
mod masked;
mod means;
mod membership;
mod multicast;
mod narrow;
mod notices;
mod payloads;
mod pipeline;
mod priority;
mod rank;
mod refused;
mod requests;
mod resume;
mod sealed;
mod simulation;
mod streams;
mod texts;
mod trees;
mod units;
mod values;
mod world;
