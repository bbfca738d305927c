//! Where the API is listened for.

use std::net::{SocketAddr, TcpListener};

use pascaline_shared::guarded::{Credentials, unix};
use pascaline_shared::http::server::Listener;

use super::credentials::credentials;
use crate::config::{AdminConfig, AdminListen, Config, ConfigError, Located};

/// Binds an address of a configuration.
///
/// # Errors
/// It cannot be listened on.
pub(crate) fn tcp(config: &Config, listen: &Located<SocketAddr>) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen.value).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", listen.value);
        let remedy = "choose another address or port, or end the process that uses it (`ss -ltnp`)";
        config.error(listen, message, remedy).into()
    })
}

/// A listener, and what it asks of those who come.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: Listener,
    pub(crate) credentials: Credentials,
}

/// Binds what the configuration says, and reads token, certificate and key.
pub(crate) fn bind(config: &Config, admin: &AdminConfig) -> anyhow::Result<Bound> {
    let credentials = credentials(config, admin)?;
    let listener = match &admin.listen.value {
        AdminListen::Unix(path) => {
            unix(path, &|what: &dyn core::fmt::Display, remedy: &str| -> ConfigError {
                let message = format_args!("cannot listen on {}: {what}", path.display());
                config.error(&admin.listen, message, remedy)
            })?
        }
        AdminListen::Tcp(address) => {
            Listener::Tcp(tcp(config, &Located { value: *address, place: admin.listen.place })?)
        }
    };
    Ok(Bound { listener, credentials })
}
