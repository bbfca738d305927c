//! The wire format from outside.
//!
//! - [`answers`]: answers for the appliance's own address, against packets written by hand
//! - [`any_bytes`]: no parser panics, and what a parser accepts is written in the same way
//! - [`blocks`]: blocks of elements with a scale, against the standard
//! - [`fast_path`]: the fast path says what the ordinary parsers say
//! - [`malformed`]: each reason to refuse a packet
//! - [`roundtrip`]: every legal value is read as it was written
//! - [`vectors`]: the test vectors of `docs/protocol.md`
//!
//! The fuzz targets of `lab/fuzz` and tests of other crates include files of `common`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod any_bytes;
mod blocks;
mod common;
mod fast_path;
mod malformed;
mod roundtrip;
mod vectors;
