//! What the appliance is doing now: for the page at `/`, and for `pascaline top`.
//!
//! Twice a second a [`Sampler`] makes a [`Snapshot`] out of what a scrape reads; [`serve`] keeps the latest and gives it to
//! whoever asks, or waits for the next one. Nothing of it touches an lcore, and nobody can change anything through it.

mod inputs;
mod jobs;
mod sample;
mod serve;
pub(crate) mod snapshot;

pub(crate) use inputs::{Inputs, JobInput};
pub(crate) use sample::Sampler;
pub(crate) use serve::Live;
pub(crate) use snapshot::{Configuration, Snapshot};

#[cfg(test)]
mod tests;
