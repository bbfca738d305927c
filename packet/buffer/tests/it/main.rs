//! Payload arithmetic: every kernel and instruction set.
//!
//! - [`blocks`]: sums of blocks on every instruction set, and their error, against the standard
//! - [`combine`]: every kernel against the scalar one
//! - [`payloads`]: whole payloads with awkward values
//! - [`wide`]: conversions of 16-bit floats, and their sums in a wide accumulator
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod combine;
mod common;
mod payloads;
mod wide;
