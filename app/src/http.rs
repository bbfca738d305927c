//! HTTP/1 for pages and the admin API: one server and one client.

pub(crate) mod client;
mod guests;
mod idle;
pub(crate) mod names;
pub(crate) mod server;
pub(crate) mod tls;

use std::net::{SocketAddr, TcpListener};

use crate::config::{Config, Located};

/// Binds an address of a configuration.
///
/// # Errors
/// It cannot be listened on.
pub(crate) fn bind(config: &Config, listen: &Located<SocketAddr>) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen.value).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", listen.value);
        let remedy = "choose another address or port, or end the process that uses it (`ss -ltnp`)";
        config.error(listen, message, remedy).into()
    })
}
