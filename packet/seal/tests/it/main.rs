//! Seals from outside.
//!
//! - [`any_bytes`]: nothing that arrives makes an end panic
//! - [`vectors`]: the test vectors of `docs/protocol.md`
//!
//! The fuzz targets of `lab/fuzz` include files of `common`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_bytes;
mod common;
mod vectors;
