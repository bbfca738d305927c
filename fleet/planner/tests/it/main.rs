//! Routes and placements against known optima.
//!
//! - [`averages`]: the paper's default setting over 30 seeds, and its largest networks
//! - [`instances`]: five instances with known optima
//! - [`properties`]: on small random networks, the fast way, the exact program and brute force agree
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod averages;
mod instances;
mod properties;
