//! The admin API as accepted.

use core::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Located;

/// Where the admin API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminListen {
    /// A Unix socket: who may open the file may use the API.
    Unix(PathBuf),
    /// An address and TCP port.
    Tcp(SocketAddr),
}

impl AdminListen {
    /// True if only this machine can reach it.
    pub(crate) const fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Certificate chain and private key, and what signs certificates of clients if they must have one: all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) cert: Located<PathBuf>,
    pub(crate) key: Located<PathBuf>,
    pub(crate) client_ca: Option<Located<PathBuf>>,
}

/// The admin API. Beyond this machine it has TLS, and asks for a token or a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    pub(crate) listen: Located<AdminListen>,
    /// The file with the bearer token, if one is asked for.
    pub(crate) token_file: Option<Located<PathBuf>>,
    /// That of the token of those who only read.
    pub(crate) read_token_file: Option<Located<PathBuf>>,
    pub(crate) tls: Option<TlsFiles>,
}
