//! The admin API and the command that asks it.

pub(crate) mod client;
pub(crate) mod server;
