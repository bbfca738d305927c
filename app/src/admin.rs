//! The admin API and the command that asks it.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod server;
