//! Where the API is listened for.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::token::Token;
use crate::config::admin::TlsFiles;
use crate::config::{AdminConfig, AdminListen, Config, ConfigError, Located};
use crate::http;
use crate::http::server::{Listener, SocketFile};

/// Owner and group may use the API: the group of the service's user is how operators get access.
const SOCKET_MODE: u32 = 0o660;

/// The directory that is made for it, if there is none.
const DIRECTORY_MODE: u32 = 0o750;

/// A listener, and what it asks of those who come.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(super) listener: Listener,
    pub(super) token: Option<Token>,
    pub(super) tls: Option<Arc<ServerConfig>>,
}

/// Binds what the configuration says, and reads token, certificate and key.
pub(crate) fn bind(config: &Config, admin: &AdminConfig) -> anyhow::Result<Bound> {
    let token = admin.token_file.as_ref().map(|file| Token::load(config, file)).transpose()?;
    let tls = admin.tls.as_ref().map(|files| tls(config, files)).transpose()?;
    let listener = match &admin.listen.value {
        AdminListen::Unix(path) => unix(config, &admin.listen, path)?,
        AdminListen::Tcp(address) => {
            Listener::Tcp(http::bind(config, &Located { value: *address, place: admin.listen.place })?)
        }
    };
    Ok(Bound { listener, token, tls })
}

fn unix(config: &Config, at: &Located<AdminListen>, path: &Path) -> anyhow::Result<Listener> {
    let refuse = |what: &dyn core::fmt::Display, remedy: &str| -> ConfigError {
        config.error(at, format_args!("cannot listen on {}: {what}", path.display()), remedy)
    };
    // What a service manager does for a service (RuntimeDirectory=); whoever starts it by hand should not
    // have to.
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(directory);
        made.map_err(|error| refuse(&error, "make its directory, or choose another path"))?;
    }
    clear(path, &refuse)?;
    let listener = UnixListener::bind(path).map_err(|error| {
        refuse(&error, "make its directory, writable for the user that runs the appliance")
    })?;
    let file = SocketFile(path.to_owned());
    // Until here it had what the umask left, which never lets others in: connecting takes the right to write.
    let permissions = std::fs::Permissions::from_mode(SOCKET_MODE);
    std::fs::set_permissions(path, permissions).context("setting the mode of the admin socket")?;
    Ok(Listener::Unix(listener, file))
}

/// Removes the socket of an appliance that was killed; leaves alone whatever else is there.
fn clear(
    path: &Path,
    refuse: &dyn Fn(&dyn core::fmt::Display, &str) -> ConfigError,
) -> Result<(), ConfigError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(refuse(&"there is a file that is no socket", "choose another path, or remove it"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| refuse(&error, "remove the old socket"))
            }
            Ok(_) => {
                Err(refuse(&"somebody listens there", "end the other appliance, or choose another path"))
            }
            Err(error) => Err(refuse(&error, "choose another path, or remove it")),
        },
        Err(_) => Ok(()),
    }
}

fn tls(config: &Config, files: &TlsFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let refuse = |at: &Located<PathBuf>, what: &dyn core::fmt::Display, remedy: &str| {
        config.error(at, format_args!("{}: {what}", at.value.display()), remedy)
    };
    let (cert, key) = (&files.cert, &files.key);
    let pem = "name a PEM file that the user that runs the appliance may read";
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&cert.value)
        .and_then(Iterator::collect)
        .map_err(|error| refuse(cert, &error, pem))?;
    if chain.is_empty() {
        return Err(refuse(cert, &"there is no certificate in it", pem).into());
    }
    let secret = PrivateKeyDer::from_pem_file(&key.value).map_err(|error| refuse(key, &error, pem))?;
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| refuse(key, &error, "give the key that belongs to tls_cert"))?;
    Ok(Arc::new(server))
}
