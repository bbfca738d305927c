//! The program `pascaline`, as a library: for its own `main`, and for what `pascaline-lab` measures of it.
#![forbid(unsafe_code)]

mod admin;
mod appliance;
pub mod cli;
mod config;
mod host;
pub mod laboratory;
mod left_out;
mod observe;
mod parameter_server;
mod switchml;
