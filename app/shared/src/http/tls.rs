//! Certificates: reading them, what is wrong with them, and whom a client believes.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::file::{self, Unreadable};

/// Bytes of a file with certificates: a whole system's list of authorities is shorter.
const LONGEST: usize = 1 << 20;

/// Bytes of a file with a private key.
const LONGEST_KEY: usize = 64 << 10;

/// The certificates of a PEM file; at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unreadable> {
    let remedy = "name a PEM file with certificates (-----BEGIN CERTIFICATE-----)";
    let none = |message: String| Unreadable { message, remedy };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file::read(path, LONGEST)?).collect();
    let found = found.map_err(|error| none(format!("it is no PEM file: {error}")))?;
    if found.is_empty() { Err(none("there is no certificate in it".to_owned())) } else { Ok(found) }
}

/// A chain with the key of a PEM file; `cert` is the chain's file.
///
/// # Errors
/// There is no such key, or it is another certificate's.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &Path,
    cert: &Path,
) -> Result<Arc<CertifiedKey>, Unreadable> {
    let secret = PrivateKeyDer::from_pem_slice(&file::read(key, LONGEST_KEY)?).map_err(|_| Unreadable {
        message: "there is no private key in it".to_owned(),
        remedy: "name a PEM file with a key that has no passphrase",
    })?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider()).map(Arc::new).map_err(|error| {
        Unreadable {
            message: format!("it does not belong to {}: {error}", cert.display()),
            remedy: "give the key that this certificate was made with",
        }
    })
}

/// What clients that trust the last certificate of this chain would object to; `at` is where the server
/// listens.
pub fn objection(chain: &[CertificateDer<'static>], at: IpAddr) -> Option<String> {
    let (leaf, others) = chain.split_first()?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain.last().cloned());
    let verifier = match verifier(roots) {
        Ok(verifier) => verifier,
        Err(error) => return Some(error),
    };
    let judged = verifier.verify_server_cert(leaf, others, &ServerName::from(at), &[], UnixTime::now());
    let Err(Error::InvalidCertificate(error)) = judged else { return None };
    match &error {
        // By which name or address clients come, nobody knows.
        CertificateError::NotValidForNameContext { presented, .. }
            if at.is_unspecified() && !presented.is_empty() =>
        {
            None
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Some("no certificate of the chain signs the one before it".to_owned())
        }
        // Clients that are given a copy of it take it.
        error if is_authority(error) => None,
        error => Some(told(error).0),
    }
}

/// An authority's certificate is used as a server's. Found out after the times have been looked at.
fn is_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

/// What is wrong with a certificate, and what to do about it.
pub fn told(error: &CertificateError) -> (String, String) {
    const NEW: &str =
        "make a new one, e.g. with `pascaline init --tls`, and have the appliance reload (SIGHUP)";
    let days = |from: &UnixTime, to: &UnixTime| to.as_secs().saturating_sub(from.as_secs()).div_ceil(86_400);
    let (what, remedy) = match error {
        CertificateError::Expired => ("the certificate has expired".to_owned(), NEW),
        CertificateError::ExpiredContext { time, not_after } => {
            (format!("the certificate expired {} day(s) ago", days(not_after, time)), NEW)
        }
        CertificateError::NotValidYet => {
            ("the certificate is not valid yet".to_owned(), "compare the clocks")
        }
        CertificateError::NotValidYetContext { time, not_before } => (
            format!("the certificate becomes valid in {} day(s)", days(time, not_before)),
            "compare the clocks of both machines",
        ),
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => (
            format!("the certificate is for no name (subjectAltName), so not for {}", expected.to_str()),
            "make one with the names that are used, e.g. `pascaline init --tls --name NAME`, or give --ca \
             this very certificate",
        ),
        CertificateError::NotValidForNameContext { expected, presented } => (
            format!("the certificate is not for {}, but for {}", expected.to_str(), presented.join(", ")),
            "use one of its names, or give --ca this very certificate",
        ),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            "the certificate is not signed by those of --ca".to_owned(),
            "give --ca the certificate that signed it, or a copy of the appliance's own (tls_cert)",
        ),
        error if is_authority(error) => (
            "the certificate is an authority's (CA:TRUE), used as a server's".to_owned(),
            "give --ca a copy of this very certificate, or make one with `pascaline init --tls`",
        ),
        error => (error.to_string(), NEW),
    };
    (what, remedy.to_owned())
}

/// What a client shows to a server that asks who it is.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The file with its certificate, and those that signed it.
    pub cert: &'a Path,
    /// The file with the certificate's key.
    pub key: &'a Path,
}

/// A client that believes servers with one of these certificates, or one that they have signed, and shows its
/// own if it has one.
pub fn client(ca: &Path, own: Option<&CertifiedKey>) -> Result<ClientConfig, Unreadable> {
    let pinned = certificates(ca)?;
    let mut roots = RootCertStore::empty();
    // What is no authority's can still be the server's own.
    roots.add_parsable_certificates(pinned.iter().cloned());
    let unusable = |message| Unreadable { message, remedy: "make a new one with `pascaline init --tls`" };
    let verifier = verifier(roots).map_err(unusable)?;
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinning { verifier, pinned }));
    Ok(match own {
        Some(own) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own.clone()))),
        None => config.with_no_client_auth(),
    })
}

/// Has clients show a certificate that is signed by one of this file's, or that is one of them.
pub fn clients_of(ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, Unreadable> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(ca)?);
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().map_err(|error| {
        let remedy = "name a PEM file with the certificates that sign those of clients";
        Unreadable { message: error.to_string(), remedy }
    })
}

/// A certificate, as logs name it: the first half of its SHA-256, as `openssl x509 -fingerprint -sha256`
/// prints it.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = Sha256::digest(certificate);
    let bytes: Vec<String> = digest.iter().take(16).map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn verifier(roots: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| error.to_string())
}

/// Believes what is signed as it should be, and the very certificates that the user has named: whoever has
/// the key to one of those is meant, whatever name and purpose stand in it. It must still be in force.
#[derive(Debug)]
struct Pinning {
    verifier: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Pinning {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.verifier.verify_server_cert(leaf, chain, name, ocsp, now);
        let Err(Error::InvalidCertificate(error)) = &judged else { return judged };
        let of_form = match error {
            CertificateError::UnknownIssuer
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. } => true,
            error => is_authority(error),
        };
        let named = self.pinned.iter().any(|pinned| pinned == leaf);
        if of_form && named { Ok(ServerCertVerified::assertion()) } else { judged }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
