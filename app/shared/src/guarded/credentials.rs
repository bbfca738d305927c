//! Token and certificate of an API, as they are in force.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::token::Token;

/// What files hold.
#[derive(Debug, Default)]
pub struct Credentials {
    /// What requests must carry.
    pub token: Option<Token>,
    /// What requests that only read may carry instead.
    pub read_token: Option<Token>,
    /// For TLS.
    pub key: Option<Arc<CertifiedKey>>,
    /// What certificates of clients are judged by, if they must show one.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
    /// What clients will object to.
    pub warnings: Vec<String>,
}

/// What is in force, until files are read again.
#[derive(Debug)]
pub struct InForce {
    tokens: ArcSwap<Tokens>,
    key: Option<Arc<Presented>>,
    /// From the start on.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// The secrets that are asked for, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) all: Option<Token>,
    pub(super) read: Option<Token>,
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
        let Credentials { token: all, read_token: read, key, clients, warnings: _ } = credentials;
        let key = key.map(|key| Arc::new(Presented(ArcSwap::new(key))));
        Self { tokens: ArcSwap::from_pointee(Tokens { all, read }), key, clients }
    }

    /// The tokens that are asked for.
    pub(super) fn tokens(&self) -> Guard<Arc<Tokens>> {
        self.tokens.load()
    }

    /// How TLS is spoken, if it is.
    pub(super) fn server_config(&self) -> Option<Arc<ServerConfig>> {
        let key = Arc::clone(self.key.as_ref()?);
        let config = match &self.clients {
            Some(clients) => ServerConfig::builder().with_client_cert_verifier(Arc::clone(clients)),
            None => ServerConfig::builder().with_no_client_auth(),
        };
        Some(Arc::new(config.with_cert_resolver(key)))
    }

    /// Whether clients must show a certificate: those without one do not get as far as a request.
    pub(super) const fn asks_for_certificates(&self) -> bool {
        self.clients.is_some()
    }

    /// Puts others in force, for connections and requests to come. Gives the keys whose files have changed.
    pub fn replace(&self, fresh: Credentials) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let tokens = Tokens { all: fresh.token, read: fresh.read_token };
        let before = self.tokens.load();
        if before.all != tokens.all {
            changed.push("admin.token_file");
        }
        if before.read != tokens.read {
            changed.push("admin.read_token_file");
        }
        if !changed.is_empty() {
            self.tokens.store(Arc::new(tokens));
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
