//! The program `pascaline`, as a library: for its own `main`, and for what `pascaline-lab` measures of it.
#![forbid(unsafe_code)]

mod admin;
mod admin_cmd;
mod appliance;
pub mod cli;
mod config;
mod doctor;
mod http;
mod init;
pub mod laboratory;
mod live;
pub mod manual;
mod server;
mod top;
mod worker_cmd;
