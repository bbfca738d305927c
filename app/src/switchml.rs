//! The controller that SwitchML's clients ask before they send anything: a gRPC service for each job with
//! `protocol = "switchml"`, and the client's side of it.

mod client;
mod meeting;
mod proto;
mod server;

pub(crate) use client::{Controller, Error};
pub(crate) use proto::mac_to_u64;
pub(crate) use server::{Controllers, serve};
