//! The controller that SwitchML's clients ask before they send anything: a gRPC service for each job with
//! `protocol = "switchml"`, and the client's side of it.

#[cfg(not(feature = "switchml"))]
mod absent;
#[cfg(feature = "switchml")]
mod client;
#[cfg(feature = "switchml")]
mod meeting;
mod notices;
#[cfg(feature = "switchml")]
mod proto;
#[cfg(feature = "switchml")]
mod server;

pub(crate) use notices::Notices;

#[cfg(not(feature = "switchml"))]
pub(crate) use absent::{Controllers, serve};
#[cfg(feature = "switchml")]
pub(crate) use {
    client::{Controller, Error},
    proto::mac_to_u64,
    server::{Controllers, serve},
};
