//! Token, certificate and key of the API: as files, and as they are in force.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::token::Token;
use crate::config::admin::TlsFiles;
use crate::config::file::{self, Unreadable};
use crate::config::{AdminConfig, AdminListen, Config, ConfigError, Located};
use crate::http::tls;

/// Bytes of a file with a private key.
const LONGEST_KEY: usize = 64 << 10;

/// What the files hold.
#[derive(Debug)]
pub(crate) struct Credentials {
    token: Option<Token>,
    key: Option<Arc<CertifiedKey>>,
    /// What clients will object to.
    pub(crate) warnings: Vec<String>,
}

impl Credentials {
    /// A token and no TLS.
    pub(crate) const fn plain(token: Option<Token>) -> Self {
        Self { token, key: None, warnings: Vec::new() }
    }

    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// One of them is missing, or not what it should be.
    pub(crate) fn load(config: &Config, admin: &AdminConfig) -> Result<Self, ConfigError> {
        let token = admin.token_file.as_ref().map(|file| Token::load(config, file)).transpose()?;
        let key = admin.tls.as_ref().map(|files| certified(config, files)).transpose()?;
        let mut warnings = Vec::new();
        if let (Some(key), Some(files), AdminListen::Tcp(at)) = (&key, &admin.tls, &admin.listen.value)
            && let Some(objection) = tls::objection(&key.cert, at.ip())
        {
            warnings.push(format!(
                "tls_cert {}: {objection}; clients will refuse it, unless they are given this very \
                    certificate and it is in force",
                files.cert.value.display()
            ));
        }
        Ok(Self { token, key, warnings })
    }
}

fn certified(config: &Config, files: &TlsFiles) -> Result<Arc<CertifiedKey>, ConfigError> {
    let refuse = |at: &Located<PathBuf>, what: &str, remedy: &str| {
        config.error(at, format_args!("{}: {what}", at.value.display()), remedy)
    };
    let unreadable = |at| move |error: Unreadable| refuse(at, &error.message, error.remedy);
    let (cert, key) = (&files.cert, &files.key);
    let chain = tls::certificates(&cert.value).map_err(unreadable(cert))?;
    let pem = file::read(&key.value, LONGEST_KEY).map_err(unreadable(key))?;
    let secret = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        refuse(key, "there is no private key in it", "name a PEM file with a key that has no passphrase")
    })?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider()).map(Arc::new).map_err(|error| {
        let what = format!("it does not belong to {}: {error}", cert.value.display());
        refuse(key, &what, "give the key that tls_cert was made with")
    })
}

/// What is in force, until files are read again.
#[derive(Debug)]
pub(crate) struct InForce {
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
    pub(crate) fn new(credentials: Credentials) -> Self {
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
    pub(crate) fn replace(&self, fresh: Credentials) -> Vec<&'static str> {
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
