//! Shared fixtures of several crates' tests.
//!
//! - [`MemoryIo`]: packet I/O in memory, whose other end is the test's; [`Clock`]: a time that the test sets
//! - [`Worker`]: a rank that builds whole frames; [`Heard`]: a frame taken apart
//! - [`skipped`]: counts a test that cannot run here
//! - [`bytes`], [`trailer`] and others: payloads and trailers as bytes, and back
//!
//! Only a dev-dependency: no `[dependencies]` may name this crate. A test below `tests/` of any crate may use
//! it, also of a crate that this one depends on; a unit test inside such a crate's `src/` may not, since its
//! types would then exist twice. Random numbers come from `fastrand` with a fixed seed.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

mod hosts;
mod io;
mod payload;
mod skip;

pub use hosts::{Heard, JOB, OWN_V4, OWN_V6, UDP_PORT, Worker, port_mac};
pub use io::{Clock, MemoryIo, MemoryPort, ROOM, received};
pub use payload::{bytes, contents, emitted, ranks, trailer, values};
pub use skip::skipped;
