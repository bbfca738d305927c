//! Who belongs to which job: the control plane's decisions, and how they reach the lcores.

mod admission;
mod commands;
mod deaths;
mod formation;
mod handshake;
mod histories;
mod lcores;
mod missing;
mod operator;
mod payloads;
mod plane;
mod rates;
mod reconfigure;
mod resuming;
mod server;
mod strangers;
