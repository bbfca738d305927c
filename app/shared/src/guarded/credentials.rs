//! Token and certificate of an API, as they are in force.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::token::Token;

/// What files hold.
#[derive(Debug, Default)]
pub struct Credentials {
    /// What requests must carry.
    pub token: Option<Token>,
    /// For TLS.
    pub key: Option<Arc<CertifiedKey>>,
    /// What clients will object to.
    pub warnings: Vec<String>,
}

/// What is in force, until files are read again.
#[derive(Debug)]
pub struct InForce {
    token: ArcSwap<Option<Token>>,
    key: Option<Arc<Presented>>,
}

/// The certificate that clients are shown.
#[derive(Debug)]
struct Presented(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Presented {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl InForce {
    /// These.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        let Credentials { token, key, warnings: _ } = credentials;
        let key = key.map(|key| Arc::new(Presented(ArcSwap::new(key))));
        Self { token: ArcSwap::from_pointee(token), key }
    }

    /// The token that is asked for, if any.
    pub(super) fn token(&self) -> Guard<Arc<Option<Token>>> {
        self.token.load()
    }

    /// How TLS is spoken, if it is.
    pub(super) fn server_config(&self) -> Option<Arc<ServerConfig>> {
        let key = Arc::clone(self.key.as_ref()?);
        Some(Arc::new(ServerConfig::builder().with_no_client_auth().with_cert_resolver(key)))
    }

    /// Puts others in force, for connections and requests to come. Gives the keys whose files have changed.
    pub fn replace(&self, fresh: Credentials) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if **self.token.load() != fresh.token {
            self.token.store(Arc::new(fresh.token));
            changed.push("admin.token_file");
        }
        if let (Some(shown), Some(key)) = (&self.key, fresh.key)
            && shown.0.load().cert != key.cert
        {
            shown.0.store(key);
            changed.push("admin.tls_cert");
        }
        changed
    }
}
