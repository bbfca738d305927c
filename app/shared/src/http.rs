//! HTTP/1 for pages and APIs: one server and one client.

pub mod client;
mod guests;
mod idle;
pub mod names;
pub mod server;
pub mod tls;
