//! Olaf's queue from outside.
//!
//! - [`algorithm`]: each rule by itself, named after the paper's lines
//! - [`allocation`]: the queue neither allocates nor frees once it is built
//! - [`combine`]: sums and means of every element type
//! - [`model`]: random traces against a slow, obvious model
//! - [`rejections`]: the smallest change to a good update for each rejection
//! - [`shaper`]: rate and burst of the token bucket
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod algorithm;
mod allocation;
mod combine;
mod common;
mod model;
mod rejections;
mod shaper;
